"""A tight row for the deltas of a message. Those that are stored already stay where they are."""

import sqlalchemy as sa
from alembic import op

revision = "0008"
down_revision = "0007"
branch_labels = None
depends_on = None

_KEY = sa.BigInteger().with_variant(sa.Integer, "sqlite")


def upgrade() -> None:
    op.create_table(
        "deltas",
        sa.Column("thread_key", _KEY, sa.ForeignKey("threads.key"), nullable=False),
        sa.Column("seq", sa.BigInteger, nullable=False),
        sa.Column("back", sa.Integer, nullable=False),
        sa.Column("uuid", sa.LargeBinary, nullable=False),
        sa.Column("run_shift", sa.BigInteger),
        sa.Column("at_shift", sa.BigInteger),
        sa.Column("text", sa.LargeBinary, nullable=False),
        sa.Column("hash", sa.LargeBinary, nullable=False),
        sa.PrimaryKeyConstraint("thread_key", "seq", name="deltas_by_seq"),
    )
