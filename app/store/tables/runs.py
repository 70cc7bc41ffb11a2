"""What is folded from the events of runs, and which of them have not been judged yet."""

from sqlalchemy import (
    BigInteger,
    Column,
    Double,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    PrimaryKeyConstraint,
    Table,
    Text,
)

from app.store.tables.base import KEY, metadata

runs = Table(
    "runs",
    metadata,
    Column("tenant", Text, nullable=False),
    Column("id", Text, nullable=False),
    Column("thread_key", KEY, ForeignKey("threads.key"), nullable=False),
    Column("thread_id", Text, nullable=False),
    Column("agent", Text),
    Column("status", Text, nullable=False),
    Column("parent_run_id", Text),
    Column("created_at", BigInteger, nullable=False),
    Column("first_seq", BigInteger, nullable=False),
    Column("last_seq", BigInteger, nullable=False),
    Column("run_seq", BigInteger, nullable=False),
    Column("state", LargeBinary, nullable=False),
    PrimaryKeyConstraint("tenant", "id", name="runs_by_id"),
)
Index("runs_by_time", runs.c.tenant, runs.c.created_at, runs.c.id)
Index("runs_of_thread", runs.c.thread_key, runs.c.first_seq)
# SQLite makes a table of each list of more than two values, anew for every row that it writes.
Index(
    "runs_active",
    runs.c.status,
    runs.c.created_at,
    sqlite_where=runs.c.status.in_(("queued", "running")) | (runs.c.status == "waiting"),
    postgresql_where=runs.c.status.in_(("queued", "running", "waiting")),
)

# Not those that are worked on: a run passes through these states once, and is entered here when it rests or has ended.
Index(
    "runs_by_status",
    runs.c.tenant,
    runs.c.status,
    runs.c.created_at,
    runs.c.id,
    sqlite_where=runs.c.status.in_(("waiting", "completed")) | runs.c.status.in_(("failed", "cancelled")),
    postgresql_where=runs.c.status.in_(("waiting", "completed", "failed", "cancelled")),
)
Index("runs_by_agent", runs.c.tenant, runs.c.agent, runs.c.created_at, runs.c.id)

# Folded with its run; empty for runs without labels.
run_labels = Table(
    "run_labels",
    metadata,
    Column("tenant", Text, nullable=False),
    Column("name", Text, nullable=False),
    Column("value", Text, nullable=False),
    Column("created_at", BigInteger, nullable=False),
    Column("run_id", Text, nullable=False),
    Column("thread_key", KEY, ForeignKey("threads.key"), nullable=False),
    PrimaryKeyConstraint("tenant", "name", "value", "created_at", "run_id", name="run_labels_by_value"),
)
Index("run_labels_of_thread", run_labels.c.thread_key)

# Folded with its run; only of runs with queue attributes. `priority` is 1 for background work; `delayed` is 1 while the
# run does not yet stand in its thread's line; `key` is its dedupe key with its scope (`idempotency_keys`); `serial` is
# 1 if it stands in its project's line, of which `started_at` says who went last.
jobs = Table(
    "jobs",
    metadata,
    Column("tenant", Text, nullable=False),
    Column("run_id", Text, nullable=False),
    Column("thread_key", KEY, ForeignKey("threads.key"), nullable=False),
    Column("status", Text, nullable=False),
    Column("type", Text, nullable=False),
    Column("priority", Integer, nullable=False),
    Column("project_id", Text),
    Column("session_id", Text),
    Column("due_at", BigInteger),
    Column("delayed", Integer, nullable=False),
    Column("key", Text),
    Column("created_at", BigInteger, nullable=False),
    Column("serial", Integer, nullable=False, server_default="0"),
    Column("started_at", BigInteger),
    PrimaryKeyConstraint("tenant", "run_id", name="jobs_by_run"),
)
Index("jobs_of_thread", jobs.c.thread_key)
Index("jobs_by_time", jobs.c.tenant, jobs.c.created_at, jobs.c.run_id)
Index("jobs_of_project", jobs.c.tenant, jobs.c.project_id, jobs.c.created_at, jobs.c.run_id)
Index(
    "jobs_in_line",
    jobs.c.tenant,
    jobs.c.project_id,
    jobs.c.status,
    jobs.c.priority,
    jobs.c.created_at,
    jobs.c.run_id,
    sqlite_where=jobs.c.serial == 1,
    postgresql_where=jobs.c.serial == 1,
)
Index(
    "jobs_gone_last",
    jobs.c.tenant,
    jobs.c.project_id,
    jobs.c.started_at,
    sqlite_where=jobs.c.serial == 1,
    postgresql_where=jobs.c.serial == 1,
)

