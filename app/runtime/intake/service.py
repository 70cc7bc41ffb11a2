"""Accepts runs. A submission is answered only after its first event is durable.

Leaves to others: executing (the scheduler), cancelling (lifecycle), commands to a run (commands), reading (the views
and the store's reader), status codes (the protocols).
"""

from collections.abc import Callable, Container, Mapping
from typing import Any, Final

from app.core import json
from app.core.clock import Clock
from app.core.errors import Failure
from app.core.ids import new_id
from app.core.principal import Principal
from app.events import ports
from app.events.catalog import Payload, request
from app.events.catalog.job import JobQueued
from app.events.catalog.thread import ThreadUpdated
from app.events.ports import Condition, Refused
from app.events.recorder import PayloadEntry, Recorder, Scope
from app.runtime.intake.cancel_events import CancelEvents
from app.runtime.intake.rejection import Rejected
from app.runtime.intake.run_rates import RunRates
from app.runtime.intake.submission import Busy, Submission, Taken
from app.runtime.intake.submission_checks import check_submission, route
from app.runtime.intake.submission_events import job_queued_event, queued_event, thread_created_event
from app.runtime.job_events import job_merged
from app.runtime.scheduler import AcceptedRun, Scheduler, WorkerReservation
from app.runtime.workspaces import WorkspaceHistory
from app.views.controls import ApprovalPolicy, approval_policy, session_limits
from app.views.job import JOB_ROUTE, job_key
from app.views.job_changes import is_delayed
from app.views.ports import Reader, Tombstone
from app.views.run import Run
from app.views.thread import Thread
from app.workspace.compiled import CompiledWorkspace

_QUEUED: Final = request.RequestQueued.type
_JOB_QUEUED: Final = JobQueued.type
KEY_LIFETIME_MS: Final = 24 * 3600 * 1000
JOB_KEY_LIFETIME_MS: Final = 10 * 365 * 24 * 3600 * 1000
"""Practically for ever: a job's key is dropped with its job."""
MAX_MERGED_BYTES: Final = 16 * 1024
"""Of a job's metadata with what duplicates added: as much as one submission may have."""
_RACES: Final = 20
"""How often a submission that ends other runs is tried again because one of them moved meanwhile."""


