"""The log itself, and the threads that its events belong to."""

from sqlalchemy import (
    BigInteger,
    Column,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    PrimaryKeyConstraint,
    Table,
    Text,
    UniqueConstraint,
)

from app.store.tables.base import KEY, metadata

threads = Table(
    "threads",
    metadata,
    Column("key", KEY, primary_key=True, autoincrement=True),
    Column("tenant", Text, nullable=False),
    Column("id", Text, nullable=False),
    Column("last_seq", BigInteger, nullable=False),
    Column("head_hash", LargeBinary, nullable=False),
    Column("updated_at", BigInteger, nullable=False),
    Column("created_at", BigInteger, nullable=False),
    Column("deleted_at", BigInteger),
    Column("state", LargeBinary, nullable=False),
    # Outside the fold: up to here no delta is left that retention could drop.
    Column("swept_seq", BigInteger, nullable=False, server_default="0"),
    UniqueConstraint("tenant", "id", name="threads_by_id"),
)
Index("threads_of_tenant", threads.c.tenant, threads.c.key)
# Not on a column that an append changes: every append would write this index as well.
Index("threads_by_age", threads.c.created_at, threads.c.key)
Index(
    "threads_deleted",
    threads.c.deleted_at,
    sqlite_where=threads.c.deleted_at.is_not(None),
    postgresql_where=threads.c.deleted_at.is_not(None),
)

# The tenant of an event is its thread's, which the key stands for.
events = Table(
    "events",
    metadata,
    Column("thread_key", KEY, ForeignKey("threads.key"), nullable=False),
    Column("seq", BigInteger, nullable=False),
    Column("id", Text, nullable=False),
    Column("run_id", Text),
    Column("run_seq", BigInteger),
    Column("type", Text, nullable=False),
    Column("actor", Text, nullable=False),
    Column("at", BigInteger, nullable=False),
    Column("parent_id", Text),
    Column("payload", LargeBinary, nullable=False),
    Column("prev_hash", LargeBinary, nullable=False),
    Column("hash", LargeBinary, nullable=False),
    PrimaryKeyConstraint("thread_key", "seq", name="events_by_seq"),
)

# Deltas that follow the first one of their message, which is in `events` and is their base: what they do not have in
# common with it (`event_rows`). At most eight columns: with more, each row of Postgres takes eight bytes more.
deltas = Table(
    "deltas",
    metadata,
    Column("thread_key", KEY, ForeignKey("threads.key"), nullable=False),
    Column("seq", BigInteger, nullable=False),
    Column("back", Integer, nullable=False),
    Column("uuid", LargeBinary, nullable=False),
    Column("run_shift", BigInteger),
    Column("at_shift", BigInteger),
    Column("text", LargeBinary, nullable=False),
    Column("hash", LargeBinary, nullable=False),
    PrimaryKeyConstraint("thread_key", "seq", name="deltas_by_seq"),
)

tombstones = Table(
    "tombstones",
    metadata,
    Column("tenant", Text, nullable=False),
    Column("thread_id", Text, nullable=False),
    Column("last_seq", BigInteger, nullable=False),
    Column("head_hash", LargeBinary, nullable=False),
    Column("purged_at", BigInteger, nullable=False),
    Column("deleted_at", BigInteger),
    PrimaryKeyConstraint("tenant", "thread_id", name="tombstones_by_id"),
)
