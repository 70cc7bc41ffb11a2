"""The conditions of two partial indexes without long lists, each of which SQLite makes a table of for every row."""

import sqlalchemy as sa
from alembic import op

revision = "0024"
down_revision = "0023"
branch_labels = None
depends_on = None


def upgrade() -> None:
    if op.get_bind().dialect.name != "sqlite":
        return
    for name, columns, where in (
        ("runs_active", ["status", "created_at"], "status IN ('queued', 'running') OR status = 'waiting'"),
        (
            "runs_by_status",
            ["tenant", "status", "created_at", "id"],
            "status IN ('waiting', 'completed') OR status IN ('failed', 'cancelled')",
        ),
    ):
        op.drop_index(name, "runs")
        op.create_index(name, "runs", columns, sqlite_where=sa.text(where))