class Service:
    def __init__(
        self,
        recorder: Recorder,
        reader: Reader,
        clock: Clock,
        workspaces: WorkspaceHistory,
        backends: Container[str],
        scheduler: Scheduler,
        cancel_events: CancelEvents,
        rates: RunRates,
        per_thread: Callable[[], int],
    ) -> None:
        """`per_thread` answers how many runs one thread may have, active and waiting."""
        self._recorder, self._reader, self._clock = recorder, reader, clock
        self._workspaces, self._backends, self._scheduler = workspaces, backends, scheduler
        self._cancel_events, self._rates, self._per_thread = cancel_events, rates, per_thread

    async def submit(self, who: Principal, submission: Submission) -> Run | Rejected:
        answer = await self.enqueue(who, submission)
        return answer if isinstance(answer, Rejected) else answer.run

    async def refusal(self, submission: Submission) -> Failure | None:
        """Why the workspace in force could not run it, if so. Records nothing."""
        return check_submission(submission, await self._workspaces.for_new_run(), self._backends)

    async def enqueue(self, who: Principal, submission: Submission) -> Taken | Rejected:
        """As `submit`, and whether the run was accepted now or earlier, under the same key."""
        workspace = submission.workspace or await self._workspaces.for_new_run()
        refused = (
            route(submission, workspace)
            or check_submission(submission, workspace, self._backends)
            or self._scheduler.refusal(who.tenant)
            or await self._rates.take(who.tenant)
        )
        if refused is not None:
            return Rejected(refused)
        answer = await self._submit(who, submission, workspace)
        for _ in range(_RACES):
            if not (isinstance(answer, Rejected) and answer.failure.code == "RUN_TERMINAL" and _merges(submission)):
                break
            answer = await self._submit(who, submission, workspace)  # the first one ended meanwhile: its key is free
        if isinstance(answer, Rejected) or answer.replayed:
            await self._rates.give_back(who.tenant)
        return answer

    async def _submit(self, who: Principal, submission: Submission, workspace: CompiledWorkspace) -> Taken | Rejected:
        busy = submission.busy or _busy_policy(workspace, submission)
        thread_id, run_id = submission.thread_id or new_id("thread"), new_id("run")
        scope = Scope(who.tenant, thread_id, run_id, actor=who.actor)
        agent = None
        if submission.tool is None and submission.workflow is None and submission.undo_of is None:
            agent = submission.agent or workspace.default_agent
        known = None if submission.thread_id is None else await self._reader.thread(who.tenant, submission.thread_id)
        change, code = submission.thread_change, await self._workspaces.code(workspace)
        approvals, limits = submission.approval_policy, submission.session_limits
        if known is not None or change is not None:  # else the thread says nothing yet
            approvals, limits = approvals or _policy_of(known), limits or _limits_of(known, change)
        payload = queued_event(
            submission, workspace, agent=agent, busy=busy, approvals=approvals, limits=limits, code=code
        )
        queued = PayloadEntry(payload, blobs=tuple(submission.blobs)) if submission.blobs else payload
        first: list[Payload | PayloadEntry] = [] if change is None else [change]
        if submission.state_update is not None:
            first.append(submission.state_update)
        first.append(queued)
        if submission.also:
            first += [make(run_id) for make in submission.also]
        job = submission.job
        if job is not None:
            first.append(job_queued_event(job, run_id))
        if submission.announce is not None:
            submission.announce(thread_id)
        for new in _creates_thread(submission, known):
            # A thread is created by the commit of its first run, or not at all.
            payloads = [thread_created_event(submission), *first] if new else first
            conditions = self._conditions(submission, busy, run_id, new)
            at_once = new and job is None
            reservation = self._scheduler.reserve(who.tenant, thread_id, run_id, agent or "") if at_once else None
            answer = await self._record(scope, payloads, conditions, busy, reservation)
            if isinstance(answer, ports.Appended):
                run = _accepted(answer, run_id)
                # Of a new thread these are all the events there are.
                accepted = AcceptedRun(run, answer.events if new else ())
                if reservation is not None:
                    reservation.accepted(accepted)
                else:
                    self._wake(who.tenant, accepted)
                return Taken(run)
            if answer.failure.code == "IDEMPOTENCY_KEY_SEEN" and answer.winner is not None:
                taken = await self._replayed(who.tenant, answer.winner)
                return await self._merged(who, submission, taken) if _merges(submission) else taken
            refusal = Rejected(answer.failure, answer.winner)
            if not (new and answer.failure.code == "THREAD_EXISTS"):
                break
        return refusal

    def _wake(self, tenant: str, accepted: AcceptedRun) -> None:
        run = accepted.run
        if is_delayed(run):
            self._scheduler.wake_later(tenant, run)
        else:
            self._scheduler.wake(tenant, run.thread_id, run.id, accepted)

    async def _record(
        self,
        scope: Scope,
        payloads: list[Payload | PayloadEntry],
        conditions: list[Condition],
        busy: Busy,
        reservation: WorkerReservation | None,
    ) -> ports.Answer:
        if reservation is None:
            return await self._append(scope, payloads, conditions, busy)
        claimed = PayloadEntry(reservation.started, actor="system")
        try:
            # On a new thread there is no other run that this one could replace.
            answer = await self._recorder.record(scope, *payloads, claimed, conditions=[*conditions, reservation.lease])
        except BaseException as error:
            reservation.lost(error)
            raise
        if isinstance(answer, Refused):
            reservation.refused()
        return answer

    async def _append(
        self, scope: Scope, payloads: list[Payload | PayloadEntry], conditions: list[Condition], busy: Busy
    ) -> ports.Answer:
        """With `interrupt` and `rollback`, the active runs of the thread are cancelled in the same commit."""
        if busy not in ("interrupt", "rollback"):
            return await self._recorder.record(scope, *payloads, conditions=conditions)
        for _ in range(_RACES):
            ending, unclaimed, claimed = await self._cancel_events.of_active_runs(scope, rollback=busy == "rollback")
            more = [*conditions, *(ports.RunUnclaimed(run_id) for run_id in unclaimed)]
            answer = await self._recorder.record(scope, *ending, *payloads, conditions=more)
            if isinstance(answer, ports.Appended):
                for run_id in claimed:
                    self._scheduler.stop(scope.tenant, run_id)
            if not isinstance(answer, Refused) or answer.failure.code not in ("RUN_TERMINAL", "LEASE_HELD"):
                break
        return answer

    def _conditions(self, submission: Submission, busy: Busy, run_id: str, new: bool) -> list[Condition]:
        conditions: list[Condition] = []
        if submission.idempotency_key is not None:
            expires_at = self._clock.now_ms() + KEY_LIFETIME_MS
            key = submission.idempotency_key
            conditions.append(ports.KeyUnused("runs", key, submission.body_hash, run_id, expires_at))
        job = submission.job
        if job is not None and job.dedupe_key is not None:
            expires_at = self._clock.now_ms() + JOB_KEY_LIFETIME_MS
            key = job_key(job.dedupe, job.project_id, job.type, job.dedupe_key)
            conditions.append(ports.KeyUnused(JOB_ROUTE, key, "", run_id, expires_at))
        if new:
            conditions.append(ports.ThreadIsNew(minted=submission.thread_id is None))
        else:
            limit = 1 if busy == "reject" else self._per_thread()
            conditions += [ports.ThreadAccepts(), ports.ThreadHasRoom(limit)]
        if submission.conditions:
            conditions += [make(run_id) for make in submission.conditions]
        return conditions

    async def _replayed(self, tenant: str, run_id: str) -> Taken | Rejected:
        """An accepted run is in the tables; only its thread's deletion takes it out of sight."""
        run = await self._reader.run(tenant, run_id)
        if run is None:
            return Rejected(Failure("THREAD_DELETED", "The thread was deleted."), run_id)
        return Taken(run, replayed=True)

    async def _merged(self, who: Principal, submission: Submission, taken: Taken | Rejected) -> Taken | Rejected:
        """The metadata of a second job is added to the first while that is active, if that was asked for in both."""
        if isinstance(taken, Rejected) or not submission.metadata:
            return taken
        run = taken.run
        if run.job is None or run.job.get("dedupe") != "merge_duplicate":
            return taken
        added = dict(submission.metadata)
        if len(json.dumps({**run.metadata, **added})) > MAX_MERGED_BYTES:
            message = f"The metadata of both jobs together exceeds {MAX_MERGED_BYTES} bytes."
            return Rejected(Failure("JOB_MERGE_TOO_LARGE", message), run.id)
        scope = Scope(who.tenant, run.thread_id, run.id, actor=who.actor)
        conditions = [ports.RunNotTerminal(run.id)]
        answer = await self._recorder.record(scope, job_merged(run, added), conditions=conditions)
        if isinstance(answer, Refused):
            return Rejected(answer.failure, answer.winner)
        return await self._replayed(who.tenant, run.id)


