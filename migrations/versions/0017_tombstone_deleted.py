"""When a purged thread was deleted, for whoever asks for it afterwards."""

import sqlalchemy as sa
from alembic import op

revision = "0017"
down_revision = "0016"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("tombstones", sa.Column("deleted_at", sa.BigInteger))
