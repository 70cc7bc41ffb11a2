"""Claims runs and conducts them: one task per run, bounded in number, each under a lease.

Every append of a run carries its epoch, so an executor that lost its lease appends nothing. Leaves to others: what
an agent does (its backend) and what a client sees (the log).
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, Final

import structlog

from app.core.clock import Clock, iso
from app.core.ids import new_id
from app.core.suspend import Suspended
from app.events import ports
from app.events.catalog import Payload, request
from app.events.catalog.interrupt import InterruptExpired
from app.events.ports import Appended, Fence, StoreError
from app.events.recorder import Entry, Recorder, Scope
from app.runtime.control import Control
from app.runtime.ports import Backlog, Leases
from app.runtime.run_log import Superseded, expect
from app.views.ports import Reader
from app.views.run import Run

Conduct = Callable[[Run, Scope, Control], Awaitable[list[Payload]]]
"""Runs a claimed run to its end and answers its last events; cancels and commands reach it by its control."""

LEASE_SECONDS: Final = 15.0
RENEW_SECONDS: Final = 5.0
SWEEP_SECONDS: Final = 2.0
"""How often runs are looked for whose owner is gone or whose news got lost."""
SOON_SECONDS: Final = 0.1
"""How soon after a run's end, when nothing is known to wait for it."""
SWEEP_LIMIT: Final = 200
MAX_BEHIND: Final = 10_000
"""Threads that are remembered for having a queue; the sweep finds the next run of any other."""
CANCEL_GRACE_SECONDS: Final = 10.0
"""What a tool that acts has to come to an end after a cancel."""

log = structlog.get_logger("holdfast.executor")


@dataclass(slots=True)
class _Held:
    tenant: str
    run_id: str
    epoch: int
    task: "asyncio.Task[None]"
    control: Control = field(default_factory=Control)
    asked: int = 0
    """The epoch it asked for: set before the claim is answered, because the answer may get lost."""


