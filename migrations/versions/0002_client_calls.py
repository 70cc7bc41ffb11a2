"""Finds the interrupts of a tool call by its id: the client that ran the tool knows nothing else."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("interrupts", sa.Column("call_id", sa.Text, nullable=True))
    has_call = sa.text("call_id IS NOT NULL")
    op.create_index(
        "interrupts_by_call", "interrupts", ["tenant", "call_id"], sqlite_where=has_call, postgresql_where=has_call
    )
