"""What follows the log: consumers with what they have not acknowledged, webhooks with their deliveries, schedules."""

import sqlalchemy as sa
from alembic import op

revision = "0018"
down_revision = "0017"
branch_labels = None
depends_on = None


def upgrade() -> None:
    key = sa.BigInteger().with_variant(sa.Integer, "sqlite")
    op.create_table(
        "consumers",
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("types", sa.Text, nullable=False),
        sa.Column("owner", sa.Text),
        sa.Column("until", sa.BigInteger, nullable=False, server_default="0"),
        sa.PrimaryKeyConstraint("name", name="consumers_by_name"),
    )
    op.create_table(
        "outbox",
        sa.Column("id", key, primary_key=True, autoincrement=True),
        sa.Column("consumer", sa.Text, nullable=False),
        sa.Column("tenant", sa.Text, nullable=False),
        sa.Column("thread_id", sa.Text, nullable=False),
        sa.Column("seq", sa.BigInteger, nullable=False),
    )
    op.create_index("outbox_of_consumer", "outbox", ["consumer", "id"])
    op.create_table(
        "webhooks",
        sa.Column("tenant", sa.Text, nullable=False),
        sa.Column("id", sa.Text, nullable=False),
        sa.Column("state", sa.LargeBinary, nullable=False),
        sa.Column("secrets", sa.LargeBinary, nullable=False),
        sa.PrimaryKeyConstraint("tenant", "id", name="webhooks_by_id"),
    )
    op.create_table(
        "deliveries",
        sa.Column("id", key, primary_key=True, autoincrement=True),
        sa.Column("tenant", sa.Text, nullable=False),
        sa.Column("webhook_id", sa.Text, nullable=False),
        sa.Column("event_id", sa.Text, nullable=False),
        sa.Column("type", sa.Text, nullable=False),
        sa.Column("body", sa.LargeBinary, nullable=False),
        sa.Column("status", sa.Text, nullable=False),
        sa.Column("attempts", sa.Integer, nullable=False),
        sa.Column("created_at", sa.BigInteger, nullable=False),
        sa.Column("next_at", sa.BigInteger, nullable=False),
        sa.Column("failing_since", sa.BigInteger),
        sa.Column("ended_at", sa.BigInteger),
        sa.Column("answer", sa.Text),
        sa.UniqueConstraint("tenant", "webhook_id", "event_id", name="deliveries_by_event"),
    )
    pending = sa.text("status = 'pending'")
    op.create_index(
        "deliveries_pending",
        "deliveries",
        ["tenant", "webhook_id", "id"],
        sqlite_where=pending,
        postgresql_where=pending,
    )
    op.create_index("deliveries_of_webhook", "deliveries", ["tenant", "webhook_id", "status", "id"])
    op.create_table(
        "schedules",
        sa.Column("tenant", sa.Text, nullable=False),
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("state", sa.LargeBinary, nullable=False),
        sa.PrimaryKeyConstraint("tenant", "name", name="schedules_by_name"),
    )
