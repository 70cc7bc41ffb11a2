"""The records of the memory, folded from events, and their search index, which can be rebuilt."""

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
    UniqueConstraint,
)

from app.store.tables.base import KEY, metadata

# On the tenant's memory thread. What a record says is not here but in a salted blob.
memory_records = Table(
    "memory_records",
    metadata,
    Column("tenant", Text, nullable=False),
    Column("id", Text, nullable=False),
    Column("thread_key", KEY, ForeignKey("threads.key"), nullable=False),
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
    Column("key", KEY, primary_key=True, autoincrement=True),
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
    Column("key", KEY, primary_key=True, autoincrement=True),
    Column("namespace_key", KEY, nullable=False),
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
    Column("namespace_key", KEY, nullable=False),
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
    Column("namespace_key", KEY, nullable=False),
    Column("model", Text, nullable=False),
    Column("seq", BigInteger, nullable=False),
    Column("vector", LargeBinary, nullable=False),
    PrimaryKeyConstraint("namespace_key", "model", "seq", name="memory_vectors_by_seq"),
)
Index("memory_vectors_by_record", memory_vectors.c.namespace_key, memory_vectors.c.seq)
