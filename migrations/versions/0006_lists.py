"""Lists of runs by status, agent and label, and pages of a transcript, each by an index.

The labels of stored runs are taken over from their records, in the same transaction.
"""

import json

import sqlalchemy as sa
from alembic import op

revision = "0006"
down_revision = "0005"
branch_labels = None
depends_on = None

_KEY = sa.BigInteger().with_variant(sa.Integer, "sqlite")
_RESTS = "status IN ('waiting', 'completed', 'failed', 'cancelled')"
_PAGE = 1000
_LENGTH = 200
"""Characters of a name or value that are kept here: an index has a limit."""


def upgrade() -> None:
    op.create_index(
        "runs_by_status",
        "runs",
        ["tenant", "status", "created_at", "id"],
        sqlite_where=sa.text(_RESTS),
        postgresql_where=sa.text(_RESTS),
    )
    op.create_index("runs_by_agent", "runs", ["tenant", "agent", "created_at", "id"])
    op.create_index("transcript_by_position", "transcript_entries", ["thread_key", "position", "message_id"])
    op.create_table(
        "run_labels",
        sa.Column("tenant", sa.Text, nullable=False),
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("value", sa.Text, nullable=False),
        sa.Column("created_at", sa.BigInteger, nullable=False),
        sa.Column("run_id", sa.Text, nullable=False),
        sa.Column("thread_key", _KEY, sa.ForeignKey("threads.key"), nullable=False),
        sa.PrimaryKeyConstraint("tenant", "name", "value", "created_at", "run_id", name="run_labels_by_value"),
    )
    op.create_index("run_labels_of_thread", "run_labels", ["thread_key"])
    _take_over_labels(op.get_bind())


def _take_over_labels(connection: sa.Connection) -> None:
    page = sa.text(
        "SELECT tenant, id, created_at, thread_key, state FROM runs WHERE (tenant, id) > (:tenant, :id) "
        "ORDER BY tenant, id LIMIT :page"
    )
    put = sa.text(
        "INSERT INTO run_labels (tenant, name, value, created_at, run_id, thread_key) "
        "VALUES (:tenant, :name, :value, :created_at, :run_id, :thread_key) ON CONFLICT DO NOTHING"
    )
    tenant, run_id, rows = "", "", [()]
    while rows:
        rows = connection.execute(page, {"tenant": tenant, "id": run_id, "page": _PAGE}).fetchall()
        labels = [
            {"tenant": row[0], "name": _kept(name), "value": _kept(value), "created_at": row[2], "run_id": row[1],
             "thread_key": row[3]}
            for row in rows
            if b'"labels":{}' not in bytes(row[4])
            for name, value in (json.loads(bytes(row[4])).get("labels") or {}).items()
        ]  # fmt: skip
        if labels:
            connection.execute(put, labels)
        if rows:
            tenant, run_id = rows[-1][0], rows[-1][1]


def _kept(text: str) -> str:
    return text.replace("\0", "")[:_LENGTH]
