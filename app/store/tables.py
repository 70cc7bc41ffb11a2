"""The tables, once for both databases.

The log is `events` and `deltas`. `threads`, `runs`, `run_labels`, `jobs`, `interrupts`, `transcript_entries`,
`artifacts`, `judgements` and `memory_records` are folded from it and can be rebuilt from it. Outside the fold:
`leases`, `idempotency_keys`, `api_keys`, `due_evaluations`, `blobs`, `blob_refs`, `files`, `file_chunks`, `workspaces`,
`tombstones`, `threads.swept_seq`, the search index of the memory (`memory_namespaces`, `memory_terms`,
`memory_postings`, `memory_index`, `memory_citations`, `memory_vectors`), and what servers on Postgres count together
(`tenant_days`, `run_rates`, `model_limits`, `request_uses`), and what follows the log (`consumers`, `outbox`,
`webhooks`, `deliveries`, `push_configs`, `schedules`). A record's value is JSON in `state`; other columns exist
only where a query needs them.
"""

from sqlalchemy import (
    BigInteger,
    Column,
    Double,
    Float,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    PrimaryKeyConstraint,
    Table,
    Text,
    UniqueConstraint,
)
from sqlalchemy import text as sa_text

metadata = MetaData()
_Key = BigInteger().with_variant(Integer, "sqlite")

threads = Table(
    "threads",
    metadata,
    Column("key", _Key, primary_key=True, autoincrement=True),
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
    Column("thread_key", _Key, ForeignKey("threads.key"), nullable=False),
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
    Column("thread_key", _Key, ForeignKey("threads.key"), nullable=False),
    Column("seq", BigInteger, nullable=False),
    Column("back", Integer, nullable=False),
    Column("uuid", LargeBinary, nullable=False),
    Column("run_shift", BigInteger),
    Column("at_shift", BigInteger),
    Column("text", LargeBinary, nullable=False),
    Column("hash", LargeBinary, nullable=False),
    PrimaryKeyConstraint("thread_key", "seq", name="deltas_by_seq"),
)

