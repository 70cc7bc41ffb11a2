"""What several servers count together: a tenant's day and runs per minute, and the limits of models."""

import sqlalchemy as sa
from alembic import op

revision = "0011"
down_revision = "0010"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "tenant_days",
        sa.Column("tenant", sa.Text, nullable=False),
        sa.Column("day", sa.BigInteger, nullable=False),
        sa.Column("tokens", sa.BigInteger, nullable=False),
        sa.Column("cost", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("tenant", "day", name="tenant_days_by_day"),
    )
    op.create_table(
        "run_rates",
        sa.Column("tenant", sa.Text, nullable=False),
        sa.Column("room", sa.Float, nullable=False),
        sa.Column("at", sa.BigInteger, nullable=False),
        sa.Column("per_minute", sa.BigInteger, nullable=False),
        sa.PrimaryKeyConstraint("tenant", name="run_rates_by_tenant"),
    )
    op.create_table(
        "model_limits",
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("version", sa.BigInteger, nullable=False),
        sa.Column("state", sa.Text, nullable=False),
        sa.PrimaryKeyConstraint("name", name="model_limits_by_name"),
    )
