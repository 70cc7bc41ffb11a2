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

from app.store.tables import contents, followers, log, memory, runs, servers
from app.store.tables.base import metadata

__all__ = ["contents", "followers", "log", "memory", "metadata", "runs", "servers"]
