"""Claims runs and conducts them: one task per run, each under a lease.

Every append of a run carries its epoch, so an executor that lost its lease appends nothing. Leaves to others: whose
turn it is (the queue), what an agent does (its backend) and what a client sees (the log).
"""

import asyncio
import contextlib
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, Final

import structlog

from app.core.clock import Clock, iso
from app.core.ids import new_id
from app.core.suspend import Suspended
from app.events import ports
from app.events.catalog import Payload, request
from app.events.catalog.execution import CommandInjected
from app.events.catalog.interrupt import InterruptExpired
from app.events.envelope import Event
from app.events.ports import Appended, Draft, Fence, Refused, StoreError
from app.events.recorder import UNSTORABLE, Entry, Recorder, Scope
from app.models.router import error_value
from app.runtime.places import Place
from app.runtime.ports import Backlog, Fresh, Leases
from app.runtime.run.control import Control, too_late
from app.runtime.run.run_log import Superseded, expect
from app.runtime.schedule.partial_answer import partial_answer
from app.runtime.schedule.queue import FairQueue, Wanted
from app.runtime.schedule.suspects import NONE, Suspects, Suspicion
from app.views.ports import Reader
from app.views.run import Run

Conduct = Callable[[Run, Scope, Control, list[Event] | None], Awaitable[list[Payload]]]
"""Runs a claimed run to its end and answers its last events; cancels and commands reach it by its control.

The thread's events are given where they are known without reading them.
"""

CodeChanged = Callable[[str | None, str | None], Awaitable[bool | None]]
"""Whether code beside the workspace with that digest changed since a run was accepted with what stood for it then."""

LEASE_SECONDS: Final = 15.0
RENEW_SECONDS: Final = 5.0
SWEEP_SECONDS: Final = 2.0
"""How often runs are looked for whose owner is gone or whose news got lost."""
SWEEP_LIMIT: Final = 1000
MAX_THREADS_BEHIND: Final = 10_000
KEPT_RUNS: Final = 100
"""How many waiting runs are kept whole; the others are read when their turn comes."""
COMMANDS_LIMIT: Final = 10_000
"""Commands of one run that are looked at when it ends."""
EVER: Final = 2**62
CANCEL_GRACE_SECONDS: Final = 10.0
"""What a tool that acts has to come to an end after a cancel."""

log = structlog.get_logger("holdfast.executor")


@dataclass(slots=True)
class _Held:
    wanted: Wanted
    task: "asyncio.Task[None]"
    epoch: int = 0
    control: Control = field(default_factory=Control)
    asked: int = 0
    """The epoch it asked for: set before the claim is answered, because the answer may get lost."""
    born: "asyncio.Future[Fresh | None] | None" = None
    """Of a run that is claimed as it is accepted: what became of its submission."""
    woken: bool = False
    """News of the run came while it was held: it may be claimable again when it is let go."""
    over: bool = False
    """It had ended when its turn came: somebody cancelled it in the line."""


