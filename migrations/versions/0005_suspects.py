"""Leases say whether their run may be what kills the server: see ADR 13."""

import sqlalchemy as sa
from alembic import op

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("leases", sa.Column("suspect", sa.BigInteger, nullable=False, server_default="0"))
    op.add_column("leases", sa.Column("deaths", sa.BigInteger, nullable=False, server_default="0"))
    op.add_column("leases", sa.Column("previous", sa.Text, nullable=True))
