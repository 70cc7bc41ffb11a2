"""What follows the log from a stored place: consumers with their outbox, webhooks, push notifications, schedules."""

from sqlalchemy import (
    BigInteger,
    Column,
    Index,
    Integer,
    LargeBinary,
    PrimaryKeyConstraint,
    Table,
    Text,
    UniqueConstraint,
)

from app.store.tables.base import KEY, metadata

# No tenant: what follows the log follows it for all of them. `types` is what it wants to hear, a JSON list.
consumers = Table(
    "consumers",
    metadata,
    Column("name", Text, nullable=False),
    Column("types", Text, nullable=False),
    Column("owner", Text),
    Column("until", BigInteger, nullable=False, server_default="0"),
    PrimaryKeyConstraint("name", name="consumers_by_name"),
)

# Events that a consumer has not acknowledged, written by the append that stored them. Within a thread in its order.
outbox = Table(
    "outbox",
    metadata,
    Column("id", KEY, primary_key=True, autoincrement=True),
    Column("consumer", Text, nullable=False),
    Column("tenant", Text, nullable=False),
    Column("thread_id", Text, nullable=False),
    Column("seq", BigInteger, nullable=False),
)
Index("outbox_of_consumer", outbox.c.consumer, outbox.c.id)

webhooks = Table(
    "webhooks",
    metadata,
    Column("tenant", Text, nullable=False),
    Column("id", Text, nullable=False),
    Column("state", LargeBinary, nullable=False),
    Column("secrets", LargeBinary, nullable=False),
    PrimaryKeyConstraint("tenant", "id", name="webhooks_by_id"),
)

# What is to be sent, or was, to a webhook. `status` is pending, delivered or dead.
deliveries = Table(
    "deliveries",
    metadata,
    Column("id", KEY, primary_key=True, autoincrement=True),
    Column("tenant", Text, nullable=False),
    Column("webhook_id", Text, nullable=False),
    Column("event_id", Text, nullable=False),
    Column("type", Text, nullable=False),
    Column("body", LargeBinary, nullable=False),
    Column("status", Text, nullable=False),
    Column("attempts", Integer, nullable=False),
    Column("created_at", BigInteger, nullable=False),
    Column("next_at", BigInteger, nullable=False),
    Column("failing_since", BigInteger),
    Column("ended_at", BigInteger),
    Column("answer", Text),
    UniqueConstraint("tenant", "webhook_id", "event_id", name="deliveries_by_event"),
)
_pending = deliveries.c.status == "pending"
Index(
    "deliveries_pending",
    deliveries.c.tenant,
    deliveries.c.webhook_id,
    deliveries.c.id,
    sqlite_where=_pending,
    postgresql_where=_pending,
)
Index("deliveries_of_webhook", deliveries.c.tenant, deliveries.c.webhook_id, deliveries.c.status, deliveries.c.id)

# Where A2A clients want notifications of a run, sealed: the address and what shows the receiver who writes.
push_configs = Table(
    "push_configs",
    metadata,
    Column("tenant", Text, nullable=False),
    Column("run_id", Text, nullable=False),
    Column("id", Text, nullable=False),
    Column("created_at", BigInteger, nullable=False),
    Column("sealed", LargeBinary, nullable=False),
    PrimaryKeyConstraint("tenant", "run_id", "id", name="push_configs_by_run"),
)

schedules = Table(
    "schedules",
    metadata,
    Column("tenant", Text, nullable=False),
    Column("name", Text, nullable=False),
    Column("state", LargeBinary, nullable=False),
    PrimaryKeyConstraint("tenant", "name", name="schedules_by_name"),
)
