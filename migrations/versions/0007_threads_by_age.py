"""Threads by age, for all tenants and for one, and leases by the owner that died before: each found by an index."""

import sqlalchemy as sa
from alembic import op

revision = "0007"
down_revision = "0006"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_index("threads_of_tenant", "threads", ["tenant", "key"])
    op.create_index("threads_by_age", "threads", ["created_at", "key"])
    known = sa.text("previous IS NOT NULL")
    op.create_index("leases_by_previous", "leases", ["previous"], sqlite_where=known, postgresql_where=known)
