"""Deletes threads that had no event for as long as the workspace keeps them (`retention.threadsDays`).

Deleting is an event like that of a client, by the actor `system`; the purge follows after `deletedDays`. A thread with
a run that has not ended is kept, whatever its age.
"""

from collections.abc import Callable
from typing import Final, Protocol

import structlog

from app.core.clock import Clock
from app.events import ports
from app.events.catalog.thread import ThreadDeleted
from app.events.ports import Appended
from app.events.recorder import Recorder, Scope
from app.runtime.schedule.effective_settings import DAY_MS

BATCH: Final = 100
REASON: Final = "retention: no event for {} days"

log = structlog.get_logger("holdfast.retention")


class IdleThreads(Protocol):
    async def idle_threads(
        self, before_ms: int, after: tuple[int, int], limit: int
    ) -> list[tuple[tuple[int, int], str, str]]:
        """(place, tenant, id) of threads whose last event is older, from a place on, the oldest thread first."""
        ...


class ThreadExpiry:
    def __init__(self, recorder: Recorder, idle: IdleThreads, clock: Clock, days: Callable[[], int | None]) -> None:
        self._recorder, self._idle, self._clock, self._days = recorder, idle, clock, days

    async def expire(self, stopping: Callable[[], bool] = lambda: False) -> int:
        """Delete what is due; returns how many. Looked at in batches, so that stopping never waits long."""
        days = self._days()
        deleted, last = 0, (0, 0)
        while days is not None and not stopping():
            before = self._clock.now_ms() - days * DAY_MS
            due = await self._idle.idle_threads(before, last, BATCH)
            for last, tenant, thread_id in due:  # noqa: B007 - the next batch begins after it
                deleted += await self._delete(tenant, thread_id, before, days)
            if len(due) < BATCH:
                break
        if deleted:
            log.info("threads.expired", threads=deleted, days=days)
        return deleted

    async def _delete(self, tenant: str, thread_id: str, before: int, days: int) -> bool:
        scope = Scope(tenant, thread_id, actor="system")
        # Room for one only where no run is active: a run that waits for a person keeps its thread.
        idle: list[ports.Condition] = [ports.ThreadHasRoom(1), ports.ThreadIdleSince(before)]
        answer = await self._recorder.record(scope, ThreadDeleted(reason=REASON.format(days)), conditions=idle)
        return isinstance(answer, Appended)
