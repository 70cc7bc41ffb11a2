"""What consumers of the log have not acknowledged: written by the append, read and dropped here.

Leaves to the follower: who is offered what, and when.
"""

import contextlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

from app.core import json
from app.events.envelope import Event
from app.events.followed import UnreadEvent
from app.events.ports import StorageFull
from app.store.engine import Database, Row, Sql, Tx

PUT_UNREAD: Final = Sql(
    "INSERT INTO outbox (consumer, tenant, thread_id, seq) VALUES ($1, $2, $3, $4)",
    bulk="INSERT INTO outbox (consumer, tenant, thread_id, seq) SELECT * FROM "
    "unnest($1::text[], $2::text[], $3::text[], $4::bigint[])",
)
_CONSUMERS: Final = Sql("SELECT name, types FROM consumers ORDER BY name")
_ADD: Final = Sql(
    "INSERT INTO consumers (name, types, until) VALUES ($1, $2, 0) "
    "ON CONFLICT (name) DO UPDATE SET types = excluded.types"
)
_REMOVE: Final = Sql("DELETE FROM consumers WHERE name = $1")
_DROP_ALL: Final = Sql("DELETE FROM outbox WHERE consumer = $1")
_LEASE: Final = Sql(
    "UPDATE consumers SET owner = $2, until = {now} + $3 WHERE name = $1 AND (owner = $2 OR until <= {now}) "
    "RETURNING name"
)
_GIVE_BACK_ALL: Final = Sql("UPDATE consumers SET until = 0 WHERE until > 0")
_GIVE_BACK: Final = Sql("UPDATE consumers SET until = 0 WHERE name = $1 AND owner = $2")
_UNREAD: Final = Sql("SELECT id, tenant, thread_id, seq FROM outbox WHERE consumer = $1 ORDER BY id LIMIT $2")
_ACKNOWLEDGE: Final = Sql("DELETE FROM outbox WHERE consumer = $1 AND id {in:$2}")


class OutboxTable:
    def __init__(self, database: Database) -> None:
        self._database = database
        self._not_stored: dict[str, frozenset[str] | None] = {}
        self.wanted: Mapping[str, tuple[str, ...]] = {}
        self.on_written: Callable[[], None] = lambda: None

    def rows(self, batch: Iterable[Sequence[Event]]) -> list[Row]:
        """What the append stores for the events of a batch."""
        wanted = self.wanted
        return [
            (name, event.tenant, event.thread_id, event.seq)
            for events in batch
            for event in events
            if event.type in wanted
            for name in wanted[event.type]
        ]

    async def refresh(self) -> None:
        with contextlib.suppress(StorageFull):
            for name, types in list(self._not_stored.items()):
                await (self._remove(name) if types is None else self._add(name, types))
                if self._not_stored.get(name) is types:  # no other change came in the meantime
                    self._not_stored.pop(name, None)
        wanted: dict[str, tuple[str, ...]] = {}
        for name, types in sorted({**await self._stored(), **self._not_stored}.items()):
            for type_ in types or ():
                wanted[type_] = (*wanted.get(type_, ()), name)
        self.wanted = wanted

    async def add(self, name: str, types: frozenset[str]) -> None:
        """On a full disk this server remembers it until there is room; before that nothing is stored for anybody."""
        await self._change(name, types)

    async def remove(self, name: str) -> None:
        await self._change(name, None)

    async def _change(self, name: str, types: frozenset[str] | None) -> None:
        self._not_stored.pop(name, None)
        if (await self._stored()).get(name) != types:
            self._not_stored[name] = types
        await self.refresh()

    async def _stored(self) -> dict[str, frozenset[str]]:
        rows = await self._database.look(lambda tx: tx.rows(_CONSUMERS))
        return {name: frozenset(json.loads(types)) for name, types in rows}

    async def _add(self, name: str, types: frozenset[str]) -> None:
        await self._database.write(lambda tx: tx.rows(_ADD, name, json.dumps(sorted(types)).decode()))

    async def _remove(self, name: str) -> None:
        async def work(tx: Tx) -> None:
            await tx.rows(_REMOVE, name)
            await tx.rows(_DROP_ALL, name)

        await self._database.write(work)

    async def take_lease(self, name: str, owner: str, seconds: float) -> bool:
        return bool(await self._database.write(lambda tx: tx.rows(_LEASE, name, owner, round(seconds * 1000))))

    async def give_back(self, name: str, owner: str) -> None:
        await self._database.write(lambda tx: tx.rows(_GIVE_BACK, name, owner))

    async def give_back_all(self) -> None:
        """Embedded start-up: whoever had them is dead."""
        await self._database.write(lambda tx: tx.rows(_GIVE_BACK_ALL))

    async def unread(self, name: str, limit: int) -> list[UnreadEvent]:
        rows = await self._database.look(lambda tx: tx.rows(_UNREAD, name, limit))
        return [UnreadEvent(*row) for row in rows]

    async def acknowledge(self, name: str, places: Sequence[int]) -> None:
        await self._database.write(lambda tx: tx.rows(_ACKNOWLEDGE, name, list(places)))
