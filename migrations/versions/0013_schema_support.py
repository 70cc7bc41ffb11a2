"""Which is the oldest version that may use the database.

A migration that older versions can live with, because it only adds, leaves the row alone. One that removes or renames
something sets it to the first revision whose version no longer uses that.
"""

import sqlalchemy as sa
from alembic import op

revision = "0013"
down_revision = "0012"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table("schema_support", sa.Column("oldest", sa.Text, nullable=False))
    op.execute("INSERT INTO schema_support (oldest) VALUES ('0013')")
