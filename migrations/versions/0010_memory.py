"""Memory records, their search index, and which blobs repeat their text."""

import sqlalchemy as sa
from alembic import op

revision = "0010"
down_revision = "0009"
branch_labels = None
depends_on = None

_KEY = sa.BigInteger().with_variant(sa.Integer, "sqlite")


def upgrade() -> None:
    op.create_table(
        "memory_records",
        sa.Column("tenant", sa.Text, nullable=False),
        sa.Column("id", sa.Text, nullable=False),
        sa.Column("thread_key", _KEY, sa.ForeignKey("threads.key"), nullable=False),
        sa.Column("seq", sa.BigInteger, nullable=False),
        sa.Column("namespace", sa.Text, nullable=False),
        sa.Column("kind", sa.Text, nullable=False),
        sa.Column("status", sa.Text, nullable=False),
        sa.Column("person", sa.Text),
        sa.Column("expires_at", sa.Text),
        sa.Column("state", sa.LargeBinary, nullable=False),
        sa.PrimaryKeyConstraint("thread_key", "id", name="memory_records_by_id"),
    )
    op.create_index("memory_records_by_seq", "memory_records", ["thread_key", "seq"], unique=True)
    op.create_index("memory_records_by_namespace", "memory_records", ["thread_key", "namespace", "status", "seq"])
    known = sa.text("person IS NOT NULL")
    columns = ["thread_key", "person", "seq"]
    op.create_index("memory_records_by_person", "memory_records", columns, sqlite_where=known, postgresql_where=known)
    op.create_table(
        "memory_namespaces",
        sa.Column("key", _KEY, primary_key=True, autoincrement=True),
        sa.Column("tenant", sa.Text, nullable=False),
        sa.Column("namespace", sa.Text, nullable=False),
        sa.Column("records", sa.BigInteger, nullable=False),
        sa.Column("length", sa.BigInteger, nullable=False),
        sa.UniqueConstraint("tenant", "namespace", name="memory_namespaces_by_name"),
    )
    op.create_table(
        "memory_terms",
        sa.Column("key", _KEY, primary_key=True, autoincrement=True),
        sa.Column("namespace_key", _KEY, nullable=False),
        sa.Column("term", sa.Text, nullable=False),
        sa.Column("records", sa.BigInteger, nullable=False),
        sa.UniqueConstraint("namespace_key", "term", name="memory_terms_by_term"),
    )
    op.create_table(
        "memory_postings",
        sa.Column("term_key", sa.BigInteger, nullable=False),
        sa.Column("seq", sa.BigInteger, nullable=False),
        sa.Column("occurrences", sa.Integer, nullable=False),
        sa.Column("length", sa.Integer, nullable=False),
        sa.PrimaryKeyConstraint("term_key", "seq", name="memory_postings_by_term"),
        sqlite_with_rowid=False,
    )
    op.create_table(
        "memory_index",
        sa.Column("namespace_key", _KEY, nullable=False),
        sa.Column("seq", sa.BigInteger, nullable=False),
        sa.Column("length", sa.Integer, nullable=False),
        sa.Column("fingerprint", sa.Text, nullable=False),
        sa.Column("slot", sa.Text),
        sa.Column("terms", sa.LargeBinary, nullable=False),
        sa.PrimaryKeyConstraint("namespace_key", "seq", name="memory_index_by_seq"),
    )
    op.create_index("memory_index_by_fingerprint", "memory_index", ["namespace_key", "fingerprint"])
    op.create_index("memory_index_by_slot", "memory_index", ["namespace_key", "slot"])
    op.create_table(
        "memory_citations",
        sa.Column("tenant", sa.Text, nullable=False),
        sa.Column("record_id", sa.Text, nullable=False),
        sa.Column("sha256", sa.Text, nullable=False),
        sa.PrimaryKeyConstraint("tenant", "record_id", "sha256", name="memory_citations_by_record"),
    )
    op.create_table(
        "memory_vectors",
        sa.Column("namespace_key", _KEY, nullable=False),
        sa.Column("model", sa.Text, nullable=False),
        sa.Column("seq", sa.BigInteger, nullable=False),
        sa.Column("vector", sa.LargeBinary, nullable=False),
        sa.PrimaryKeyConstraint("namespace_key", "model", "seq", name="memory_vectors_by_seq"),
    )