runs = Table(
    "runs",
    metadata,
    Column("tenant", Text, nullable=False),
    Column("id", Text, nullable=False),
    Column("thread_key", _Key, ForeignKey("threads.key"), nullable=False),
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
Index(
    "runs_active",
    runs.c.status,
    runs.c.created_at,
    sqlite_where=runs.c.status.in_(("queued", "running", "waiting")),
    postgresql_where=runs.c.status.in_(("queued", "running", "waiting")),
)

_rests = runs.c.status.in_(("waiting", "completed", "failed", "cancelled"))
# Not those that are worked on: a run passes through these states once, and is entered here when it rests or has ended.
Index(
    "runs_by_status",
    runs.c.tenant,
    runs.c.status,
    runs.c.created_at,
    runs.c.id,
    sqlite_where=_rests,
    postgresql_where=_rests,
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
    Column("thread_key", _Key, ForeignKey("threads.key"), nullable=False),
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
    Column("thread_key", _Key, ForeignKey("threads.key"), nullable=False),
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
    Column("thread_key", _Key, ForeignKey("threads.key"), nullable=False),
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
    Column("thread_key", _Key, ForeignKey("threads.key"), nullable=False),
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
    Column("thread_key", _Key, ForeignKey("threads.key"), nullable=False),
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
    Column("thread_key", _Key, ForeignKey("threads.key"), nullable=False),
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

# On the tenant's memory thread. What a record says is not here but in a salted blob.
memory_records = Table(
    "memory_records",
    metadata,
    Column("tenant", Text, nullable=False),
    Column("id", Text, nullable=False),
    Column("thread_key", _Key, ForeignKey("threads.key"), nullable=False),
    Column("seq", BigInteger, nullable=False),
    Column("namespace", Text, nullable=False),
    Column("kind", Text, nullable=False),
    Column("status", Text, nullable=False),
    Column("person", Text),
    Column("expires_at", Text),
    Column("state", LargeBinary, nullable=False),
    # When it was last stored or used, and how certain it is: a search ranks many more records than it returns. Null in
    # rows of earlier versions.
    Column("touched_at", BigInteger),
    Column("confidence", Double),
    PrimaryKeyConstraint("thread_key", "id", name="memory_records_by_id"),
)
Index("memory_records_by_seq", memory_records.c.thread_key, memory_records.c.seq, unique=True)
Index(
    "memory_records_by_namespace",
    memory_records.c.thread_key,
    memory_records.c.namespace,
    memory_records.c.status,
    memory_records.c.seq,
)
Index(
    "memory_records_by_person",
    memory_records.c.thread_key,
    memory_records.c.person,
    memory_records.c.seq,
    sqlite_where=memory_records.c.person.is_not(None),
    postgresql_where=memory_records.c.person.is_not(None),
)

# The search index of the memory records, which can be rebuilt. The tenant of each row is that
# of its namespace.
memory_namespaces = Table(
    "memory_namespaces",
    metadata,
    Column("key", _Key, primary_key=True, autoincrement=True),
    Column("tenant", Text, nullable=False),
    Column("namespace", Text, nullable=False),
    Column("records", BigInteger, nullable=False),
    Column("length", BigInteger, nullable=False),
    # How many vectors were ever put and taken away: whoever keeps them sees by it whether they have changed.
    Column("vectors_put", BigInteger, nullable=False, server_default="0"),
    Column("vectors_gone", BigInteger, nullable=False, server_default="0"),
    UniqueConstraint("tenant", "namespace", name="memory_namespaces_by_name"),
)

memory_terms = Table(
    "memory_terms",
    metadata,
    Column("key", _Key, primary_key=True, autoincrement=True),
    Column("namespace_key", _Key, nullable=False),
    Column("term", Text, nullable=False),
    Column("records", BigInteger, nullable=False),
    UniqueConstraint("namespace_key", "term", name="memory_terms_by_term"),
)

memory_postings = Table(
    "memory_postings",
    metadata,
    Column("term_key", BigInteger, nullable=False),
    Column("seq", BigInteger, nullable=False),
    Column("occurrences", Integer, nullable=False),
    Column("length", Integer, nullable=False),
    PrimaryKeyConstraint("term_key", "seq", name="memory_postings_by_term"),
    sqlite_with_rowid=False,
)

# What of a record is in the index, and what it is compared by with others; deleted when it is forgotten.
memory_index = Table(
    "memory_index",
    metadata,
    Column("namespace_key", _Key, nullable=False),
    Column("seq", BigInteger, nullable=False),
    Column("length", Integer, nullable=False),
    Column("fingerprint", Text, nullable=False),
    Column("slot", Text),
    Column("terms", LargeBinary, nullable=False),
    PrimaryKeyConstraint("namespace_key", "seq", name="memory_index_by_seq"),
)
Index("memory_index_by_fingerprint", memory_index.c.namespace_key, memory_index.c.fingerprint)
Index("memory_index_by_slot", memory_index.c.namespace_key, memory_index.c.slot)

# Which blobs repeat the text of a record: the recalled contexts of runs. Deleted with the record's text.
memory_citations = Table(
    "memory_citations",
    metadata,
    Column("tenant", Text, nullable=False),
    Column("record_id", Text, nullable=False),
    Column("sha256", Text, nullable=False),
    PrimaryKeyConstraint("tenant", "record_id", "sha256", name="memory_citations_by_record"),
)

# Embeddings of records, by the model that made them; made again when they are missing.
memory_vectors = Table(
    "memory_vectors",
    metadata,
    Column("namespace_key", _Key, nullable=False),
    Column("model", Text, nullable=False),
    Column("seq", BigInteger, nullable=False),
    Column("vector", LargeBinary, nullable=False),
    PrimaryKeyConstraint("namespace_key", "model", "seq", name="memory_vectors_by_seq"),
)
Index("memory_vectors_by_record", memory_vectors.c.namespace_key, memory_vectors.c.seq)

leases = Table(
    "leases",
    metadata,
    Column("tenant", Text, nullable=False),
    Column("run_id", Text, nullable=False),
    Column("owner", Text, nullable=False),
    Column("epoch", BigInteger, nullable=False),
    Column("until", BigInteger, nullable=False),
    # Whether the run may be what kills its servers, how often it did alone, and who died with it before this owner.
    Column("suspect", BigInteger, nullable=False, server_default="0"),
    Column("deaths", BigInteger, nullable=False, server_default="0"),
    Column("previous", Text),
    PrimaryKeyConstraint("tenant", "run_id", name="leases_by_run"),
)
Index(
    "leases_by_previous",
    leases.c.previous,
    sqlite_where=leases.c.previous.is_not(None),
    postgresql_where=leases.c.previous.is_not(None),
)

idempotency_keys = Table(
    "idempotency_keys",
    metadata,
    Column("tenant", Text, nullable=False),
    Column("route", Text, nullable=False),
    Column("key", Text, nullable=False),
    Column("body_hash", Text, nullable=False),
    Column("run_id", Text, nullable=False),
    Column("expires_at", BigInteger, nullable=False),
    PrimaryKeyConstraint("tenant", "route", "key", name="idempotency_by_key"),
)
Index("idempotency_expiry", idempotency_keys.c.expires_at)

# No tenant: what follows the log follows it for all of them. `types` is what it wants to hear, a JSON list.
consumers = Table(
    "consumers",
    metadata,
    Column("name", Text, nullable=False),
    Column("types", Text, nullable=False),
    Column("owner", Text),
    Column("until", BigInteger, nullable=False, server_default="0"),
    PrimaryKeyConstraint("name", name="consumers_by_name"),
)

# Events that a consumer has not acknowledged, written by the append that stored them. Within a thread in its order.
outbox = Table(
    "outbox",
    metadata,
    Column("id", _Key, primary_key=True, autoincrement=True),
    Column("consumer", Text, nullable=False),
    Column("tenant", Text, nullable=False),
    Column("thread_id", Text, nullable=False),
    Column("seq", BigInteger, nullable=False),
)
Index("outbox_of_consumer", outbox.c.consumer, outbox.c.id)

webhooks = Table(
    "webhooks",
    metadata,
    Column("tenant", Text, nullable=False),
    Column("id", Text, nullable=False),
    Column("state", LargeBinary, nullable=False),
    Column("secrets", LargeBinary, nullable=False),
    PrimaryKeyConstraint("tenant", "id", name="webhooks_by_id"),
)

# What is to be sent, or was, to a webhook. `status` is pending, delivered or dead.
deliveries = Table(
    "deliveries",
    metadata,
    Column("id", _Key, primary_key=True, autoincrement=True),
    Column("tenant", Text, nullable=False),
    Column("webhook_id", Text, nullable=False),
    Column("event_id", Text, nullable=False),
    Column("type", Text, nullable=False),
    Column("body", LargeBinary, nullable=False),
    Column("status", Text, nullable=False),
    Column("attempts", Integer, nullable=False),
    Column("created_at", BigInteger, nullable=False),
    Column("next_at", BigInteger, nullable=False),
    Column("failing_since", BigInteger),
    Column("ended_at", BigInteger),
    Column("answer", Text),
    UniqueConstraint("tenant", "webhook_id", "event_id", name="deliveries_by_event"),
)
_pending = deliveries.c.status == "pending"
Index(
    "deliveries_pending",
    deliveries.c.tenant,
    deliveries.c.webhook_id,
    deliveries.c.id,
    sqlite_where=_pending,
    postgresql_where=_pending,
)
Index("deliveries_of_webhook", deliveries.c.tenant, deliveries.c.webhook_id, deliveries.c.status, deliveries.c.id)

# Where A2A clients want to be told of a run, sealed: the address and what shows the receiver who writes.
push_configs = Table(
    "push_configs",
    metadata,
    Column("tenant", Text, nullable=False),
    Column("run_id", Text, nullable=False),
    Column("id", Text, nullable=False),
    Column("created_at", BigInteger, nullable=False),
    Column("sealed", LargeBinary, nullable=False),
    PrimaryKeyConstraint("tenant", "run_id", "id", name="push_configs_by_run"),
)

# Logins to remote MCP servers, sealed. Outside the fold: tokens are in no event.
mcp_grants = Table(
    "mcp_grants",
    metadata,
    Column("tenant", Text, nullable=False),
    Column("server", Text, nullable=False),
    Column("sealed", LargeBinary, nullable=False),
    # Until when one of the servers renews it, in milliseconds.
    Column("renewing_until", BigInteger, nullable=False, server_default="0"),
    PrimaryKeyConstraint("tenant", "server", name="mcp_grants_by_server"),
)

schedules = Table(
    "schedules",
    metadata,
    Column("tenant", Text, nullable=False),
    Column("name", Text, nullable=False),
    Column("state", LargeBinary, nullable=False),
    PrimaryKeyConstraint("tenant", "name", name="schedules_by_name"),
)

# Found by id alone: the key itself names its owner. Written with the ledger's event, never without.
api_keys = Table(
    "api_keys",
    metadata,
    Column("id", Text, primary_key=True),
    Column("tenant", Text, nullable=False),
    Column("digest", LargeBinary, nullable=False),
    Column("revoked_at", BigInteger),
    Column("state", LargeBinary, nullable=False),
)
Index("api_keys_of_tenant", api_keys.c.tenant, api_keys.c.id)

blobs = Table(
    "blobs",
    metadata,
    Column("tenant", Text, nullable=False),
    Column("sha256", Text, nullable=False),
    Column("size", BigInteger, nullable=False),
    Column("mime", Text, nullable=False),
    Column("data", LargeBinary, nullable=False),
    PrimaryKeyConstraint("tenant", "sha256", name="blobs_by_hash"),
)

# Which threads need a blob: it is purged with the last of them.
blob_refs = Table(
    "blob_refs",
    metadata,
    Column("tenant", Text, nullable=False),
    Column("sha256", Text, nullable=False),
    Column("thread_key", _Key, ForeignKey("threads.key"), nullable=False),
    PrimaryKeyConstraint("tenant", "sha256", "thread_key", name="blob_refs_by_hash"),
)
Index("blob_refs_of_thread", blob_refs.c.thread_key)

# What clients uploaded. A file can be seen once it is stored; its content comes before that, chunk by chunk.
files = Table(
    "files",
    metadata,
    Column("tenant", Text, nullable=False),
    Column("id", Text, nullable=False),
    Column("name", Text, nullable=False),
    Column("mime", Text, nullable=False),
    Column("size", BigInteger, nullable=False),
    Column("sha256", Text, nullable=False),
    Column("created_by", Text, nullable=False),
    Column("created_at", BigInteger, nullable=False),
    Column("stored_at", BigInteger),
    Column("deleted_at", BigInteger),
    PrimaryKeyConstraint("tenant", "id", name="files_by_id"),
)
Index(
    "files_to_purge",
    files.c.created_at,
    sqlite_where=sa_text("stored_at IS NULL OR deleted_at IS NOT NULL"),
    postgresql_where=sa_text("stored_at IS NULL OR deleted_at IS NOT NULL"),
)

file_chunks = Table(
    "file_chunks",
    metadata,
    Column("tenant", Text, nullable=False),
    Column("file_id", Text, nullable=False),
    Column("number", BigInteger, nullable=False),
    Column("data", LargeBinary, nullable=False),
    PrimaryKeyConstraint("tenant", "file_id", "number", name="file_chunks_by_number"),
)

# No tenant: one server has one workspace, seen by all its tenants.
workspaces = Table(
    "workspaces",
    metadata,
    Column("digest", Text, primary_key=True),
    Column("files", LargeBinary, nullable=False),
)

# Used only where several servers may share the database (`shared_limits`). Costs in billionths of a dollar.
tenant_days = Table(
    "tenant_days",
    metadata,
    Column("tenant", Text, nullable=False),
    Column("day", BigInteger, nullable=False),
    Column("tokens", BigInteger, nullable=False),
    Column("cost", BigInteger, nullable=False),
    PrimaryKeyConstraint("tenant", "day", name="tenant_days_by_day"),
)

run_rates = Table(
    "run_rates",
    metadata,
    Column("tenant", Text, nullable=False),
    Column("room", Float, nullable=False),
    Column("at", BigInteger, nullable=False),
    Column("per_minute", BigInteger, nullable=False),
    PrimaryKeyConstraint("tenant", name="run_rates_by_tenant"),
)

# No tenant: a provider's limit is shared by all of them.
model_limits = Table(
    "model_limits",
    metadata,
    Column("name", Text, nullable=False),
    Column("version", BigInteger, nullable=False),
    Column("state", Text, nullable=False),
    PrimaryKeyConstraint("name", name="model_limits_by_name"),
)

# Outside the fold: what callers used at all servers, while no bus says it.
request_uses = Table(
    "request_uses",
    metadata,
    Column("tenant", Text, nullable=False),
    Column("caller", Text, nullable=False),
    Column("used", BigInteger, nullable=False),
    Column("at", BigInteger, nullable=False),
    PrimaryKeyConstraint("tenant", "caller", name="request_uses_by_caller"),
)

# No tenant: one row, about the database as a whole.
schema_support = Table("schema_support", metadata, Column("oldest", Text, nullable=False))

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
