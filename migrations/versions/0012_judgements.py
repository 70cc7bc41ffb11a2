"""Verdicts of gates and feedback on runs, and the runs that shadow gates are still to judge."""

import sqlalchemy as sa
from alembic import op

revision = "0012"
down_revision = "0011"
branch_labels = None
depends_on = None

_KEY = sa.BigInteger().with_variant(sa.Integer, "sqlite")


def upgrade() -> None:
    op.create_table(
        "judgements",
        sa.Column("tenant", sa.Text, nullable=False),
        sa.Column("id", sa.Text, nullable=False),
        sa.Column("thread_key", _KEY, sa.ForeignKey("threads.key"), nullable=False),
        sa.Column("run_id", sa.Text, nullable=False),
        sa.Column("source", sa.Text, nullable=False),
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("mode", sa.Text),
        sa.Column("at", sa.BigInteger, nullable=False),
        sa.Column("score", sa.Double),
        sa.Column("passed", sa.BigInteger),
        sa.Column("state", sa.LargeBinary, nullable=False),
        sa.PrimaryKeyConstraint("thread_key", "id", name="judgements_of_thread"),
    )
    op.create_index("judgements_of_run", "judgements", ["tenant", "run_id"])
    op.create_index("judgements_by_name", "judgements", ["tenant", "source", "name", "at"])
    op.create_table(
        "due_evaluations",
        sa.Column("tenant", sa.Text, nullable=False),
        sa.Column("run_id", sa.Text, nullable=False),
        sa.Column("thread_id", sa.Text, nullable=False),
        sa.Column("until", sa.BigInteger, nullable=False),
        sa.Column("tries", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("tenant", "run_id", name="due_evaluations_by_run"),
    )
    op.create_index("due_evaluations_by_time", "due_evaluations", ["until"])
