"""Vectors of a record are found by it, and each namespace counts how often its vectors changed."""

import sqlalchemy as sa
from alembic import op

revision = "0019"
down_revision = "0018"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("memory_namespaces", sa.Column("vectors_put", sa.BigInteger, nullable=False, server_default="0"))
    op.add_column("memory_namespaces", sa.Column("vectors_gone", sa.BigInteger, nullable=False, server_default="0"))
    op.create_index("memory_vectors_by_record", "memory_vectors", ["namespace_key", "seq"])
