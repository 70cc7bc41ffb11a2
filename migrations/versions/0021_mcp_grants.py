"""Logins to remote MCP servers, sealed."""

import sqlalchemy as sa
from alembic import op

revision = "0021"
down_revision = "0020"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "mcp_grants",
        sa.Column("tenant", sa.Text, nullable=False),
        sa.Column("server", sa.Text, nullable=False),
        sa.Column("sealed", sa.LargeBinary, nullable=False),
        sa.Column("renewing_until", sa.BigInteger, nullable=False, server_default="0"),
        sa.PrimaryKeyConstraint("tenant", "server", name="mcp_grants_by_server"),
    )
