"""Jobs that stand in the line of their project, and when each was last begun. Older jobs stand in none."""

import sqlalchemy as sa
from alembic import op

revision = "0023"
down_revision = "0022"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("jobs", sa.Column("serial", sa.Integer, nullable=False, server_default="0"))
    op.add_column("jobs", sa.Column("started_at", sa.BigInteger))
    serial = sa.text("serial = 1")
    for name, columns in (
        ("jobs_in_line", ["tenant", "project_id", "status", "priority", "created_at", "run_id"]),
        ("jobs_gone_last", ["tenant", "project_id", "started_at"]),
    ):
        op.create_index(name, "jobs", columns, sqlite_where=serial, postgresql_where=serial)
