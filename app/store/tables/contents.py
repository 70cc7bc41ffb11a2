"""Bytes that events refer to: blobs, uploaded files, workspaces. Outside the fold."""

from sqlalchemy import BigInteger, Column, ForeignKey, Index, LargeBinary, PrimaryKeyConstraint, Table, Text
from sqlalchemy import text as sa_text

from app.store.tables.base import KEY, metadata

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
    Column("thread_key", KEY, ForeignKey("threads.key"), nullable=False),
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