interrupts = Table(
    "interrupts",
    metadata,
    Column("tenant", Text, nullable=False),
    Column("id", Text, nullable=False),
    Column("thread_key", KEY, ForeignKey("threads.key"), nullable=False),
    Column("run_id", Text),
    Column("status", Text, nullable=False),
    Column("expires_at", Text, nullable=False),
    Column("state", LargeBinary, nullable=False),
    Column("call_id", Text),
    PrimaryKeyConstraint("thread_key", "id", name="interrupts_of_thread"),
)
Index(
    "interrupts_by_call",
    interrupts.c.tenant,
    interrupts.c.call_id,
    sqlite_where=interrupts.c.call_id.is_not(None),
    postgresql_where=interrupts.c.call_id.is_not(None),
)
Index("interrupts_by_id", interrupts.c.tenant, interrupts.c.id)
Index(
    "interrupts_open",
    interrupts.c.expires_at,
    sqlite_where=interrupts.c.status == "open",
    postgresql_where=interrupts.c.status == "open",
)

# The tenant of an entry is its thread's.
transcript_entries = Table(
    "transcript_entries",
    metadata,
    Column("thread_key", KEY, ForeignKey("threads.key"), nullable=False),
    Column("message_id", Text, nullable=False),
    Column("position", BigInteger, nullable=False),
    Column("state", LargeBinary, nullable=False),
    PrimaryKeyConstraint("thread_key", "message_id", name="transcript_by_message"),
)
Index(
    "transcript_by_position",
    transcript_entries.c.thread_key,
    transcript_entries.c.position,
    transcript_entries.c.message_id,
)

artifacts = Table(
    "artifacts",
    metadata,
    Column("tenant", Text, nullable=False),
    Column("id", Text, nullable=False),
    Column("thread_key", KEY, ForeignKey("threads.key"), nullable=False),
    Column("run_id", Text),
    Column("seq", BigInteger, nullable=False),
    Column("state", LargeBinary, nullable=False),
    PrimaryKeyConstraint("thread_key", "id", name="artifacts_of_thread"),
)
Index("artifacts_by_id", artifacts.c.tenant, artifacts.c.id)

judgements = Table(
    "judgements",
    metadata,
    Column("tenant", Text, nullable=False),
    Column("id", Text, nullable=False),
    Column("thread_key", KEY, ForeignKey("threads.key"), nullable=False),
    Column("run_id", Text, nullable=False),
    Column("source", Text, nullable=False),
    Column("name", Text, nullable=False),
    Column("mode", Text),
    Column("at", BigInteger, nullable=False),
    Column("score", Double),
    Column("passed", BigInteger),
    Column("state", LargeBinary, nullable=False),
    PrimaryKeyConstraint("thread_key", "id", name="judgements_of_thread"),
)
Index("judgements_of_run", judgements.c.tenant, judgements.c.run_id)
Index("judgements_by_name", judgements.c.tenant, judgements.c.source, judgements.c.name, judgements.c.at)

# Runs that ended and that their shadow gates have not judged yet; `until` is when another server may try.
due_evaluations = Table(
    "due_evaluations",
    metadata,
    Column("tenant", Text, nullable=False),
    Column("run_id", Text, nullable=False),
    Column("thread_id", Text, nullable=False),
    Column("until", BigInteger, nullable=False),
    Column("tries", BigInteger, nullable=False),
    PrimaryKeyConstraint("tenant", "run_id", name="due_evaluations_by_run"),
)
Index("due_evaluations_by_time", due_evaluations.c.until)
