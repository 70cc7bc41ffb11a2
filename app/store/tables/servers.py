"""What servers and their callers hold or count: leases, keys, logins, shared limits. Outside the fold."""

from sqlalchemy import BigInteger, Column, Float, Index, LargeBinary, PrimaryKeyConstraint, Table, Text

from app.store.tables.base import metadata

leases = Table(
    "leases",
    metadata,
    Column("tenant", Text, nullable=False),
    Column("run_id", Text, nullable=False),
    Column("owner", Text, nullable=False),
    Column("epoch", BigInteger, nullable=False),
    Column("until", BigInteger, nullable=False),
    # Whether the run may be what kills its servers, how often it did alone, and who died with it before this owner.
    Column("suspect", BigInteger, nullable=False, server_default="0"),
    Column("deaths", BigInteger, nullable=False, server_default="0"),
    Column("previous", Text),
    PrimaryKeyConstraint("tenant", "run_id", name="leases_by_run"),
)
Index(
    "leases_by_previous",
    leases.c.previous,
    sqlite_where=leases.c.previous.is_not(None),
    postgresql_where=leases.c.previous.is_not(None),
)

idempotency_keys = Table(
    "idempotency_keys",
    metadata,
    Column("tenant", Text, nullable=False),
    Column("route", Text, nullable=False),
    Column("key", Text, nullable=False),
    Column("body_hash", Text, nullable=False),
    Column("run_id", Text, nullable=False),
    Column("expires_at", BigInteger, nullable=False),
    PrimaryKeyConstraint("tenant", "route", "key", name="idempotency_by_key"),
)
Index("idempotency_expiry", idempotency_keys.c.expires_at)

# Logins to remote MCP servers, sealed. Outside the fold: tokens are in no event.
mcp_grants = Table(
    "mcp_grants",
    metadata,
    Column("tenant", Text, nullable=False),
    Column("server", Text, nullable=False),
    Column("sealed", LargeBinary, nullable=False),
    # Until when one of the servers renews it, in milliseconds.
    Column("renewing_until", BigInteger, nullable=False, server_default="0"),
    PrimaryKeyConstraint("tenant", "server", name="mcp_grants_by_server"),
)

# Found by id alone: the key itself names its owner. Written with the ledger's event, never without.
api_keys = Table(
    "api_keys",
    metadata,
    Column("id", Text, primary_key=True),
    Column("tenant", Text, nullable=False),
    Column("digest", LargeBinary, nullable=False),
    Column("revoked_at", BigInteger),
    Column("state", LargeBinary, nullable=False),
)
Index("api_keys_of_tenant", api_keys.c.tenant, api_keys.c.id)

# Used only where several servers may share the database (`shared_limits`). Costs in billionths of a dollar.
tenant_days = Table(
    "tenant_days",
    metadata,
    Column("tenant", Text, nullable=False),
    Column("day", BigInteger, nullable=False),
    Column("tokens", BigInteger, nullable=False),
    Column("cost", BigInteger, nullable=False),
    PrimaryKeyConstraint("tenant", "day", name="tenant_days_by_day"),
)

run_rates = Table(
    "run_rates",
    metadata,
    Column("tenant", Text, nullable=False),
    Column("room", Float, nullable=False),
    Column("at", BigInteger, nullable=False),
    Column("per_minute", BigInteger, nullable=False),
    PrimaryKeyConstraint("tenant", name="run_rates_by_tenant"),
)

# No tenant: a provider's limit is shared by all of them.
model_limits = Table(
    "model_limits",
    metadata,
    Column("name", Text, nullable=False),
    Column("version", BigInteger, nullable=False),
    Column("state", Text, nullable=False),
    PrimaryKeyConstraint("name", name="model_limits_by_name"),
)

# Outside the fold: what callers used at all servers, while no bus says it.
request_uses = Table(
    "request_uses",
    metadata,
    Column("tenant", Text, nullable=False),
    Column("caller", Text, nullable=False),
    Column("used", BigInteger, nullable=False),
    Column("at", BigInteger, nullable=False),
    PrimaryKeyConstraint("tenant", "caller", name="request_uses_by_caller"),
)

# No tenant: one row, about the database as a whole.
schema_support = Table("schema_support", metadata, Column("oldest", Text, nullable=False))
