"""What ranks a memory record beside its words is in columns of its own. Rows without them are read as before."""

import sqlalchemy as sa
from alembic import op

revision = "0020"
down_revision = "0019"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("memory_records", sa.Column("touched_at", sa.BigInteger))
    op.add_column("memory_records", sa.Column("confidence", sa.Double))
