"""The log, the tables folded from it, and what stands beside the fold."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None

_KEY = sa.BigInteger().with_variant(sa.Integer, "sqlite")


def _text(name: str, nullable: bool = False) -> "sa.Column[str]":
    return sa.Column(name, sa.Text, nullable=nullable)


def _number(name: str, nullable: bool = False) -> "sa.Column[int]":
    return sa.Column(name, sa.BigInteger, nullable=nullable)


def _bytes(name: str) -> "sa.Column[bytes]":
    return sa.Column(name, sa.LargeBinary, nullable=False)


def _thread_key() -> "sa.Column[int]":
    return sa.Column("thread_key", _KEY, sa.ForeignKey("threads.key"), nullable=False)


def _partial(condition: str) -> dict[str, sa.TextClause]:
    return {"sqlite_where": sa.text(condition), "postgresql_where": sa.text(condition)}


def upgrade() -> None:
    op.create_table(
        "threads",
        sa.Column("key", _KEY, primary_key=True, autoincrement=True),
        _text("tenant"), _text("id"), _number("last_seq"), _bytes("head_hash"), _number("updated_at"),
        _number("created_at"), _number("deleted_at", nullable=True), _bytes("state"),
        sa.UniqueConstraint("tenant", "id", name="threads_by_id"),
    )  # fmt: skip
    op.create_index("threads_deleted", "threads", ["deleted_at"], **_partial("deleted_at IS NOT NULL"))
    op.create_table(
        "events",
        _thread_key(), _number("seq"), _text("id"), _text("run_id", True), _number("run_seq", True), _text("type"),
        _text("actor"), _number("at"), _text("parent_id", True), _bytes("payload"), _bytes("prev_hash"), _bytes("hash"),
        sa.PrimaryKeyConstraint("thread_key", "seq", name="events_by_seq"),
    )  # fmt: skip
    op.create_table(
        "runs",
        _text("tenant"), _text("id"), _thread_key(), _text("thread_id"), _text("agent", True), _text("status"),
        _text("parent_run_id", True), _number("created_at"), _number("first_seq"), _number("last_seq"),
        _number("run_seq"), _bytes("state"),
        sa.PrimaryKeyConstraint("tenant", "id", name="runs_by_id"),
    )  # fmt: skip
    op.create_index("runs_by_time", "runs", ["tenant", "created_at", "id"])
    op.create_index("runs_of_thread", "runs", ["thread_key", "first_seq"])
    op.create_index(
        "runs_active",
        "runs",
        ["status", "created_at"],
        **_partial("status IN ('queued', 'running', 'waiting')"),
    )
    op.create_table(
        "interrupts",
        _text("tenant"), _text("id"), _thread_key(), _text("run_id", True), _text("status"), _text("expires_at"),
        _bytes("state"),
        sa.PrimaryKeyConstraint("thread_key", "id", name="interrupts_of_thread"),
    )  # fmt: skip
    op.create_index("interrupts_by_id", "interrupts", ["tenant", "id"])
    op.create_index("interrupts_open", "interrupts", ["expires_at"], **_partial("status = 'open'"))
    op.create_table(
        "transcript_entries",
        _thread_key(), _text("message_id"), _number("position"), _bytes("state"),
        sa.PrimaryKeyConstraint("thread_key", "message_id", name="transcript_by_message"),
    )  # fmt: skip
    op.create_table(
        "artifacts",
        _text("tenant"), _text("id"), _thread_key(), _text("run_id", True), _number("seq"), _bytes("state"),
        sa.PrimaryKeyConstraint("thread_key", "id", name="artifacts_of_thread"),
    )  # fmt: skip
    op.create_index("artifacts_by_id", "artifacts", ["tenant", "id"])
    op.create_table(
        "leases",
        _text("tenant"), _text("run_id"), _text("owner"), _number("epoch"), _number("until"),
        sa.PrimaryKeyConstraint("tenant", "run_id", name="leases_by_run"),
    )  # fmt: skip
    op.create_table(
        "idempotency_keys",
        _text("tenant"), _text("route"), _text("key"), _text("body_hash"), _text("run_id"), _number("expires_at"),
        sa.PrimaryKeyConstraint("tenant", "route", "key", name="idempotency_by_key"),
    )  # fmt: skip
    op.create_index("idempotency_expiry", "idempotency_keys", ["expires_at"])
    op.create_table(
        "blobs",
        _text("tenant"), _text("sha256"), _number("size"), _text("mime"), _bytes("data"),
        sa.PrimaryKeyConstraint("tenant", "sha256", name="blobs_by_hash"),
    )  # fmt: skip
    op.create_table(
        "blob_refs",
        _text("tenant"), _text("sha256"), _thread_key(),
        sa.PrimaryKeyConstraint("tenant", "sha256", "thread_key", name="blob_refs_by_hash"),
    )  # fmt: skip
    op.create_index("blob_refs_of_thread", "blob_refs", ["thread_key"])
    op.create_table("workspaces", sa.Column("digest", sa.Text, primary_key=True), _bytes("files"))
    op.create_table(
        "tombstones",
        _text("tenant"), _text("thread_id"), _number("last_seq"), _bytes("head_hash"), _number("purged_at"),
        sa.PrimaryKeyConstraint("tenant", "thread_id", name="tombstones_by_id"),
    )  # fmt: skip
