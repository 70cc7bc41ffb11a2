"""Where runs come from, looked up once: a run's line never changes. Bounded. And streams whose events need it."""

from collections.abc import Callable
from typing import Any, Final

from cachetools import LRUCache

from app.core import json
from app.events.catalog.request import RequestQueued
from app.events.envelope import Event
from app.protocols.dialects.lime_source import Lineage, task_id
from app.protocols.http.sse import Ending, LogFrames
from app.views.ports import Reader

Spelling = Callable[[Event, Lineage | None], tuple[str, Any]]
"""The name of an event's frame, and its data."""

MAX_LINEAGES: Final = 4096
_MAX_DEPTH: Final = 16
"""Far deeper than subagents nest."""


class Lineages:
    def __init__(self, reader: Reader) -> None:
        self._reader = reader
        self._known: LRUCache[tuple[str, str], Lineage] = LRUCache(MAX_LINEAGES)

    def __len__(self) -> int:
        return len(self._known)

    def cached(self, event: Event) -> Lineage | None:
        """None when the store must be asked, and for an event of no run."""
        if event.run_id is None:
            return None
        known = self._known.get((event.tenant, event.run_id))
        if known is None and event.type == RequestQueued.type and event.payload.get("parentRunId") is None:
            known = self._keep(event.tenant, event.run_id, Lineage(event.run_id, name=_name(event)))
        return known

    async def of(self, event: Event) -> Lineage | None:
        if event.run_id is None:
            return None
        return self.cached(event) or await self._look_up(event.tenant, event.run_id)

    async def _look_up(self, tenant: str, run_id: str, depth: int = 0) -> Lineage:
        known = self._known.get((tenant, run_id))
        if known is not None:
            return known
        run = await self._reader.run(tenant, run_id)
        if run is None:  # deleted a moment ago
            return Lineage(run_id)
        name, parent = run.agent or run.tool or run.workflow, run.parent_run_id
        if parent is None or depth >= _MAX_DEPTH:
            return self._keep(tenant, run_id, Lineage(run_id, name=name))
        above = await self._look_up(tenant, parent, depth + 1)
        parent_task = task_id(parent) if above.parent_run_id is not None else None
        return self._keep(tenant, run_id, Lineage(above.turn_id, parent, name, parent_task))

    def _keep(self, tenant: str, run_id: str, lineage: Lineage) -> Lineage:
        self._known[tenant, run_id] = lineage
        return lineage


def _name(event: Event) -> str | None:
    payload = event.payload
    found = payload.get("agent") or payload.get("tool") or payload.get("workflow")
    return found if isinstance(found, str) else None


class LineageFrames(LogFrames):
    """Server-sent events whose `id` is the thread's `seq` and whose data a dialect spells with the run's line."""

    def __init__(
        self, lineages: Lineages, spelling: Spelling, ending: Ending, keep: Callable[[Event], bool] | None
    ) -> None:
        super().__init__(ending, keep)
        self._lineages, self._spelling = lineages, spelling

    def of(self, event: Event, followed: bool) -> bytes | None:
        if followed and event.run_id is not None and self._lineages.cached(event) is None:
            return None
        return super().of(event, followed)

    async def load(self, event: Event, followed: bool) -> bytes:
        await self._lineages.of(event)
        return super().of(event, followed) or b""

    def frame(self, event: Event) -> bytes:
        name, data = self._spelling(event, self._lineages.cached(event))
        return b"id: %d\nevent: %b\ndata: %b\n\n" % (event.seq, name.encode(), json.dumps(data))
