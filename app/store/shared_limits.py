"""What several servers count together: a tenant's day and runs per minute, and the limits of models.

Each change is one statement that commits by itself, on a connection of the pool: nobody holds a lock while it talks,
so a server that is stopped in the middle blocks nobody, and the log's writer is not used. A statement whose answer was
lost may have counted; so at worst too much is counted, never too little. Leaves to others: what the limits are.
"""

from collections.abc import Sequence
from typing import Any, Final

from app.core import json
from app.events.ports import StoreError
from app.runtime.ports import DaySpent
from app.store.engine import Database, Row, Sql

_DAY: Final = "({now} / 86400000)"
_RESERVE: Final = Sql(
    "UPDATE tenant_days SET tokens = tokens + $2, cost = cost + $3 "
    f"WHERE tenant = $1 AND day = {_DAY} AND (CAST($4 AS bigint) IS NULL OR tokens + $2 <= CAST($4 AS bigint)) "
    "AND (CAST($5 AS bigint) IS NULL OR cost + $3 <= CAST($5 AS bigint)) RETURNING day"
)
_SPENT: Final = Sql(
    f"SELECT n.day, d.tokens, d.cost FROM (SELECT {_DAY} AS day) AS n "
    "LEFT JOIN tenant_days d ON d.tenant = $1 AND d.day = n.day"
)
_BEGIN: Final = Sql(
    "INSERT INTO tenant_days (tenant, day, tokens, cost) VALUES ($1, $2, $3, $4) ON CONFLICT DO NOTHING"
)
_SETTLE: Final = Sql("UPDATE tenant_days SET tokens = tokens + $3, cost = cost + $4 WHERE tenant = $1 AND day = $2")
MAX_OWED: Final = 10_000
"""Days of tenants whose corrections wait for the database to come back; what is over stays counted as estimated."""

# Rates may lose their last moments with a crash of the database, so nobody waits for its disk.
_RELAXED: Final = "(SELECT set_config('synchronous_commit', 'off', true)) IS NOT NULL"
_RATE: Final = "CAST($2 AS bigint)"
# Under another limit, what was used stays used.
_ROOM: Final = (
    f"LEAST({_RATE}, GREATEST(0, r.room + {_RATE} - r.per_minute) + GREATEST(0, {{now}} - r.at) * {_RATE} / 60000.0)"
)
_TAKE: Final = Sql(
    "INSERT INTO run_rates AS r (tenant, room, at, per_minute) "
    f"SELECT $1, {_RATE} - 1, {{now}}, {_RATE} WHERE {_RELAXED} "
    f"ON CONFLICT (tenant) DO UPDATE SET room = {_ROOM} - 1, at = {{now}}, per_minute = {_RATE} WHERE {_ROOM} >= 1 "
    "RETURNING room"
)
_LEFT: Final = Sql(f"SELECT {_ROOM} FROM run_rates r WHERE r.tenant = $1")
_GIVE_BACK: Final = Sql(
    f"UPDATE run_rates AS r SET room = LEAST({_RATE}, r.room + 1) WHERE r.tenant = $1 AND {_RELAXED}"
)

_READ: Final = Sql("SELECT l.state, l.version, {now} FROM (SELECT 1) AS one LEFT JOIN model_limits l ON l.name = $1")
_CREATE: Final = Sql(
    "INSERT INTO model_limits (name, version, state) "
    f"SELECT $1, 1, $2 WHERE {_RELAXED} ON CONFLICT DO NOTHING RETURNING {{now}}"
)
_REPLACE: Final = Sql(
    "UPDATE model_limits SET state = $3, version = version + 1 "
    f"WHERE name = $1 AND version = $2 AND {_RELAXED} RETURNING {{now}}"
)

_USES: Final = Sql(
    "INSERT INTO request_uses AS u (tenant, caller, used, at) SELECT v.tenant, v.caller, v.used, {now} "
    "FROM unnest(CAST($1 AS text[]), CAST($2 AS text[]), CAST($3 AS bigint[])) AS v(tenant, caller, used) "
    # In one order everywhere, so that two servers never wait for each other.
    f"WHERE {_RELAXED} ORDER BY v.tenant, v.caller "
    "ON CONFLICT (tenant, caller) DO UPDATE SET used = u.used + excluded.used, at = excluded.at "
    "RETURNING tenant, caller, used"
)
_FORGOTTEN_USES: Final = Sql(
    "DELETE FROM request_uses WHERE (tenant, caller) IN "
    "(SELECT u.tenant, u.caller FROM request_uses u WHERE u.at < {now} - 600000 LIMIT $1) RETURNING 1"
)

