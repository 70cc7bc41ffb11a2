"""Runs with queue attributes: priority, when their turn comes, whose they are."""

import sqlalchemy as sa
from alembic import op

revision = "0016"
down_revision = "0015"
branch_labels = None
depends_on = None


def upgrade() -> None:
    key = sa.BigInteger().with_variant(sa.Integer, "sqlite")
    op.create_table(
        "jobs",
        sa.Column("tenant", sa.Text, nullable=False),
        sa.Column("run_id", sa.Text, nullable=False),
        sa.Column("thread_key", key, sa.ForeignKey("threads.key"), nullable=False),
        sa.Column("status", sa.Text, nullable=False),
        sa.Column("type", sa.Text, nullable=False),
        sa.Column("priority", sa.Integer, nullable=False),
        sa.Column("project_id", sa.Text),
        sa.Column("session_id", sa.Text),
        sa.Column("due_at", sa.BigInteger),
        sa.Column("delayed", sa.Integer, nullable=False),
        sa.Column("key", sa.Text),
        sa.Column("created_at", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("tenant", "run_id", name="jobs_by_run"),
    )
    op.create_index("jobs_of_thread", "jobs", ["thread_key"])
    op.create_index("jobs_by_time", "jobs", ["tenant", "created_at", "run_id"])
    op.create_index("jobs_of_project", "jobs", ["tenant", "project_id", "created_at", "run_id"])
