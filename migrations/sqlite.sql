CREATE TABLE alembic_version (
	version_num VARCHAR(32) NOT NULL,
	CONSTRAINT alembic_version_pkc PRIMARY KEY (version_num)
);
CREATE TABLE threads (
	"key" INTEGER NOT NULL,
	tenant TEXT NOT NULL,
	id TEXT NOT NULL,
	last_seq BIGINT NOT NULL,
	head_hash BLOB NOT NULL,
	updated_at BIGINT NOT NULL,
	created_at BIGINT NOT NULL,
	deleted_at BIGINT,
	state BLOB NOT NULL, swept_seq BIGINT DEFAULT '0' NOT NULL,
	PRIMARY KEY ("key"),
	CONSTRAINT threads_by_id UNIQUE (tenant, id)
);
CREATE INDEX threads_deleted ON threads (deleted_at) WHERE deleted_at IS NOT NULL;
CREATE TABLE events (
	thread_key INTEGER NOT NULL,
	seq BIGINT NOT NULL,
	id TEXT NOT NULL,
	run_id TEXT,
	run_seq BIGINT,
	type TEXT NOT NULL,
	actor TEXT NOT NULL,
	at BIGINT NOT NULL,
	parent_id TEXT,
	payload BLOB NOT NULL,
	prev_hash BLOB NOT NULL,
	hash BLOB NOT NULL,
	CONSTRAINT events_by_seq PRIMARY KEY (thread_key, seq),
	FOREIGN KEY(thread_key) REFERENCES threads ("key")
);
CREATE TABLE runs (
	tenant TEXT NOT NULL,
	id TEXT NOT NULL,
	thread_key INTEGER NOT NULL,
	thread_id TEXT NOT NULL,
	agent TEXT,
	status TEXT NOT NULL,
	parent_run_id TEXT,
	created_at BIGINT NOT NULL,
	first_seq BIGINT NOT NULL,
	last_seq BIGINT NOT NULL,
	run_seq BIGINT NOT NULL,
	state BLOB NOT NULL,
	CONSTRAINT runs_by_id PRIMARY KEY (tenant, id),
	FOREIGN KEY(thread_key) REFERENCES threads ("key")
);
CREATE INDEX runs_by_time ON runs (tenant, created_at, id);
CREATE INDEX runs_of_thread ON runs (thread_key, first_seq);
CREATE TABLE interrupts (
	tenant TEXT NOT NULL,
	id TEXT NOT NULL,
	thread_key INTEGER NOT NULL,
	run_id TEXT,
	status TEXT NOT NULL,
	expires_at TEXT NOT NULL,
	state BLOB NOT NULL, call_id TEXT,
	CONSTRAINT interrupts_of_thread PRIMARY KEY (thread_key, id),
	FOREIGN KEY(thread_key) REFERENCES threads ("key")
);
CREATE INDEX interrupts_by_id ON interrupts (tenant, id);
CREATE INDEX interrupts_open ON interrupts (expires_at) WHERE status = 'open';
CREATE TABLE transcript_entries (
	thread_key INTEGER NOT NULL,
	message_id TEXT NOT NULL,
	position BIGINT NOT NULL,
	state BLOB NOT NULL,
	CONSTRAINT transcript_by_message PRIMARY KEY (thread_key, message_id),
	FOREIGN KEY(thread_key) REFERENCES threads ("key")
);
CREATE TABLE artifacts (
	tenant TEXT NOT NULL,
	id TEXT NOT NULL,
	thread_key INTEGER NOT NULL,
	run_id TEXT,
	seq BIGINT NOT NULL,
	state BLOB NOT NULL,
	CONSTRAINT artifacts_of_thread PRIMARY KEY (thread_key, id),
	FOREIGN KEY(thread_key) REFERENCES threads ("key")
);
CREATE INDEX artifacts_by_id ON artifacts (tenant, id);
CREATE TABLE leases (
	tenant TEXT NOT NULL,
	run_id TEXT NOT NULL,
	owner TEXT NOT NULL,
	epoch BIGINT NOT NULL,
	until BIGINT NOT NULL, suspect BIGINT DEFAULT '0' NOT NULL, deaths BIGINT DEFAULT '0' NOT NULL, previous TEXT,
	CONSTRAINT leases_by_run PRIMARY KEY (tenant, run_id)
);
CREATE TABLE idempotency_keys (
	tenant TEXT NOT NULL,
	route TEXT NOT NULL,
	"key" TEXT NOT NULL,
	body_hash TEXT NOT NULL,
	run_id TEXT NOT NULL,
	expires_at BIGINT NOT NULL,
	CONSTRAINT idempotency_by_key PRIMARY KEY (tenant, route, "key")
);
CREATE INDEX idempotency_expiry ON idempotency_keys (expires_at);
CREATE TABLE blobs (
	tenant TEXT NOT NULL,
	sha256 TEXT NOT NULL,
	size BIGINT NOT NULL,
	mime TEXT NOT NULL,
	data BLOB NOT NULL,
	CONSTRAINT blobs_by_hash PRIMARY KEY (tenant, sha256)
);
CREATE TABLE blob_refs (
	tenant TEXT NOT NULL,
	sha256 TEXT NOT NULL,
	thread_key INTEGER NOT NULL,
	CONSTRAINT blob_refs_by_hash PRIMARY KEY (tenant, sha256, thread_key),
	FOREIGN KEY(thread_key) REFERENCES threads ("key")
);
CREATE INDEX blob_refs_of_thread ON blob_refs (thread_key);
CREATE TABLE workspaces (
	digest TEXT NOT NULL,
	files BLOB NOT NULL,
	PRIMARY KEY (digest)
);
CREATE TABLE tombstones (
	tenant TEXT NOT NULL,
	thread_id TEXT NOT NULL,
	last_seq BIGINT NOT NULL,
	head_hash BLOB NOT NULL,
	purged_at BIGINT NOT NULL, deleted_at BIGINT,
	CONSTRAINT tombstones_by_id PRIMARY KEY (tenant, thread_id)
);
CREATE INDEX interrupts_by_call ON interrupts (tenant, call_id) WHERE call_id IS NOT NULL;
CREATE TABLE files (
	tenant TEXT NOT NULL,
	id TEXT NOT NULL,
	name TEXT NOT NULL,
	mime TEXT NOT NULL,
	size BIGINT NOT NULL,
	sha256 TEXT NOT NULL,
	created_by TEXT NOT NULL,
	created_at BIGINT NOT NULL,
	stored_at BIGINT,
	deleted_at BIGINT,
	CONSTRAINT files_by_id PRIMARY KEY (tenant, id)
);
CREATE INDEX files_to_purge ON files (created_at) WHERE stored_at IS NULL OR deleted_at IS NOT NULL;
CREATE TABLE file_chunks (
	tenant TEXT NOT NULL,
	file_id TEXT NOT NULL,
	number BIGINT NOT NULL,
	data BLOB NOT NULL,
	CONSTRAINT file_chunks_by_number PRIMARY KEY (tenant, file_id, number)
);
CREATE TABLE api_keys (
	id TEXT NOT NULL,
	tenant TEXT NOT NULL,
	digest BLOB NOT NULL,
	revoked_at BIGINT,
	state BLOB NOT NULL,
	PRIMARY KEY (id)
);
CREATE INDEX api_keys_of_tenant ON api_keys (tenant, id);
CREATE INDEX runs_by_agent ON runs (tenant, agent, created_at, id);
CREATE INDEX transcript_by_position ON transcript_entries (thread_key, position, message_id);
CREATE TABLE run_labels (
	tenant TEXT NOT NULL,
	name TEXT NOT NULL,
	value TEXT NOT NULL,
	created_at BIGINT NOT NULL,
	run_id TEXT NOT NULL,
	thread_key INTEGER NOT NULL,
	CONSTRAINT run_labels_by_value PRIMARY KEY (tenant, name, value, created_at, run_id),
	FOREIGN KEY(thread_key) REFERENCES threads ("key")
);
CREATE INDEX run_labels_of_thread ON run_labels (thread_key);
CREATE INDEX threads_of_tenant ON threads (tenant, "key");
CREATE INDEX threads_by_age ON threads (created_at, "key");
CREATE INDEX leases_by_previous ON leases (previous) WHERE previous IS NOT NULL;
CREATE TABLE deltas (
	thread_key INTEGER NOT NULL,
	seq BIGINT NOT NULL,
	back INTEGER NOT NULL,
	uuid BLOB NOT NULL,
	run_shift BIGINT,
	at_shift BIGINT,
	text BLOB NOT NULL,
	hash BLOB NOT NULL,
	CONSTRAINT deltas_by_seq PRIMARY KEY (thread_key, seq),
	FOREIGN KEY(thread_key) REFERENCES threads ("key")
);
CREATE TABLE memory_records (
	tenant TEXT NOT NULL,
	id TEXT NOT NULL,
	thread_key INTEGER NOT NULL,
	seq BIGINT NOT NULL,
	namespace TEXT NOT NULL,
	kind TEXT NOT NULL,
	status TEXT NOT NULL,
	person TEXT,
	expires_at TEXT,
	state BLOB NOT NULL, touched_at BIGINT, confidence DOUBLE,
	CONSTRAINT memory_records_by_id PRIMARY KEY (thread_key, id),
	FOREIGN KEY(thread_key) REFERENCES threads ("key")
);
CREATE UNIQUE INDEX memory_records_by_seq ON memory_records (thread_key, seq);
CREATE INDEX memory_records_by_namespace ON memory_records (thread_key, namespace, status, seq);
CREATE INDEX memory_records_by_person ON memory_records (thread_key, person, seq) WHERE person IS NOT NULL;
CREATE TABLE memory_namespaces (
	"key" INTEGER NOT NULL,
	tenant TEXT NOT NULL,
	namespace TEXT NOT NULL,
	records BIGINT NOT NULL,
	length BIGINT NOT NULL, vectors_put BIGINT DEFAULT '0' NOT NULL, vectors_gone BIGINT DEFAULT '0' NOT NULL,
	PRIMARY KEY ("key"),
	CONSTRAINT memory_namespaces_by_name UNIQUE (tenant, namespace)
);
CREATE TABLE memory_terms (
	"key" INTEGER NOT NULL,
	namespace_key INTEGER NOT NULL,
	term TEXT NOT NULL,
	records BIGINT NOT NULL,
	PRIMARY KEY ("key"),
	CONSTRAINT memory_terms_by_term UNIQUE (namespace_key, term)
);
CREATE TABLE memory_postings (
	term_key BIGINT NOT NULL,
	seq BIGINT NOT NULL,
	occurrences INTEGER NOT NULL,
	length INTEGER NOT NULL,
	CONSTRAINT memory_postings_by_term PRIMARY KEY (term_key, seq)
)
 WITHOUT ROWID
