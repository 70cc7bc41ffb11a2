"""Who runs a run: an owner and an epoch, alive until a moment on the database's clock.

A lease is taken by the log, in the transaction of the event that says so; here it is only kept alive. With the event
that says that its run waits it is given back, and has `until = 0`. The lease of a run that has ended is left as it is,
and does not count. Any other that is not alive belonged to an owner that died with it.
"""

from collections.abc import Sequence
from typing import Final

from app.runtime.ports import LastLease
from app.store.engine import Database, Sql, Tx
from app.store.run_lists import AT_WORK

# All of them in one statement. One whose row another server has locked is left for the next time: it is kept as long as
# its epoch says that nobody took it. It is lost if somebody else has ended its run, by deleting the thread.
_RENEW: Final = Sql(
    "UPDATE leases SET until = {now} + $4 WHERE tenant = $1 AND run_id = $2 AND epoch = $3 AND until > 0 "
    "AND EXISTS (SELECT 1 FROM runs r WHERE r.tenant = $1 AND r.id = $2 AND r.status = 'running') "
    "RETURNING tenant, run_id",
    bulk="WITH v AS (SELECT * FROM unnest($1::text[], $2::text[], $3::bigint[], $4::bigint[]) "
    "AS v(tenant, run_id, epoch, ms)), "
    "kept AS (SELECT v.* FROM v JOIN runs r ON r.tenant = v.tenant AND r.id = v.run_id WHERE r.status = 'running'), "
    "free AS (SELECT l.tenant, l.run_id, v.ms FROM leases l JOIN kept v ON l.tenant = v.tenant AND l.run_id = v.run_id "
    "WHERE l.epoch = v.epoch AND l.until > 0 FOR UPDATE OF l SKIP LOCKED), "
    "renewed AS (UPDATE leases l SET until = CAST(extract(epoch FROM clock_timestamp()) * 1000 AS bigint) + free.ms "
    "FROM free WHERE l.tenant = free.tenant AND l.run_id = free.run_id) "
    "SELECT l.tenant, l.run_id FROM leases l JOIN kept v ON l.tenant = v.tenant AND l.run_id = v.run_id "
    "WHERE l.epoch = v.epoch AND l.until > 0",
    sqlite_bulk="UPDATE OR FAIL leases SET until = "
    "CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER) + v.column4 FROM (VALUES {rows}) AS v "
    "WHERE tenant = v.column1 AND run_id = v.column2 AND epoch = v.column3 AND until > 0 AND EXISTS "
    "(SELECT 1 FROM runs r WHERE r.tenant = v.column1 AND r.id = v.column2 AND r.status = 'running') "
    "RETURNING tenant, run_id",
)
# A run that waits holds no lease, and that of one that has ended does not count, so the few runs at work lead to every
# lease that is held.
_EXPIRE_ALL: Final = Sql(
    f"UPDATE leases SET until = -1 WHERE until > 0 AND (tenant, run_id) IN "
    f"(SELECT r.tenant, r.id FROM runs r WHERE {AT_WORK})"
)
_FIND: Final = Sql("SELECT owner, epoch, until, suspect, deaths FROM leases WHERE tenant = $1 AND run_id = $2")
_OWNER: Final = Sql(
    "SELECT l.owner FROM leases l JOIN runs r ON r.tenant = l.tenant AND r.id = l.run_id "
    "WHERE l.tenant = $1 AND l.run_id = $2 AND l.until > {now} AND r.status = 'running'"
)
_OF_OWNER: Final = Sql(
    f"SELECT l.run_id FROM runs r JOIN leases l ON l.tenant = r.tenant AND l.run_id = r.id WHERE {AT_WORK} "
    "AND l.owner = $1 AND l.until <> 0 UNION ALL SELECT p.run_id FROM leases p WHERE p.previous = $1 LIMIT 2"
)
_RELEASE: Final = Sql(
    "UPDATE leases SET until = 0 WHERE tenant = $1 AND run_id = $2 AND owner = $3 AND epoch = $4",
    bulk="UPDATE leases l SET until = 0 FROM unnest($1::text[], $2::text[], $3::text[], $4::bigint[]) "
    "AS v(tenant, run_id, owner, epoch) WHERE l.tenant = v.tenant AND l.run_id = v.run_id AND l.owner = v.owner "
    "AND l.epoch = v.epoch",
    sqlite_bulk="UPDATE OR FAIL leases SET until = 0 FROM (VALUES {rows}) AS v WHERE tenant = v.column1 "
    "AND run_id = v.column2 AND owner = v.column3 AND epoch = v.column4",
)
RELEASED_AT_ONCE: Final = 5000
"""Leases given back in one transaction: enough for any real server, and it still ends within a write's time limit."""


class LeaseTable:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def renew(self, held: Sequence[tuple[str, str, int]], seconds: float) -> set[tuple[str, str]]:
        """(tenant, run, epoch) in; those that are still ours out. A lost one was taken over."""

        rows = [(tenant, run_id, epoch, round(seconds * 1000)) for tenant, run_id, epoch in held]
        if not rows:
            return set()
        return {(row[0], row[1]) for row in await self._database.act(lambda tx: tx.returning(_RENEW, rows))}

    async def release(self, owner: str, held: Sequence[tuple[str, str, int]]) -> None:
        """Give runs back unfinished: another executor takes them at once. Somebody else's leases are left alone."""
        rows = [(tenant, run_id, owner, epoch) for tenant, run_id, epoch in held]
        for start in range(0, len(rows), RELEASED_AT_ONCE):
            portion = rows[start : start + RELEASED_AT_ONCE]
            await self._database.write(lambda tx, portion=portion: tx.many(_RELEASE, portion))  # type: ignore[misc]

    async def find(self, tenant: str, run_id: str) -> LastLease | None:
        """The newest lease of a run, alive or not."""
        rows = await self._database.look(lambda tx: tx.rows(_FIND, tenant, run_id))
        if not rows:
            return None
        owner, epoch, until, suspect, deaths = rows[0]
        return LastLease(owner, epoch, given_back=until == 0, suspect=suspect, deaths=deaths)

    async def owner(self, tenant: str, run_id: str) -> str | None:
        """Who holds the run now."""
        rows = await self._database.look(lambda tx: tx.rows(_OWNER, tenant, run_id))
        return rows[0][0] if rows else None

    async def had_company(self, owner: str) -> bool:
        """Whether an owner that died had more than one run at work then. Those taken over meanwhile count as well."""
        return len(await self._database.look(lambda tx: tx.rows(_OF_OWNER, owner))) > 1

    async def expire_all(self) -> None:
        """Embedded start-up: holding the folder's lock proves that every former owner is dead."""

        async def work(tx: Tx) -> None:
            await tx.rows(_EXPIRE_ALL)

        await self._database.write(work)
