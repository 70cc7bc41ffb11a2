"""Where schedules stand. Leaves to the log: that a due time fires once, by a key that is stored with its run."""

from typing import Any, Final

from app.core import json
from app.events.ports import ScheduleStored
from app.store.engine import Database, Sql, Tx
from app.views.schedule import ScheduleState

_ALL: Final = Sql("SELECT tenant, name, state FROM schedules ORDER BY tenant, name")
_LOCKED: Final = Sql("SELECT state FROM schedules WHERE tenant = $1 AND name = $2 {lock}")
_ADD: Final = Sql(
    "INSERT INTO schedules (tenant, name, state) VALUES ($1, $2, $3) ON CONFLICT (tenant, name) DO NOTHING "
    "RETURNING name"
)
_CHANGE: Final = Sql("UPDATE schedules SET state = $3 WHERE tenant = $1 AND name = $2")
_REMOVE: Final = Sql("DELETE FROM schedules WHERE tenant = $1 AND name = $2")


async def store_schedule(tx: Tx, tenant: str, it: ScheduleStored) -> None:
    if it.change == "deleted":
        await tx.rows(_REMOVE, tenant, it.name)
        return
    fresh: dict[str, Any] = {"cursor": it.at, "paused": False}
    if it.spec is not None:
        fresh["spec"] = json.loads(it.spec)
    if it.attached is not None:
        fresh["attached"] = json.loads(it.attached)
    await tx.rows(_ADD, tenant, it.name, json.dumps(fresh))
    if it.change == "created":
        return
    for (stored,) in await tx.rows(_LOCKED, tenant, it.name):
        state = json.loads(stored)
        state["paused"] = it.change == "paused"
        if it.change == "changed":
            state |= {name: fresh[name] for name in ("spec", "attached") if name in fresh}
        if it.change in ("resumed", "changed"):  # what was due meanwhile was not missed
            state["cursor"] = max(state["cursor"], it.at)
        await tx.rows(_CHANGE, tenant, it.name, json.dumps(state))


class ScheduleTable:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def all(self) -> list[ScheduleState]:
        rows = await self._database.look(lambda tx: tx.rows(_ALL))
        return [ScheduleState(row[0], row[1], **json.loads(row[2])) for row in rows]

    async def add(self, state: ScheduleState) -> bool:
        stored: dict[str, Any] = {"cursor": state.cursor, "paused": state.paused}
        if state.spec is not None:
            stored["spec"] = state.spec
        rows = await self._database.write(lambda tx: tx.rows(_ADD, state.tenant, state.name, json.dumps(stored)))
        return bool(rows)

    async def advance(self, tenant: str, name: str, cursor: int, due: int | None, run: str | None) -> None:
        def change(state: dict[str, Any]) -> None:
            state["cursor"] = max(state["cursor"], cursor)
            if due is not None and due >= (state.get("last_due") or 0):
                state["last_due"], state["last_run"] = due, run or state.get("last_run")

        await self._change(tenant, name, change)

    async def _change(self, tenant: str, name: str, change: Any) -> None:
        async def work(tx: Tx) -> None:
            for (stored,) in await tx.rows(_LOCKED, tenant, name):
                state = json.loads(stored)
                change(state)
                await tx.rows(_CHANGE, tenant, name, json.dumps(state))

        await self._database.write(work)
