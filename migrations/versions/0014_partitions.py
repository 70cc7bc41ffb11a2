"""On Postgres: the log in partitions if it is small, and storage settings for what is written most.

Older versions use the tables by the same names. A large log is left as it is: copying it would stop everybody for
minutes, so the operator chooses when (`holdfast partition`).
"""

import sqlalchemy as sa
from alembic import op

from app.store.partitions import IS_PARTITIONED, IS_SMALL, LOCK, SETTINGS, TABLES, conversion

revision = "0014"
down_revision = "0013"
branch_labels = None
depends_on = None


def upgrade() -> None:
    connection = op.get_bind()
    if connection.dialect.name != "postgresql":
        return
    connection.execute(sa.text(LOCK))
    if (
        not connection.execute(sa.text(IS_PARTITIONED)).scalar()
        and connection.execute(sa.text(f"SELECT {IS_SMALL}")).scalar()
    ):
        for table in TABLES:
            for statement in conversion(table):
                connection.execute(sa.text(statement))
    for statement in SETTINGS:
        connection.execute(sa.text(statement))
