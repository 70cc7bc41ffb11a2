"""Who runs a run: an owner and an epoch, alive until a moment on the database's clock.

A lease is taken and given back by the log, in the transaction of the event that says so; here it is only kept alive.
"""

from collections.abc import Sequence
from typing import Final

from app.store.engine import Database, Sql, Tx

_RENEW: Final = Sql(
    "UPDATE leases SET until = {now} + $4 WHERE tenant = $1 AND run_id = $2 AND epoch = $3 AND until > 0 "
    "RETURNING run_id"
)
_EXPIRE_ALL: Final = Sql("UPDATE leases SET until = 0 WHERE until <> 0")
_RELEASE: Final = Sql("UPDATE leases SET until = 0 WHERE tenant = $1 AND run_id = $2 AND owner = $3 AND epoch = $4")


class Leases:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def renew(self, held: Sequence[tuple[str, str, int]], seconds: float) -> set[tuple[str, str]]:
        """(tenant, run, epoch) in; those that are still ours out. A lost one was taken over."""

        async def work(tx: Tx) -> set[tuple[str, str]]:
            kept = set()
            for tenant, run_id, epoch in held:
                if await tx.rows(_RENEW, tenant, run_id, epoch, round(seconds * 1000)):
                    kept.add((tenant, run_id))
            return kept

        return await self._database.write(work) if held else set()

    async def release(self, tenant: str, run_id: str, owner: str, epoch: int) -> None:
        """Give a run back unfinished: another executor takes it at once. Somebody else's lease is left alone."""

        async def work(tx: Tx) -> None:
            await tx.many(_RELEASE, [(tenant, run_id, owner, epoch)])

        await self._database.write(work)

    async def expire_all(self) -> None:
        """Embedded start-up: holding the folder's lock proves that every former owner is dead."""

        async def work(tx: Tx) -> None:
            await tx.rows(_EXPIRE_ALL)

        await self._database.write(work)
