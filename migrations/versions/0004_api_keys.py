"""API keys: what is kept of each is its digest."""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "api_keys",
        sa.Column("id", sa.Text, primary_key=True),
        sa.Column("tenant", sa.Text, nullable=False),
        sa.Column("digest", sa.LargeBinary, nullable=False),
        sa.Column("revoked_at", sa.BigInteger, nullable=True),
        sa.Column("state", sa.LargeBinary, nullable=False),
    )
    op.create_index("api_keys_of_tenant", "api_keys", ["tenant", "id"])