_OLD_DAYS: Final = Sql(
    "DELETE FROM tenant_days WHERE (tenant, day) IN "
    f"(SELECT d.tenant, d.day FROM tenant_days d WHERE d.day < {_DAY} - 1 LIMIT $1) RETURNING 1"
)
_FULL_AGAIN: Final = Sql(
    "DELETE FROM run_rates WHERE tenant IN (SELECT r.tenant FROM run_rates r WHERE r.at < {now} - 600000 LIMIT $1) "
    "RETURNING 1"
)
_PORTION: Final = 1000


class TenantDays:
    """What each tenant has used of its day, which is one of the database's clock."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._owed: dict[tuple[str, int], tuple[int, int]] = {}

    async def reserve(
        self, tenant: str, tokens: int, cost: int, most_tokens: int | None, most_cost: int | None
    ) -> int | None:
        """The day on which so much was reserved; None if it does not fit, or if the tenant's day has not begun."""
        rows = await self._act(_RESERVE, tenant, tokens, cost, most_tokens, most_cost)
        return rows[0][0] if rows else None

    async def spent(self, tenant: str) -> DaySpent:
        day, tokens, cost = (await self._act(_SPENT, tenant))[0]
        return DaySpent(day, tokens, cost)

    async def begin(self, tenant: str, day: int, tokens: int, cost: int) -> None:
        """With what was used of it already, unless another server was faster."""
        await self._act(_BEGIN, tenant, day, tokens, cost)

    async def settle(self, tenant: str, day: int, tokens: int, cost: int) -> None:
        """Corrects a reservation by the difference to what was used. If the database is away, with the next one."""
        more_tokens, more_cost = self._owed.pop((tenant, day), (0, 0))
        tokens, cost = tokens + more_tokens, cost + more_cost
        if not tokens and not cost:
            return
        try:
            await self._act(_SETTLE, tenant, day, tokens, cost)
        except StoreError:
            if len(self._owed) < MAX_OWED:
                self._owed[tenant, day] = (tokens, cost)

    async def _act(self, sql: Sql, *params: Any) -> list[Row]:
        return await self._database.act(lambda tx: tx.rows(sql, *params))


class RunBuckets:
    """How many runs each tenant may still start in this minute."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def take(self, tenant: str, per_minute: int) -> float | None:
        """None if a run was taken, else what is left of the bucket, less than one."""
        if await self._database.act(lambda tx: tx.rows(_TAKE, tenant, per_minute)):
            return None
        rows = await self._database.act(lambda tx: tx.rows(_LEFT, tenant, per_minute))
        return min(0.999, float(rows[0][0])) if rows else 0.0

    async def give_back(self, tenant: str, per_minute: int) -> None:
        await self._database.act(lambda tx: tx.rows(_GIVE_BACK, tenant, per_minute))


class ModelLimitRecords:
    """One record per model, replaced only by whoever knows its last version."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def read(self, name: str) -> tuple[dict[str, Any], int, int]:
        state, version, now = (await self._database.act(lambda tx: tx.rows(_READ, name)))[0]
        return ({} if state is None else json.loads(state)), version or 0, now

    async def replace(self, name: str, version: int, state: dict[str, Any]) -> int | None:
        encoded = json.dumps(state).decode()
        if version == 0:
            rows = await self._database.act(lambda tx: tx.rows(_CREATE, name, encoded))
        else:
            rows = await self._database.act(lambda tx: tx.rows(_REPLACE, name, version, encoded))
        return rows[0][0] if rows else None


class RequestUses:
    """Requests of callers at all servers, ever since somebody began to count them."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def count(self, used: Sequence[tuple[str, str, int]]) -> list[tuple[str, str, int]]:
        columns = [list(column) for column in zip(*used, strict=True)]
        rows = await self._database.act(lambda tx: tx.rows(_USES, *columns))
        return [(row[0], row[1], row[2]) for row in rows]


async def purge_old_counts(database: Database) -> None:
    """Days before yesterday, buckets that are full again, and callers that are gone."""
    for sql in (_OLD_DAYS, _FULL_AGAIN, _FORGOTTEN_USES):
        while len(await database.act(lambda tx, sql=sql: tx.rows(sql, _PORTION))) >= _PORTION:  # type: ignore[misc]
            pass