;
CREATE TABLE memory_index (
	namespace_key INTEGER NOT NULL,
	seq BIGINT NOT NULL,
	length INTEGER NOT NULL,
	fingerprint TEXT NOT NULL,
	slot TEXT,
	terms BLOB NOT NULL,
	CONSTRAINT memory_index_by_seq PRIMARY KEY (namespace_key, seq)
);
CREATE INDEX memory_index_by_fingerprint ON memory_index (namespace_key, fingerprint);
CREATE INDEX memory_index_by_slot ON memory_index (namespace_key, slot);
CREATE TABLE memory_citations (
	tenant TEXT NOT NULL,
	record_id TEXT NOT NULL,
	sha256 TEXT NOT NULL,
	CONSTRAINT memory_citations_by_record PRIMARY KEY (tenant, record_id, sha256)
);
CREATE TABLE memory_vectors (
	namespace_key INTEGER NOT NULL,
	model TEXT NOT NULL,
	seq BIGINT NOT NULL,
	vector BLOB NOT NULL,
	CONSTRAINT memory_vectors_by_seq PRIMARY KEY (namespace_key, model, seq)
);
CREATE TABLE tenant_days (
	tenant TEXT NOT NULL,
	day BIGINT NOT NULL,
	tokens BIGINT NOT NULL,
	cost BIGINT NOT NULL,
	CONSTRAINT tenant_days_by_day PRIMARY KEY (tenant, day)
);
CREATE TABLE run_rates (
	tenant TEXT NOT NULL,
	room FLOAT NOT NULL,
	at BIGINT NOT NULL,
	per_minute BIGINT NOT NULL,
	CONSTRAINT run_rates_by_tenant PRIMARY KEY (tenant)
);
CREATE TABLE model_limits (
	name TEXT NOT NULL,
	version BIGINT NOT NULL,
	state TEXT NOT NULL,
	CONSTRAINT model_limits_by_name PRIMARY KEY (name)
);
CREATE TABLE judgements (
	tenant TEXT NOT NULL,
	id TEXT NOT NULL,
	thread_key INTEGER NOT NULL,
	run_id TEXT NOT NULL,
	source TEXT NOT NULL,
	name TEXT NOT NULL,
	mode TEXT,
	at BIGINT NOT NULL,
	score DOUBLE,
	passed BIGINT,
	state BLOB NOT NULL,
	CONSTRAINT judgements_of_thread PRIMARY KEY (thread_key, id),
	FOREIGN KEY(thread_key) REFERENCES threads ("key")
);
CREATE INDEX judgements_of_run ON judgements (tenant, run_id);
CREATE INDEX judgements_by_name ON judgements (tenant, source, name, at);
CREATE TABLE due_evaluations (
	tenant TEXT NOT NULL,
	run_id TEXT NOT NULL,
	thread_id TEXT NOT NULL,
	until BIGINT NOT NULL,
	tries BIGINT NOT NULL,
	CONSTRAINT due_evaluations_by_run PRIMARY KEY (tenant, run_id)
);
CREATE INDEX due_evaluations_by_time ON due_evaluations (until);
CREATE TABLE schema_support (
	oldest TEXT NOT NULL
);
CREATE TABLE request_uses (
	tenant TEXT NOT NULL,
	caller TEXT NOT NULL,
	used BIGINT NOT NULL,
	at BIGINT NOT NULL,
	CONSTRAINT request_uses_by_caller PRIMARY KEY (tenant, caller)
);
CREATE TABLE jobs (
	tenant TEXT NOT NULL,
	run_id TEXT NOT NULL,
	thread_key INTEGER NOT NULL,
	status TEXT NOT NULL,
	type TEXT NOT NULL,
	priority INTEGER NOT NULL,
	project_id TEXT,
	session_id TEXT,
	due_at BIGINT,
	delayed INTEGER NOT NULL,
	"key" TEXT,
	created_at BIGINT NOT NULL, serial INTEGER DEFAULT '0' NOT NULL, started_at BIGINT,
	CONSTRAINT jobs_by_run PRIMARY KEY (tenant, run_id),
	FOREIGN KEY(thread_key) REFERENCES threads ("key")
);
CREATE INDEX jobs_of_thread ON jobs (thread_key);
CREATE INDEX jobs_by_time ON jobs (tenant, created_at, run_id);
CREATE INDEX jobs_of_project ON jobs (tenant, project_id, created_at, run_id);
CREATE TABLE consumers (
	name TEXT NOT NULL,
	types TEXT NOT NULL,
	owner TEXT,
	until BIGINT DEFAULT '0' NOT NULL,
	CONSTRAINT consumers_by_name PRIMARY KEY (name)
);
CREATE TABLE outbox (
	id INTEGER NOT NULL,
	consumer TEXT NOT NULL,
	tenant TEXT NOT NULL,
	thread_id TEXT NOT NULL,
	seq BIGINT NOT NULL,
	PRIMARY KEY (id)
);
CREATE INDEX outbox_of_consumer ON outbox (consumer, id);
CREATE TABLE webhooks (
	tenant TEXT NOT NULL,
	id TEXT NOT NULL,
	state BLOB NOT NULL,
	secrets BLOB NOT NULL,
	CONSTRAINT webhooks_by_id PRIMARY KEY (tenant, id)
);
CREATE TABLE deliveries (
	id INTEGER NOT NULL,
	tenant TEXT NOT NULL,
	webhook_id TEXT NOT NULL,
	event_id TEXT NOT NULL,
	type TEXT NOT NULL,
	body BLOB NOT NULL,
	status TEXT NOT NULL,
	attempts INTEGER NOT NULL,
	created_at BIGINT NOT NULL,
	next_at BIGINT NOT NULL,
	failing_since BIGINT,
	ended_at BIGINT,
	answer TEXT,
	PRIMARY KEY (id),
	CONSTRAINT deliveries_by_event UNIQUE (tenant, webhook_id, event_id)
);
CREATE INDEX deliveries_pending ON deliveries (tenant, webhook_id, id) WHERE status = 'pending';
CREATE INDEX deliveries_of_webhook ON deliveries (tenant, webhook_id, status, id);
CREATE TABLE schedules (
	tenant TEXT NOT NULL,
	name TEXT NOT NULL,
	state BLOB NOT NULL,
	CONSTRAINT schedules_by_name PRIMARY KEY (tenant, name)
);
CREATE INDEX memory_vectors_by_record ON memory_vectors (namespace_key, seq);
CREATE TABLE mcp_grants (
	tenant TEXT NOT NULL,
	server TEXT NOT NULL,
	sealed BLOB NOT NULL,
	renewing_until BIGINT DEFAULT '0' NOT NULL,
	CONSTRAINT mcp_grants_by_server PRIMARY KEY (tenant, server)
);
CREATE TABLE push_configs (
	tenant TEXT NOT NULL,
	run_id TEXT NOT NULL,
	id TEXT NOT NULL,
	created_at BIGINT NOT NULL,
	sealed BLOB NOT NULL,
	CONSTRAINT push_configs_by_run PRIMARY KEY (tenant, run_id, id)
);
CREATE INDEX jobs_in_line ON jobs (tenant, project_id, status, priority, created_at, run_id) WHERE serial = 1;
CREATE INDEX jobs_gone_last ON jobs (tenant, project_id, started_at) WHERE serial = 1;
CREATE INDEX runs_active ON runs (status, created_at) WHERE status IN ('queued', 'running') OR status = 'waiting';
CREATE INDEX runs_by_status ON runs (tenant, status, created_at, id) WHERE status IN ('waiting', 'completed') OR status IN ('failed', 'cancelled')
