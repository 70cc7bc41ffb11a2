"""Gives runs a worker: one task per run, from its claim until its end is recorded.

Leaves to others: whose turn it is (the queue), leases, finding runs without an owner (the sweeper), what an agent does
(its backend), the last commit of a run (its ending) and what a client sees (the log).
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, Final, TypeVar

import structlog

from app.core.clock import Clock, ms_of
from app.core.errors import Failure
from app.core.suspend import Suspended
from app.events.catalog import Payload, request
from app.events.catalog.builders import BuiltRequestStarted
from app.events.catalog.job import JobStarted
from app.events.envelope import Event
from app.events.ports import Appended, Condition, Fence, ProjectTurn, Refused, StoreError
from app.events.recorder import Recorder, Scope
from app.models.router import error_value
from app.runtime.job_events import begins_attempt, job_progress, job_started
from app.runtime.ports import Backlog, Leases
from app.runtime.run.control import Control
from app.runtime.run.run_log import Superseded
from app.runtime.schedule.due_timers import DueTimers
from app.runtime.schedule.held_run import HeldRun
from app.runtime.schedule.job_lines import JobLines
from app.runtime.schedule.other_servers import NoOtherServers, OtherServers, new_commands
from app.runtime.schedule.queue import FairQueue, RunRef
from app.runtime.schedule.run_ending import RunEnding
from app.runtime.schedule.run_leases import RunLeases
from app.runtime.schedule.suspects import NONE, Suspects, Suspicion
from app.runtime.schedule.sweeper import Sweeper
from app.runtime.schedule.thread_lines import ThreadLines
from app.runtime.scheduler import AcceptedRun, WorkerReservation
from app.views.job_changes import due_at, is_background, project_line
from app.views.ports import Reader
from app.views.run import Run

Conduct = Callable[[Run, Scope, Control, list[Event] | None], Awaitable[list[Payload]]]
"""Runs a claimed run to its end and answers its last events; cancels and commands reach it by its control.

The thread's events are given where they are known without reading them.
"""

FollowAnswer = Callable[[Run, Scope, list[Payload]], Awaitable[list[Payload]]]
"""Does what a job's answer asks for before the job ends, and answers how it ends then."""

CodeChanged = Callable[[str | None, str | None], Awaitable[bool | None]]
"""Whether code outside the workspace with that digest changed since a run was accepted with that code version."""

KEPT_RUNS: Final = 100
"""How many waiting runs are kept whole; the others are read when their turn comes."""
AGAIN_MS: Final = 50
"""After which a job tries again whose project's line another server was looking at."""
CANCEL_GRACE_SECONDS: Final = 10.0
"""What a tool that acts has to come to an end after a cancel."""

_Claimed = tuple[Run, list[Event] | None]
"""A run as it was before its claim, and its thread's events where they are known without reading them."""

T = TypeVar("T")
log = structlog.get_logger("holdfast.executor")


