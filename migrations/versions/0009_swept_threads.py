"""How far `retention.deltaDays` has looked at each thread."""

import sqlalchemy as sa
from alembic import op

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("threads", sa.Column("swept_seq", sa.BigInteger, nullable=False, server_default="0"))
