"""Requests of callers at all servers, counted while the servers cannot say it to each other."""

import sqlalchemy as sa
from alembic import op

revision = "0015"
down_revision = "0014"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "request_uses",
        sa.Column("tenant", sa.Text, nullable=False),
        sa.Column("caller", sa.Text, nullable=False),
        sa.Column("used", sa.BigInteger, nullable=False),
        sa.Column("at", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("tenant", "caller", name="request_uses_by_caller"),
    )