class Executor:
    def __init__(
        self,
        recorder: Recorder,
        reader: Reader,
        backlog: Backlog,
        leases: Leases,
        conduct: Conduct,
        queue: FairQueue,
        clock: Clock,
        code_changed: CodeChanged | None = None,
    ) -> None:
        self._clock, self._queue, self._code_changed = clock, queue, code_changed
        self._recorder, self._reader, self._backlog, self._leases = recorder, reader, backlog, leases
        self._conduct_run = conduct
        self._owner = new_id("key").replace("key_", "executor_")
        self._held: dict[tuple[str, str], _Held] = {}
        self._cut_off: dict[tuple[str, str], int] = {}
        """Runs that the store cut off, with the epoch of a lease that may still be ours."""
        self._behind: OrderedDict[tuple[str, str], dict[Wanted, None]] = OrderedDict()
        """By thread: runs that may find another one of their thread before them, in their order."""
        self._suspects = Suspects(leases, reader)
        self._sweep_now = asyncio.Event()
        self._more_in_store = False
        """The last sweep found more than it takes at once."""
        self._tasks: list[asyncio.Task[None]] = []
        self.draining = False

    def start(self) -> None:
        self._sweep_now.set()
        for work in (self._sweep_forever(), self._renew_forever()):
            self._tasks.append(asyncio.create_task(work))

    def wake(self, tenant: str, thread_id: str, run_id: str, fresh: Fresh | None = None) -> None:
        """A run may be claimable; its maker gives it along. A full queue loses nothing: the sweep finds the run."""
        held = self._held.get((tenant, run_id))
        if held is not None:
            held.woken = True
            return
        kept = fresh if self._queue.waiting < KEPT_RUNS else None
        if not self._queue.offer(Wanted(tenant, thread_id, run_id, kept)):
            self._more_in_store = True
        self._begin()

    def admit(self, tenant: str, thread_id: str, run_id: str, agent: str) -> Place | None:
        """A place for a run that is not accepted yet, on a thread of its own; None if it has to wait its turn."""
        wanted = Wanted(tenant, thread_id, run_id)
        if self.draining or not self._queue.at_once(wanted, agent):
            return None
        outcome: asyncio.Future[Fresh | None] = asyncio.get_running_loop().create_future()
        task = asyncio.create_task(self._conduct(wanted), name=f"run {run_id}")
        # Held from now on: a cancel may be committed before whoever submitted the run hears that it was accepted.
        self._held[tenant, run_id] = _Held(wanted, task, asked=1, born=outcome)
        lease = ports.ClaimRun(run_id, self._owner, 1, LEASE_SECONDS, born=True)
        return Place(lease, request.RequestStarted.written({"executor": self._owner, "epoch": 1}, sure=True), outcome)

    def stop(self, tenant: str, run_id: str) -> None:
        """A cancel was committed: no step starts any more. Tools that act get their grace, the rest ends now.

        The last event is written by the run's own task.
        """
        held = self._held.get((tenant, run_id))
        if held is None:
            return
        if held.control.cancelled.is_set():
            return  # a second cancel would hit the run while it records its end
        held.control.cancelled.set()
        if not held.epoch:
            return  # its claim is under way; the conductor looks at the signal before anything else
        if held.control.cancelled.acting:
            asyncio.get_running_loop().call_later(CANCEL_GRACE_SECONDS, held.task.cancel)
        else:
            held.task.cancel()

    def freed(self, tenant: str, thread_id: str) -> None:
        """A run ended that nobody worked on, such as one that waited for a person: the next of its thread may try."""
        self._call_next(tenant, thread_id)
        self._begin()

    def deliver(self, tenant: str, run_id: str, told: dict[str, Any]) -> None:
        """A command was committed; a run that is worked on here takes it up at its next step."""
        held = self._held.get((tenant, run_id))
        if held is not None:
            held.control.commands.append(told)
            held.control.note(told)

    async def drain(self, seconds: float, hurry: asyncio.Event | None = None) -> None:
        """No new claims; running runs finish, or are given back for another executor.

        They have `seconds` for it, and no more time once `hurry` is set.
        """
        self.draining = True
        for task in self._tasks:
            task.cancel()
        held = list(self._held.values())
        for each in held:
            each.control.draining = True
        await _all_done([each.task for each in held], seconds, hurry)
        for each in held:
            each.task.cancel()
        await asyncio.gather(*(each.task for each in held), *self._tasks, return_exceptions=True)
        left = [(each.wanted.tenant, each.wanted.run_id, each.epoch or each.asked) for each in held]
        left += [(tenant, run_id, epoch) for (tenant, run_id), epoch in self._cut_off.items()]
        if left:
            with contextlib.suppress(StoreError):
                # Also of those that have ended: theirs is given back already, and asking would cost more.
                await self._leases.release(self._owner, left)

    @property
    def running(self) -> int:
        return len(self._held)

    @property
    def waiting(self) -> int:
        return self._queue.waiting

    async def idle(self) -> None:
        """Returns when no run is held here."""
        while self._held:
            await asyncio.wait([held.task for held in self._held.values()])

    # -- claiming ------------------------------------------------------------------------------------

    def _begin(self) -> None:
        """Take up whatever may begin now."""
        while not self.draining and (wanted := self._queue.take()) is not None:
            task = asyncio.create_task(self._conduct(wanted), name=f"run {wanted.run_id}")
            self._held[wanted.tenant, wanted.run_id] = _Held(wanted, task)
        if self._more_in_store and not self._queue.waiting:
            self._more_in_store = False
            self._sweep_now.set()

    def _let_go(self, held: _Held) -> None:
        """The run's place goes to the next; who stood behind it on its thread may try."""
        wanted = held.wanted
        del self._held[wanted.tenant, wanted.run_id]
        self._queue.leave(wanted)
        self._no_longer_suspect(wanted)
        if held.epoch or held.over:
            self._call_next(wanted.tenant, wanted.thread_id)
        if held.woken:
            self._queue.offer(replace(wanted, fresh=None))  # what its maker knew is no longer so
        self._begin()

    def _call_next(self, tenant: str, thread_id: str) -> None:
        behind = self._behind.get((tenant, thread_id))
        if not behind:
            return
        first = next(iter(behind))
        self._no_longer_behind(first)
        asking = self._held.get((first.tenant, first.run_id))
        if asking is not None:
            asking.woken = True  # it is being told just now that it has to wait
        else:
            self._queue.offer(first)

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
            self._more_in_store = len(found) == SWEEP_LIMIT
            for tenant, run_id, thread_id, _ in found:
                wanted = Wanted(tenant, thread_id, run_id)
                if (tenant, run_id) not in self._held and not self._suspects.waits(wanted):
                    self._queue.offer(wanted)
            self._begin()

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
        if self._cut_off:
            given = dict(self._cut_off)
            await self._leases.release(self._owner, [(*run, epoch) for run, epoch in given.items()])
            for run in given:
                self._cut_off.pop(run, None)

    async def _renew_forever(self) -> None:
        while not self.draining:
            await asyncio.sleep(RENEW_SECONDS)
            held = [(h.wanted.tenant, h.wanted.run_id, h.epoch) for h in self._held.values() if h.epoch]
            try:
                kept = await self._leases.renew(held, LEASE_SECONDS)
            except StoreError:
                continue
            for tenant, run_id, _ in held:
                lost = self._held.get((tenant, run_id)) if (tenant, run_id) not in kept else None
                if lost is not None:
                    lost.task.cancel()

    # -- conducting ----------------------------------------------------------------------------------

    async def _conduct(self, wanted: Wanted) -> None:
        held = self._held[wanted.tenant, wanted.run_id]
        try:
            await self._claim_and_run(held)
        except StoreError:
            # Looking for work at once would spin for as long as the store refuses; the regular sweep is soon enough.
            self._cut_off[wanted.tenant, wanted.run_id] = held.asked
        except Suspended:
            pass
        except (Superseded, asyncio.CancelledError):
            self._sweep_now.set()  # the log says how it stands; the sweep takes the run up again if it has not ended
        except Exception:
            log.exception("run.conduct_failed", run=wanted.run_id)
        finally:
            self._let_go(held)

    def _came_further(self, wanted: Wanted) -> None:
        """A suspect completed a step: the next one need not wait for its end."""
        self._no_longer_suspect(wanted)
        self._begin()

    def _no_longer_suspect(self, wanted: Wanted) -> None:
        following = self._suspects.leave(wanted)
        if following is not None:
            self._queue.offer(following)

    def _no_longer_behind(self, wanted: Wanted) -> None:
        thread = wanted.tenant, wanted.thread_id
        behind = self._behind.get(thread)
        if behind is not None:
            behind.pop(wanted, None)
            if not behind:
                del self._behind[thread]

    async def _claim_and_run(self, held: _Held) -> None:
        if held.born is not None:
            fresh = await held.born
            if fresh is not None:
                await self._run(held, fresh.run, fresh.and_then(()))
            return
        tenant, fresh = held.wanted.tenant, held.wanted.fresh
        run = fresh.run if fresh is not None else await self._reader.run(tenant, held.wanted.run_id)
        held.over = run is None or run.terminal
        if run is None or run.terminal or run.status == "waiting":
            return
        suspicion = await self._suspects.judge(tenant, run) if run.status == "running" else NONE
        if suspicion.alone and not self._suspects.enter(held.wanted):
            return
        if not self._queue.enter(held.wanted, run.agent or ""):
            return
        held.asked = run.epoch + 1
        claimed = await self._claim(tenant, run, suspicion)
        if claimed is None:
            return
        if (failure := suspicion.failure) is not None and run.cancel_requested_at is None:
            log.error("run.killed_server", run=run.id, thread=run.thread_id, deaths=suspicion.deaths)
            await self._end(held, run, [request.RequestFailed(error=error_value(failure))], set())
        else:
            if suspicion.alone:
                held.control.on_step = partial(self._came_further, held.wanted)
            await self._run(held, run, fresh.and_then(claimed.events) if fresh is not None else None)

    async def _run(self, held: _Held, run: Run, thread: list[Event] | None) -> None:
        """`run` as it was before its claim; `thread` where its events are known without reading them."""
        held.epoch = run.epoch + 1
        held.control.outside = partial(self._outside, held)
        scope, tried = self._scope(held, run), set[str]()
        while True:
            try:
                ending = await self._conduct_run(run, scope, held.control, thread)
            except asyncio.CancelledError:
                if not held.control.cancelled.is_set():
                    raise
                ending = [request.RequestCancelled(by=scope.actor)]
            if await self._end(held, run, ending, tried):
                return
            # Entered again: what it has done comes back from the log, and the commands with it.
            run, thread = replace(run, started_at=run.started_at or run.created_at), None

    def _scope(self, held: _Held, run: Run) -> Scope:
        return Scope(held.wanted.tenant, run.thread_id, run.id, "system", Fence(run.id, run.epoch + 1))

    async def _end(self, held: _Held, run: Run, ending: Sequence[Payload], tried: set[str]) -> bool:
        """False if the run is to be entered once more, because a command came that it has not followed.

        A run completes only if it has seen all that was accepted before: a condition of the append. What it was
        entered again for and still did not follow is answered as too late, in the same commit.
        """
        held.epoch, scope, control = run.epoch + 1, self._scope(held, run), held.control
        completes = ending[-1].type == request.RequestCompleted.type
        late = control.unanswered() if completes else []
        if control.replays and any(command["commandId"] not in tried for command in late):
            tried |= {command["commandId"] for command in late}
            await self._record_held(scope, await control.take_held())
            return False
        if isinstance(ending[-1], request.RequestCancelled):
            ending = [*ending[:-1], await self._with_partial_answer(held, run, ending[-1])]
        children, last = await self._end_children(run, held), await control.take_held()
        seen = [ports.CommandsSeen(run.id, len(control.known))] if completes else []
        answer = await self._recorder.record(scope, *last, *children, *too_late(late), *ending, conditions=seen)
        if isinstance(answer, Refused) and answer.failure.code == "COMMAND_UNSEEN":
            await self._record_held(scope, last)
            control.note_stored(run.id, await self._commands_of(scope, run))
            return await self._end(held, run, ending, tried)
        if isinstance(answer, Refused) and answer.failure.code in UNSTORABLE:
            failed = request.RequestFailed(error=error_value(answer.failure))
            answer = await self._recorder.record(scope, *last, *children, failed)
        expect(answer)
        return True

    async def _with_partial_answer(
        self, held: _Held, run: Run, ended: request.RequestCancelled
    ) -> request.RequestCancelled:
        said = await partial_answer(self._reader, held.wanted, run)
        if said is None:
            return ended
        return ended.model_copy(update={"message_id": said[0], "output": said[1]})

    async def _record_held(self, scope: Scope, held: Sequence[Draft]) -> None:
        if held:
            expect(await self._recorder.record(scope, *held))

    async def _commands_of(self, scope: Scope, run: Run) -> list[Event]:
        types, after = [CommandInjected.type], run.first_seq - 1
        return await self._reader.events_of(scope.tenant, scope.thread_id, types, after, EVER, COMMANDS_LIMIT)

    @contextlib.contextmanager
    def _outside(self, held: _Held) -> Iterator[None]:
        """While a run only waits, such as for a provider that is down, its place is lent to the next one."""
        if not self._queue.step_out(held.wanted):
            yield  # it waits in its place, also when a subagent of the run waits outside already
            return
        try:
            self._begin()
            yield
        finally:
            self._queue.step_in(held.wanted)

    async def _end_children(self, run: Run, held: _Held) -> list[Entry]:
        """A parent's subagents end with it, in the same commit. Only a run that was entered before can have others
        than those of this time."""
        children = set(held.control.children)
        if run.started_at is not None:
            children |= set(await self._backlog.open_children(held.wanted.tenant, run.thread_id))
        ended = request.RequestCancelled(reason="its parent ended")
        return [Entry(ended, run_id=child, actor="system") for child in sorted(children)]

    async def _has_other_code(self, tenant: str, run: Run) -> bool | None:
        if self._code_changed is None:
            return None
        queued = await self._reader.run_events(tenant, run.id, run.first_seq - 1, 1)
        return await self._code_changed(run.workspace_digest, queued[0].payload.get("code") if queued else None)

    async def _claim(self, tenant: str, run: Run, suspicion: Suspicion) -> Appended | None:
        """The lease, its epoch and the event that tells of it are one commit."""
        epoch = run.epoch + 1
        lease = ports.ClaimRun(
            run.id, self._owner, epoch, LEASE_SECONDS, suspect=suspicion.suspect, deaths=suspicion.deaths,
            previous=suspicion.previous,
        )  # fmt: skip
        claimed: Payload = (
            request.RequestStarted(executor=self._owner, epoch=epoch)
            if run.started_at is None
            else request.RequestResumed(
                executor=self._owner, epoch=epoch, reason="answer" if run.status == "queued" else "recovery",
                code_changed=await self._has_other_code(tenant, run),
            )
        )  # fmt: skip
        scope = Scope(tenant, run.thread_id, run.id, actor="system")
        # Before the claim is decided: the run that is in its way may end while we wait for the answer.
        wanted = Wanted(tenant, run.thread_id, run.id)
        self._behind.setdefault((tenant, run.thread_id), {})[wanted] = None
        if len(self._behind) > MAX_THREADS_BEHIND:
            self._behind.popitem(last=False)  # the sweep finds those
        answer = await self._recorder.record(scope, claimed, conditions=[lease])
        if isinstance(answer, Appended):
            self._no_longer_behind(wanted)
            return answer
        if answer.failure.code != "THREAD_BUSY":
            self._no_longer_behind(wanted)
        elif answer.winner is not None and (tenant, answer.winner) not in self._held:
            # Called before its turn: whoever is first may not have been called at all.
            self._queue.offer(Wanted(tenant, run.thread_id, answer.winner))
        return None


async def _all_done(tasks: "list[asyncio.Task[None]]", seconds: float, hurry: asyncio.Event | None) -> None:
    """Returns when every task has ended, the time is over or somebody asked to hurry."""
    if not tasks:
        return
    done = asyncio.ensure_future(asyncio.wait(tasks, timeout=seconds))
    hurried = asyncio.ensure_future((hurry or asyncio.Event()).wait())
    await asyncio.wait([done, hurried], return_when=asyncio.FIRST_COMPLETED)
    for waiting in (done, hurried):
        waiting.cancel()
    await asyncio.gather(done, hurried, return_exceptions=True)