class Executor:
    def __init__(
        self,
        recorder: Recorder,
        reader: Reader,
        backlog: Backlog,
        leases: Leases,
        conduct: Conduct,
        max_concurrent: int,
        clock: Clock,
    ) -> None:
        self._clock = clock
        self._recorder, self._reader, self._backlog, self._leases = recorder, reader, backlog, leases
        self._conduct_run = conduct
        self._slots = asyncio.Semaphore(max_concurrent)
        self._owner = new_id("key").replace("key_", "executor_")
        self._held: dict[tuple[str, str], _Held] = {}
        self._cut_off: dict[tuple[str, str], int] = {}
        """Runs that the store cut off, with the epoch of a lease that may still be ours."""
        self._behind: dict[tuple[str, str], set[str]] = {}
        """Threads where another run works, each with the runs that could not be claimed because of it."""
        self._sweep_soon: asyncio.TimerHandle | None = None
        self._wanted: asyncio.Queue[tuple[str, str, str, Run | None]] = asyncio.Queue(maxsize=10_000)
        self._sweep_now = asyncio.Event()
        self._tasks: list[asyncio.Task[None]] = []
        self.draining = False

    def start(self) -> None:
        self._sweep_now.set()
        for work in (self._claim_forever(), self._sweep_forever(), self._renew_forever()):
            self._tasks.append(asyncio.create_task(work))

    def wake(self, tenant: str, thread_id: str, run_id: str, run: Run | None = None) -> None:
        """A run may be claimable; its maker gives it along. A full queue loses nothing: the sweep finds the run."""
        with contextlib.suppress(asyncio.QueueFull):
            self._wanted.put_nowait((tenant, thread_id, run_id, run))

    def stop(self, tenant: str, run_id: str) -> None:
        """A cancel was committed: no step starts any more. Tools that act get their grace, the rest ends now.

        The last event is written by the run's own task.
        """
        held = self._held.get((tenant, run_id))
        if held is None:
            return
        held.control.cancelled.set()
        if not held.epoch:
            return  # its claim is under way; the conductor looks at the signal before anything else
        if held.control.cancelled.acting:
            asyncio.get_running_loop().call_later(CANCEL_GRACE_SECONDS, held.task.cancel)
        else:
            held.task.cancel()

    def deliver(self, tenant: str, run_id: str, told: dict[str, Any]) -> None:
        """A command was committed; a run that is worked on here takes it up at its next step."""
        held = self._held.get((tenant, run_id))
        if held is not None:
            held.control.commands.append(told)

    async def drain(self, seconds: float) -> None:
        """No new claims; running runs finish, or are given back for another executor."""
        self.draining = True
        for task in self._tasks:
            task.cancel()
        running = [held.task for held in self._held.values()]
        if running:
            await asyncio.wait(running, timeout=seconds)
        for held in list(self._held.values()):
            held.task.cancel()
            with contextlib.suppress(asyncio.CancelledError, Exception):
                await held.task
            with contextlib.suppress(StoreError):
                await self._leases.release(held.tenant, held.run_id, self._owner, held.epoch)
        await asyncio.gather(*self._tasks, return_exceptions=True)

    @property
    def running(self) -> int:
        return len(self._held)

    @property
    def waiting(self) -> int:
        return self._wanted.qsize()

    async def idle(self) -> None:
        """Returns when no run is held here."""
        while self._held:
            await asyncio.wait([held.task for held in self._held.values()])

    # -- claiming ------------------------------------------------------------------------------------

    async def _claim_forever(self) -> None:
        while not self.draining:
            tenant, thread_id, run_id, run = await self._wanted.get()
            if (tenant, run_id) in self._held:
                continue
            await self._slots.acquire()
            task = asyncio.create_task(self._conduct(tenant, thread_id, run_id, run), name=f"run {run_id}")
            self._held[tenant, run_id] = _Held(tenant, run_id, 0, task)

    async def _sweep_forever(self) -> None:
        while not self.draining:
            # Not wait_for: before Python 3.12 it loses a cancel that meets the event, and drain would wait for ever.
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(SWEEP_SECONDS):
                    await self._sweep_now.wait()
            self._sweep_now.clear()
            try:
                await self._give_back()
                await self._expire_interrupts()
                found = await self._backlog.runs_without_an_owner(SWEEP_LIMIT)
            except StoreError:
                continue
            for tenant, run_id, thread_id, _ in found:
                self.wake(tenant, thread_id, run_id)

    async def _expire_interrupts(self) -> None:
        """What nobody answered in time is answered by the clock, once: an answer that came first wins."""
        for tenant, thread_id, run_id, interrupt_id in await self._backlog.overdue_interrupts(
            iso(self._clock.now_ms()), SWEEP_LIMIT
        ):
            scope = Scope(tenant, thread_id, run_id)
            expired = InterruptExpired(interrupt_id=interrupt_id)
            await self._recorder.record(scope, expired, conditions=[ports.InterruptOpen(interrupt_id)])

    async def _give_back(self) -> None:
        """Leases of runs that the store cut off: nobody works on those, so nobody should wait for the leases to end."""
        while self._cut_off:
            (tenant, run_id), epoch = next(iter(self._cut_off.items()))
            await self._leases.release(tenant, run_id, self._owner, epoch)
            self._cut_off.pop((tenant, run_id), None)

    async def _renew_forever(self) -> None:
        while not self.draining:
            await asyncio.sleep(RENEW_SECONDS)
            held = [(h.tenant, h.run_id, h.epoch) for h in self._held.values() if h.epoch]
            try:
                kept = await self._leases.renew(held, LEASE_SECONDS)
            except StoreError:
                continue
            for tenant, run_id, _ in held:
                lost = self._held.get((tenant, run_id)) if (tenant, run_id) not in kept else None
                if lost is not None:
                    lost.task.cancel()

    # -- conducting ----------------------------------------------------------------------------------

    async def _conduct(self, tenant: str, thread_id: str, run_id: str, run: Run | None) -> None:
        try:
            await self._claim_and_run(tenant, run_id, run)
        except StoreError:
            # Looking for work at once would spin for as long as the store refuses; the regular sweep is soon enough.
            self._cut_off[tenant, run_id] = self._held[tenant, run_id].asked
        except (Superseded, Suspended, asyncio.CancelledError):
            self._sweep_now.set()  # the log says how it stands; the sweep takes the run up again if it has not ended
        except Exception:
            log.exception("run.conduct_failed", run=run_id)
        finally:
            self._held.pop((tenant, run_id), None)
            self._slots.release()
            self._look_for_the_next((tenant, thread_id))

    def _look_for_the_next(self, thread: tuple[str, str]) -> None:
        """At once if a run is known to wait for this one's end. What only the store knows of may wait a moment: many
        runs end in it, and one look finds what all of them left."""
        if thread in self._behind:
            self._sweep_now.set()
        elif self._sweep_soon is None and not self.draining:
            self._sweep_soon = asyncio.get_running_loop().call_later(SOON_SECONDS, self._sweep)

    def _sweep(self) -> None:
        self._sweep_soon = None
        self._sweep_now.set()

    async def _claim_and_run(self, tenant: str, run_id: str, run: Run | None) -> None:
        run = run or await self._reader.run(tenant, run_id)
        if run is None or run.terminal or run.status == "waiting":
            return
        held = self._held[tenant, run_id]
        held.asked = run.epoch + 1
        scope = await self._claim(tenant, run)
        if scope is None:
            return
        assert scope.fence is not None
        held.epoch = scope.fence.epoch
        try:
            ending = await self._conduct_run(run, scope, held.control)
        except asyncio.CancelledError:
            if not held.control.cancelled.is_set():
                raise
            ending = [request.RequestCancelled(by=scope.actor)]
        expect(await self._recorder.record(scope, *await self._end_children(run, held), *ending))

    async def _end_children(self, run: Run, held: _Held) -> list[Entry]:
        """A parent's subagents end with it, in the same commit. Only a run that was entered before can have others
        than those of this time."""
        children = set(held.control.children)
        if run.started_at is not None:
            children |= set(await self._backlog.open_children(held.tenant, run.thread_id))
        ended = request.RequestCancelled(reason="its parent ended")
        return [Entry(ended, run_id=child, actor="system") for child in sorted(children)]

    async def _claim(self, tenant: str, run: Run) -> Scope | None:
        """The lease, its epoch and the event that tells of it are one commit."""
        epoch = run.epoch + 1
        lease = ports.ClaimRun(run.id, self._owner, epoch, LEASE_SECONDS)
        claimed: Payload = (
            request.RequestStarted(executor=self._owner, epoch=epoch)
            if run.started_at is None
            else request.RequestResumed(
                executor=self._owner, epoch=epoch, reason="answer" if run.status == "queued" else "recovery"
            )
        )
        scope = Scope(tenant, run.thread_id, run.id, actor="system")
        # Before the claim is decided: the run that is in its way may end while we wait for the answer.
        waiting = self._behind.setdefault((tenant, run.thread_id), set())
        waiting.add(run.id)
        answer = await self._recorder.record(scope, claimed, conditions=[lease])
        if isinstance(answer, Appended) or answer.failure.code != "THREAD_BUSY":
            waiting.discard(run.id)
        if not waiting or len(self._behind) > MAX_BEHIND:
            self._behind.pop((tenant, run.thread_id), None)
        if not isinstance(answer, Appended):
            return None
        return Scope(tenant, run.thread_id, run.id, "system", Fence(run.id, epoch))