class Executor:
    """The scheduler of this process."""

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
        lease_seconds: float = 15.0,
    ) -> None:
        self._recorder, self._reader, self._queue, self._code_changed = recorder, reader, queue, code_changed
        self._conduct_run = conduct
        self._held: dict[tuple[str, str], HeldRun] = {}
        self._threads: dict[tuple[str, str], int] = {}
        """The threads of the held runs, each with how many."""
        self._lines, self._projects = ThreadLines(), JobLines()
        self._backlog = backlog
        self._leases = RunLeases(leases, lease_seconds)
        self._suspects = Suspects(leases, reader)
        self.ending = RunEnding(recorder, reader, backlog, clock)
        self._clock, self._due = clock, DueTimers(clock, self._take_one_up)
        self._sweeper = Sweeper(recorder, backlog, self._leases, clock, self._take_up)
        self._tasks: list[asyncio.Task[None]] = []
        self._looking: set[asyncio.Task[None]] = set()
        self.draining = False
        self.others: OtherServers = NoOtherServers()
        self.may_begin: Callable[[], bool] = lambda: True
        """Whether this process may take runs up now."""
        self.follow_answer: FollowAnswer = _as_it_is

    def start(self) -> None:
        self._sweeper.request()
        for work in (self._sweeper.sweep_forever(), self._renew_forever()):
            self._tasks.append(asyncio.create_task(work))

    # -- what intake asks for (Scheduler) ---------------------------------------------------------------

    def refusal(self, tenant: str) -> Failure | None:
        return self._queue.refusal(tenant)

    def reserve(self, tenant: str, thread_id: str, run_id: str, agent: str) -> WorkerReservation | None:
        ref = RunRef(tenant, thread_id, run_id)
        if self.draining or not self.may_begin() or not self._queue.at_once(ref, agent):
            return None
        outcome: asyncio.Future[AcceptedRun | None] = asyncio.get_running_loop().create_future()
        # Held from now on: a cancel may be committed before whoever submitted the run hears that it was accepted.
        self._hold(ref, outcome)
        started = BuiltRequestStarted(executor=self._leases.owner, epoch=1)
        return WorkerReservation(self._leases.first(run_id), started, outcome)

    def wake(self, tenant: str, thread_id: str, run_id: str, accepted: AcceptedRun | None = None) -> None:
        """A full queue loses nothing: the sweep finds the run."""
        held = self._held.get((tenant, run_id))
        if held is not None:
            held.woken = True
            return
        kept = accepted if self._queue.waiting < KEPT_RUNS else None
        background = accepted is not None and is_background(accepted.run)
        if not self._queue.offer(RunRef(tenant, thread_id, run_id, kept, background)):
            self._sweeper.more_in_store()
        self._begin()
        if self._queue.waiting:
            self.others.say_work()

    def wake_later(self, tenant: str, run: Run) -> None:
        self._due.set(RunRef(tenant, run.thread_id, run.id, background=is_background(run)), due_at(run) or 0)

    def stop(self, tenant: str, run_id: str) -> None:
        """Tools that act get their grace, the rest ends now. The last event is written by the run's own task."""
        held = self._held.get((tenant, run_id))
        if held is None:
            self.others.command(tenant, run_id)
            return
        if held.control.cancelled.is_set:
            return  # a second cancel would hit the run while it records its end
        held.control.cancelled.set()
        if not held.epoch:
            return  # its claim is under way; the conductor looks at the signal before anything else
        if held.control.cancelled.acting:
            asyncio.get_running_loop().call_later(CANCEL_GRACE_SECONDS, held.task.cancel)
        else:
            held.task.cancel()

    def deliver(self, tenant: str, run_id: str, command: Mapping[str, Any]) -> None:
        held = self._held.get((tenant, run_id))
        if held is None:
            self.others.command(tenant, run_id)
        else:
            _deliver(held, command)

    def freed(self, tenant: str, thread_id: str) -> None:
        self._call(self._lines.call_next(tenant, thread_id))
        self._call(self._projects.call_behind(tenant, thread_id))
        self._begin()

    # -- what other servers say ------------------------------------------------------------------------

    def has_work(self) -> None:
        """Somewhere runs wait for a worker."""
        if not self.draining and self._queue.has_room:
            self._sweeper.request()

    def ended_elsewhere(self, tenant: str, thread_id: str) -> None:
        """A run of the thread ended at another server: the next may start here."""
        if self._lines.has(tenant, thread_id) or self._projects.has_behind(tenant, thread_id):
            self.freed(tenant, thread_id)

    def look_for_commands(self, tenant: str, run_id: str) -> None:
        """Another server accepted a command to the run."""
        held = self._held.get((tenant, run_id))
        if held is not None:
            task = asyncio.create_task(self._look_for_commands(held))
            self._looking.add(task)
            task.add_done_callback(self._looking.discard)

    async def look_for_all_commands(self) -> None:
        """What other servers would have said, if they could have."""
        threads: dict[str, list[tuple[int, str]]] = {}
        for held in self._held.values():
            if held.epoch:
                threads.setdefault(held.ref.tenant, []).append((held.looked_seq, held.ref.thread_id))
        for tenant, places in threads.items():
            for run_id in await self._backlog.runs_with_commands(tenant, places):
                self.look_for_commands(tenant, run_id)

    async def _look_for_commands(self, held: HeldRun) -> None:
        with contextlib.suppress(StoreError):
            for command in await new_commands(self._reader, held):
                if command["command"] == "cancel":
                    self.stop(held.ref.tenant, held.ref.run_id)
                else:
                    _deliver(held, command)

    # -- lifecycle ------------------------------------------------------------------------------------

    async def drain(self, seconds: float, hurry: asyncio.Event | None = None) -> None:
        """No new claims; running runs finish, or are given back for another executor.

        They have `seconds` for it, and no more time once `hurry` is set.
        """
        self.draining = True
        self._due.close()
        for task in self._tasks:
            task.cancel()
        held = list(self._held.values())
        for each in held:
            each.control.draining = True
        await _all_done([each.task for each in held], seconds, hurry)
        for each in held:
            each.task.cancel()
        await asyncio.gather(*(each.task for each in held), *self._tasks, return_exceptions=True)
        with contextlib.suppress(StoreError):
            await self._leases.give_back(held)
        if held or self._queue.waiting:
            self.others.say_work()

    @property
    def owner(self) -> str:
        """The name under which this process holds runs."""
        return self._leases.owner

    @property
    def running(self) -> int:
        return len(self._held)

    @property
    def waiting(self) -> int:
        return self._queue.waiting

    def works_on(self, tenant: str, thread_id: str) -> bool:
        """Whether a run of the thread is held here."""
        return (tenant, thread_id) in self._threads

    def sweep_now(self) -> None:
        """Look for runs without an owner at once instead of within two seconds."""
        self._sweeper.request()

    async def idle(self) -> None:
        """Returns when no run is held here."""
        while self._held:
            await asyncio.wait([held.task for held in self._held.values()])

    # -- workers ---------------------------------------------------------------------------------------

    def _hold(self, ref: RunRef, submission: "asyncio.Future[AcceptedRun | None] | None" = None) -> None:
        task = asyncio.create_task(self._work(ref), name=f"run {ref.run_id}")
        requested = 0 if submission is None else 1
        self._held[ref.tenant, ref.run_id] = HeldRun(ref, task, requested_epoch=requested, submission=submission)
        thread = ref.tenant, ref.thread_id
        self._threads[thread] = self._threads.get(thread, 0) + 1

    def _begin(self) -> None:
        """Take up whatever may begin now."""
        queue = self._queue
        while waiting := queue.waiting:
            if self.draining or not self.may_begin() or (ref := queue.take()) is None:
                break
            self._hold(ref)
        if not waiting:
            self._sweeper.queue_is_empty()

    def _take_up(self, found: Iterable[RunRef]) -> None:
        for ref in found:
            if (ref.tenant, ref.run_id) not in self._held and not self._suspects.waits(ref):
                self._queue.offer(ref)
        self._begin()

    def _take_one_up(self, ref: RunRef) -> None:
        if not self.draining:
            self._take_up((ref,))

    def _let_go(self, held: HeldRun) -> None:
        """The run's worker goes to the next; the next of its thread, and of its project's line, may try."""
        ref = held.ref
        del self._held[ref.tenant, ref.run_id]
        thread = ref.tenant, ref.thread_id
        others = self._threads.pop(thread) - 1
        if others:
            self._threads[thread] = others
        self._queue.leave(ref, began=held.epoch > 0)
        if self._suspects.at_work is not None:
            self._no_longer_suspect(ref)
        if held.epoch or held.ended_before:
            if (first := self._lines.call_next(ref.tenant, ref.thread_id)) is not None:
                self._call(first)
            if held.project is not None:
                self._call(self._projects.call_next(ref.tenant, held.project))
        if held.woken:
            self._queue.offer(replace(ref, accepted=None))  # what was known when it was accepted has changed
        elif held.retry_at is not None and not self.draining:
            self._due.set(replace(ref, accepted=None), ms_of(held.retry_at))
        self._begin()

    def _call(self, first: RunRef | None) -> None:
        if first is None:
            return
        held = self._held.get((first.tenant, first.run_id))
        if held is not None:
            held.woken = True  # the answer that it has to wait is on its way to it
        else:
            self._queue.offer(first)

    def _came_further(self, ref: RunRef) -> None:
        """A suspect completed a step: the next one need not wait for its end."""
        self._no_longer_suspect(ref)
        self._begin()

    def _no_longer_suspect(self, ref: RunRef) -> None:
        following = self._suspects.leave(ref)
        if following is not None:
            self._queue.offer(following)

    async def _renew_forever(self) -> None:
        while True:
            await asyncio.sleep(self._leases.renew_seconds)
            with contextlib.suppress(StoreError):
                await self._renew_leases()

    async def _renew_leases(self) -> None:
        for run in await self._leases.renew(self._held.values()):
            lost = self._held.get(run)
            # A run that waits gave its lease back with its question; the other calls that it began are not cut off.
            if lost is not None and not lost.control.waits:
                lost.task.cancel()

    # -- one run ----------------------------------------------------------------------------------------

    async def _work(self, ref: RunRef) -> None:
        held = self._held[ref.tenant, ref.run_id]
        try:
            if held.submission is None:
                claimed = await self._claimed(held)
                if claimed is not None:
                    await self._run(held, *claimed)
            elif (accepted := await held.submission) is not None:
                # The commit that accepted it claimed it.
                held.looked_seq = accepted.run.first_seq
                await self._run(held, accepted.run, accepted.thread_with(()))
        except StoreError:
            # Looking for work at once would spin for as long as the store refuses; the regular sweep is soon enough.
            self._leases.cut_off(ref, held.requested_epoch)
        except Suspended:
            pass
        except (Superseded, asyncio.CancelledError):
            self._sweeper.request()  # the sweep takes the run up again if the log says that it has not ended
        except Exception:
            log.exception("run.conduct_failed", run=ref.run_id)
        finally:
            self._let_go(held)

    async def _claimed(self, held: HeldRun) -> _Claimed | None:
        """The run, claimed; None if there is nothing to do for it here."""
        tenant, accepted = held.ref.tenant, held.ref.accepted
        run = accepted.run if accepted is not None else await self._reader.run(tenant, held.ref.run_id)
        held.ended_before = run is None or run.terminal
        held.project = None if run is None else project_line(run)
        if run is None or run.terminal or run.status == "waiting" or (due_at(run) or 0) > self._clock.now_ms():
            return None
        suspicion = await self._suspects.judge(tenant, run) if run.status == "running" else NONE
        if suspicion.alone and not self._suspects.enter(held.ref):
            return None
        if not self._queue.enter(held.ref, run.agent or ""):
            return None
        held.requested_epoch = run.epoch + 1
        claimed = await self._claim(tenant, run, suspicion)
        if claimed is None:
            return None
        held.looked_seq = claimed.events[-1].seq
        run = _attempted(run, claimed)
        if (failure := suspicion.failure) is not None and run.cancel_requested_at is None:
            log.error("run.killed_server", run=run.id, thread=run.thread_id, deaths=suspicion.deaths)
            held.epoch = run.epoch + 1
            ending = [request.RequestFailed(error=error_value(failure))]
            await self.ending.record(held, run, _scope(held, run), ending, set())
            return None
        if suspicion.alone:
            held.control.on_step = partial(self._came_further, held.ref)
        return run, accepted.thread_with(claimed.events) if accepted is not None else None

    async def _run(self, held: HeldRun, run: Run, thread: list[Event] | None) -> None:
        held.epoch = run.epoch + 1
        held.control.awaken = partial(self.wake, held.ref.tenant, run.thread_id)
        held.control.outside = partial(self._outside, held.ref)  # not `held`, which would then keep itself
        scope = _scope(held, run)
        tried: set[str] = set()
        if run.job is not None:
            held.control.progress = partial(job_progress, run)
        while True:
            try:
                if run.job is None:
                    ending = await self._conduct_run(run, scope, held.control, thread)
                else:
                    work = self._attempt(run, scope, held.control, thread)
                    ending = await _within(run.job.get("timeoutSeconds"), work)
            except TimeoutError:
                ending = [request.RequestFailed(error=error_value(_overdue(run)))]
            except asyncio.CancelledError:
                if not held.control.cancelled.is_set:
                    raise
                ending = [request.RequestCancelled(by=scope.actor)]
            if await self.ending.record(held, run, scope, ending, tried):
                return
            # Entered again: what it has done comes back from the log, and the commands with it.
            run, thread = replace(run, started_at=run.started_at or run.created_at), None

    async def _attempt(self, run: Run, scope: Scope, control: Control, thread: list[Event] | None) -> list[Payload]:
        return await self.follow_answer(run, scope, await self._conduct_run(run, scope, control, thread))

    async def _claim(self, tenant: str, run: Run, suspicion: Suspicion) -> Appended | None:
        """The lease, its epoch and the event that reports it are one commit."""
        owner, epoch = self._leases.owner, run.epoch + 1
        claimed: Payload
        if run.started_at is None:
            claimed = request.RequestStarted(executor=owner, epoch=epoch)
        else:
            reason = "recovery" if run.status != "queued" else "resume" if begins_attempt(run) else "answer"
            changed = await self._has_other_code(tenant, run)
            claimed = request.RequestResumed(executor=owner, epoch=epoch, reason=reason, code_changed=changed)
        scope = Scope(tenant, run.thread_id, run.id, actor="system")
        # Before the claim is decided: the run that is in its way may end while we wait for the answer.
        ref, project = RunRef(tenant, run.thread_id, run.id), project_line(run)
        self._lines.join(ref)
        conditions: list[Condition] = [self._leases.following(run, suspicion)]
        if project is not None:
            self._projects.join(ref, project)
            conditions.append(ProjectTurn(project, run.id))
        answer = await self._recorder.record(scope, claimed, *job_started(run), conditions=conditions)
        code = None if isinstance(answer, Appended) else answer.failure.code
        if code != "THREAD_BUSY":
            self._lines.leave(ref)
        if code != "PROJECT_BUSY" and project is not None:
            self._projects.leave(ref, project)
        if isinstance(answer, Appended):
            return answer
        self._let_first_go(ref, project, answer)
        return None

    def _let_first_go(self, ref: RunRef, project: str | None, answer: Refused) -> None:
        """Called before its turn: whoever is first may not have been called at all."""
        if answer.failure.code not in ("THREAD_BUSY", "PROJECT_BUSY"):
            return
        if answer.winner is None:
            # Another server is deciding about the line at this moment.
            self._due.set(ref, self._clock.now_ms() + AGAIN_MS)
            return
        first = RunRef(ref.tenant, answer.winner_thread or ref.thread_id, answer.winner)
        if project is not None and answer.winner_thread is not None:
            self._projects.stands_behind(ref.tenant, project, answer.winner_thread)
        if (first.tenant, first.run_id) not in self._held:
            self.others.listen_to(ref.tenant)
            self._queue.offer(first)

    async def _has_other_code(self, tenant: str, run: Run) -> bool | None:
        if self._code_changed is None:
            return None
        queued = await self._reader.run_events(tenant, run.id, run.first_seq - 1, 1)
        return await self._code_changed(run.workspace_digest, queued[0].payload.get("code") if queued else None)

    @contextlib.contextmanager
    def _outside(self, ref: RunRef) -> Iterator[None]:
        """While a run only waits, such as for a provider that is down, its worker is lent to the next one."""
        if not self._queue.step_out(ref):
            yield  # it waits as it is, also when a subagent of the run waits outside already
            return
        try:
            self._begin()
            yield
        finally:
            self._queue.step_in(ref)


def _attempted(run: Run, claimed: Appended) -> Run:
    """The run as it was before its claim, but for the attempt that begins with it."""
    if run.job is None:
        return run
    run = replace(run, job=dict(run.job))
    for event in claimed.events:
        if event.type == JobStarted.type:
            run.apply(event)
    return run


async def _as_it_is(run: Run, scope: Scope, ending: list[Payload]) -> list[Payload]:
    return ending


async def _within(seconds: float | None, work: Awaitable[T]) -> T:
    async with asyncio.timeout(seconds):
        return await work


def _overdue(run: Run) -> Failure:
    seconds = run.job["timeoutSeconds"] if run.job else 0
    return Failure("JOB_TIMEOUT", f"The attempt took longer than its {seconds:g} seconds.", True)


def _deliver(held: HeldRun, command: Mapping[str, Any]) -> None:
    """Once: a command that was delivered here is also found in the log."""
    if command["commandId"] not in held.delivered:
        held.delivered.add(command["commandId"])
        held.control.commands.append(dict(command))
        held.control.note(command)


def _scope(held: HeldRun, run: Run) -> Scope:
    return Scope(held.ref.tenant, run.thread_id, run.id, "system", Fence(run.id, run.epoch + 1))


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
