"""Looks in the store for runs that nobody works on: their owner is gone, or the message about them got lost.

On the way it gives back leases that a store failure left behind, and lets overdue interrupts expire. Leaves to the
executor: what becomes of the runs that were found.
"""

import asyncio
import contextlib
from collections.abc import Callable, Iterable
from typing import Final

from app.core.clock import Clock, iso
from app.events.catalog.interrupt import InterruptExpired
from app.events.ports import InterruptOpen, StoreError
from app.events.recorder import Recorder, Scope
from app.runtime.ports import Backlog
from app.runtime.schedule.queue import RunRef
from app.runtime.schedule.run_leases import RunLeases

SWEEP_LIMIT: Final = 1000


class Sweeper:
    def __init__(
        self,
        recorder: Recorder,
        backlog: Backlog,
        leases: RunLeases,
        clock: Clock,
        on_found: Callable[[Iterable[RunRef]], None],
    ) -> None:
        self._recorder, self._backlog, self._leases, self._clock = recorder, backlog, leases, clock
        self._on_found = on_found
        self._requested = asyncio.Event()
        self._more = False

    def request(self) -> None:
        """Sweep at once."""
        self._requested.set()

    def more_in_store(self) -> None:
        """A run did not fit into the queue: sweep as soon as the queue is empty."""
        self._more = True

    def queue_is_empty(self) -> None:
        if self._more:
            self._more = False
            self._requested.set()

    async def sweep_forever(self) -> None:
        while True:
            # Not wait_for: before Python 3.12 it loses a cancel that meets the event, and drain would wait for ever.
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(self._leases.sweep_seconds):
                    await self._requested.wait()
            self._requested.clear()
            try:
                await self._leases.give_back_cut_off()
                await self._expire_interrupts()
                found = await self._backlog.runs_without_an_owner(SWEEP_LIMIT)
            except StoreError:
                continue
            self._more = len(found) == SWEEP_LIMIT
            self._on_found(RunRef(tenant, thread, run, background=later) for tenant, run, thread, later in found)

    async def _expire_interrupts(self) -> None:
        """What nobody answered in time is answered by the clock, once: an answer that came first wins."""
        now = iso(self._clock.now_ms())
        for tenant, thread_id, run_id, interrupt_id in await self._backlog.overdue_interrupts(now, SWEEP_LIMIT):
            scope = Scope(tenant, thread_id, run_id)
            expired = InterruptExpired(interrupt_id=interrupt_id)
            await self._recorder.record(scope, expired, conditions=[InterruptOpen(interrupt_id)])
