"""Forgetting: the text and the index go at once, in the commit that says so; a tombstone stays.

The chain holds only hashes of salted content, so it still verifies. The conversation that a record came from goes only
by deleting its thread.
"""

from collections.abc import Sequence
from typing import Final

from app.core.errors import HoldfastError
from app.events import ports
from app.events.catalog import Payload
from app.events.catalog.interrupt import InterruptExpired
from app.events.catalog.memory import MemoryRecordForgotten
from app.events.ports import Condition, Refused
from app.memory.contract import RecordFilter, RecordTable
from app.memory.record_log import RecordLog
from app.views.memory_record import MemoryRecord
from app.views.ports import Reader

AT_ONCE: Final = 50
"""Records of one commit."""
_PAGE: Final = 500
_TRIES: Final = 3


class Forgetting:
    def __init__(self, records: RecordLog, table: RecordTable, reader: Reader) -> None:
        self._log, self._table, self._reader = records, table, reader

    async def forget(self, tenant: str, records: Sequence[MemoryRecord], *, reason: str, by: str) -> list[MemoryRecord]:
        """Those that were still there."""
        gone: list[MemoryRecord] = []
        for start in range(0, len(records), AT_ONCE):
            gone += await self._forget_some(tenant, records[start : start + AT_ONCE], reason, by)
        return gone

    async def with_history(self, tenant: str, records: Sequence[MemoryRecord]) -> list[MemoryRecord]:
        """They and what they superseded: who has a fact forgotten means its earlier versions, too, which no search
        finds."""
        newer = {record.id for record in records}
        older: list[MemoryRecord] = []
        for namespace in sorted({record.namespace for record in records}):
            filter_, after = RecordFilter(namespace=namespace, status="superseded"), 0
            while page := await self._table.records(tenant, filter_, after, _PAGE):
                after = page[-1].seq
                older += page
        found: list[MemoryRecord] = []
        for record in sorted(older, key=lambda one: -one.seq):  # what superseded a record is newer than it
            if record.superseded_by in newer and record.id not in newer:
                newer.add(record.id)
                found.append(record)
        return [*records, *found]

    async def forget_all(self, tenant: str, filter_: RecordFilter, *, reason: str, by: str) -> list[MemoryRecord]:
        """Every record that the filter has, whatever its status."""
        gone: list[MemoryRecord] = []
        after = 0
        while page := await self._table.records(tenant, filter_, after, _PAGE):
            after = page[-1].seq
            gone += await self.forget(tenant, page, reason=reason, by=by)
        return gone

    async def _forget_some(
        self, tenant: str, records: Sequence[MemoryRecord], reason: str, by: str
    ) -> list[MemoryRecord]:
        for _ in range(_TRIES):
            known = await self._table.by_id(tenant, [record.id for record in records])
            left = [one for record in records if (one := known.get(record.id)) and one.status != "forgotten"]
            if not left:
                return []
            entries: list[Payload] = [
                MemoryRecordForgotten(record_id=record.id, reason=reason, forgotten_by=by) for record in left
            ]
            conditions: list[Condition] = [ports.MemoryIs(record.id, frozenset({record.status})) for record in left]
            conditions.append(ports.MemoryUnindexed(tuple(record.id for record in left), erase=True))
            for record in left:
                if record.status == "proposed" and record.interrupt_id is not None:
                    asked = await self._reader.interrupt(tenant, record.interrupt_id)
                    if asked is not None and asked.status == "open":
                        entries.append(InterruptExpired(interrupt_id=asked.id))
                        conditions.append(ports.InterruptOpen(asked.id))
            answer = await self._log.append(tenant, entries, conditions, actor=by)
            if not isinstance(answer, Refused):
                return left
            # Somebody decided about one of them meanwhile: look again.
        raise HoldfastError("MEMORY_RECORD_CHANGED", "The memory record keeps changing.")