def _merges(submission: Submission) -> bool:
    return submission.job is not None and submission.job.dedupe == "merge_duplicate"


def _accepted(answer: ports.Appended, run_id: str) -> Run:
    """The run as its first event has it: what the tables hold, without asking them."""
    run: Run | None = None
    for event in answer.events:
        if event.type == _QUEUED:
            seq = event.seq
            run = Run(run_id, event.thread_id, first_seq=seq, last_seq=seq, run_seq=event.run_seq or 0)
            run.apply(event)
        elif event.type == _JOB_QUEUED and run is not None:  # its claim, if it is there as well, is another's word
            run.apply(event)
    assert run is not None, "what was submitted was a run"
    return run


def _creates_thread(submission: Submission, known: Thread | Tombstone | None) -> tuple[bool, ...]:
    """Whether the commit creates the thread; the second value is tried when somebody else just created it."""
    if submission.thread_id is None:
        return (True,)
    return (True, False) if submission.create_thread and known is None else (False,)


def _limits_of(known: Thread | Tombstone | None, change: ThreadUpdated | None) -> Mapping[str, Any] | None:
    """What the thread's controls say, with what the request itself changes of them."""
    kept = known.metadata if isinstance(known, Thread) else {}
    changed = (change.metadata if change is not None else None) or {}
    return session_limits({**kept, **changed}) if kept or changed else None


def _policy_of(known: Thread | Tombstone | None) -> ApprovalPolicy | None:
    """The thread's own policy holds for a run of every protocol."""
    return approval_policy(known.metadata) if isinstance(known, Thread) else None


def _busy_policy(workspace: CompiledWorkspace, submission: Submission) -> Busy:
    agent = workspace.acting(submission.agent or workspace.default_agent, submission.workflow)
    return (agent.spec.busy_policy if agent else None) or workspace.runtime.busy_policy
