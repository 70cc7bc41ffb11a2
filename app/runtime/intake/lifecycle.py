"""Ends runs: one by its cancel, all of them when the server stops.

Leaves to the executor: stopping a run that it works on.
"""

import asyncio

from app.core.errors import Failure
from app.core.principal import Principal
from app.events.catalog import request
from app.events.catalog.execution import CommandInjected
from app.events.ports import Appended, Refused, RunAtWork, RunNotTerminal, RunUnclaimed
from app.events.recorder import Recorder, Scope
from app.runtime.intake.cancel_events import CancelEvents, cancel_command
from app.runtime.intake.ports import Drainable
from app.runtime.intake.rejection import Rejected
from app.runtime.job_events import job_ended
from app.runtime.scheduler import Scheduler
from app.views.ports import Reader
from app.views.run import Run


class Lifecycle:
    def __init__(
        self, recorder: Recorder, reader: Reader, cancel_events: CancelEvents, scheduler: Scheduler, workers: Drainable
    ) -> None:
        self._recorder, self._reader, self._cancel_events = recorder, reader, cancel_events
        self._scheduler, self._workers = scheduler, workers

    async def cancel(
        self, who: Principal, run_id: str, reason: str | None = None, *, rollback: bool = False
    ) -> Run | Rejected:
        """A run that nobody works on ends in the same commit; a running one is stopped by its owner."""
        run = await self._reader.run(who.tenant, run_id)
        if run is None:
            return Rejected(Failure("RUN_NOT_FOUND", "There is no such run."))
        if run.parent_run_id is not None:
            return Rejected(Failure("RUN_IS_A_SUBAGENT", "A subagent's run ends with its parent."), run.parent_run_id)
        if run.terminal or run.cancel_requested_at is not None:
            return run
        scope = Scope(who.tenant, run.thread_id, run_id, actor=who.actor)
        # What is usual first: every attempt waits for the thread, to which the owner of the run keeps writing.
        command = cancel_command(rollback=rollback)
        answer = await (
            self._stop(scope, run_id, command) if run.status == "running" else self._end(scope, run, reason, command)
        )
        if isinstance(answer, Refused) and answer.failure.code == "RUN_NOT_RUNNING":
            answer = await self._end(scope, run, reason, command)
        if isinstance(answer, Refused) and answer.failure.code != "RUN_TERMINAL":
            return Rejected(answer.failure, answer.winner)
        # An accepted run is in the tables; only its thread's deletion takes it out of sight.
        cancelled = await self._reader.run(who.tenant, run_id)
        return cancelled or Rejected(Failure("THREAD_DELETED", "The thread was deleted."), run_id)

    async def _stop(self, scope: Scope, run_id: str, command: CommandInjected) -> Appended | Refused:
        """By whoever works on it."""
        answer = await self._recorder.record(scope, command, conditions=[RunAtWork(run_id)])
        if not isinstance(answer, Refused):
            self._scheduler.stop(scope.tenant, run_id)
        return answer

    async def _end(self, scope: Scope, run: Run, reason: str | None, command: CommandInjected) -> Appended | Refused:
        """In one commit, if nobody has taken it up meanwhile."""
        ended = request.RequestCancelled(reason=reason, by=scope.actor)
        left_open = await self._cancel_events.left_open(scope.tenant, run)
        ends = [*job_ended(run, ended), ended]
        answer = await self._recorder.record(scope, command, *left_open, *ends, conditions=[RunUnclaimed(run.id)])
        if not isinstance(answer, Refused):
            self._scheduler.freed(scope.tenant, run.thread_id)
        elif answer.failure.code == "LEASE_HELD":
            answer = await self._recorder.record(scope, command, conditions=[RunNotTerminal(run.id)])
            self._scheduler.stop(scope.tenant, run.id)
        return answer

    @property
    def draining(self) -> bool:
        return self._workers.draining

    async def drain(self, seconds: float, hurry: asyncio.Event | None = None) -> None:
        await self._workers.drain(seconds, hurry)
