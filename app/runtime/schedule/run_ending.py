"""Records the end of a run: its last events, its subagents' ends and the commands it could not follow, in one commit.

Leaves to the conductor: how the run ended. Leaves to the executor: entering a run again.
"""

from collections.abc import Callable, Sequence
from typing import Final

from app.core.clock import Clock
from app.events.catalog import Payload, request
from app.events.catalog.execution import CommandInjected
from app.events.catalog.interrupt import InterruptExpired
from app.events.envelope import Event
from app.events.ports import CommandsSeen, Condition, Draft, NotCancelled, Refused
from app.events.recorder import UNSTORABLE, PayloadEntry, Recorder, Scope
from app.models.router import error_value
from app.runtime.job_events import job_ended, job_retry
from app.runtime.ports import OpenChildren
from app.runtime.run.control import too_late
from app.runtime.run.run_log import expect
from app.runtime.schedule.held_run import HeldRun
from app.runtime.schedule.partial_answer import partial_answer
from app.views.ports import Reader
from app.views.run import Run

COMMANDS_LIMIT: Final = 10_000
"""Commands of one run that are looked at when it ends."""
_MAX_SEQ: Final = 2**62
_REFUSED: Final = frozenset({"GUARDRAIL_DENIED", "GATE_NOT_PASSED"})
"""Failures because of what the run said: that is not repeated."""


class RunEnding:
    def __init__(self, recorder: Recorder, reader: Reader, children: OpenChildren, clock: Clock) -> None:
        self._recorder, self._reader, self._children, self._clock = recorder, reader, children, clock
        self.evaluation_due: Callable[[], None] = lambda: None
        """Called when a run has ended that its shadow gates are to judge."""

    async def record(self, held: HeldRun, run: Run, scope: Scope, ending: Sequence[Payload], tried: set[str]) -> bool:
        """False if the run is to be entered once more, because a command came that it has not followed.

        A run completes only if it has seen all commands that were accepted before: a condition of the append. Those
        it was entered again for (`tried`) and still did not follow are answered as too late, in the same commit. A
        cancel that was accepted before is its end, also if it has its answer or its failure by then.
        """
        control = held.control
        completes = ending[-1].type == request.RequestCompleted.type
        late = control.unanswered() if completes and control.known else []
        if late and control.replays and any(command["commandId"] not in tried for command in late):
            tried |= {command["commandId"] for command in late}
            await self._record_held(scope, await control.take_held())
            return False
        retry = None
        if run.job is not None and not control.cancelled.is_set:
            retry = job_retry(run, ending[-1], self._clock.now_ms())
        if retry is not None:
            # Not the end: another attempt follows, and only the last one has the last word.
            ending = [*ending[:-1], retry]
        elif isinstance(ending[-1], request.RequestCancelled | request.RequestFailed):
            # What it said is read from the log: a message whose end is held is not an open one.
            await self._record_held(scope, await control.take_held())
            ending = [*ending[:-1], await self._with_partial_answer(held, run, ending[-1])]
        children: list[PayloadEntry] = []
        if control.children or run.started_at is not None:
            children = await self._end_children(run, held)
        last = await control.take_held()
        if control.asked:
            children += await self._left_open(scope)
        closing = ending
        if run.job is not None and retry is None:
            closing = [*ending[:-1], *job_ended(run, ending[-1]), ending[-1]]
        met: list[Condition] = [CommandsSeen(run.id, len(control.known)), *control.evaluations] if completes else []
        if not isinstance(ending[-1], request.RequestCancelled):
            met.append(NotCancelled(run.id))
        said = too_late(late) if late else ()
        answer = await self._recorder.record(scope, *last, *children, *said, *closing, conditions=met)
        if isinstance(answer, Refused) and answer.failure.code == "COMMAND_UNSEEN":
            await self._record_held(scope, last)
            control.note_stored(run.id, await self._commands_of(scope, run))
            return await self.record(held, run, scope, ending, tried)
        if isinstance(answer, Refused) and answer.failure.code == "RUN_CANCELLED":
            await self._record_held(scope, last)
            return await self.record(held, run, scope, [request.RequestCancelled(by=scope.actor)], tried)
        if isinstance(answer, Refused) and answer.failure.code in UNSTORABLE:
            failed = request.RequestFailed(error=error_value(answer.failure))
            answer = await self._recorder.record(scope, *last, *children, *job_ended(run, failed), failed)
        expect(answer)
        held.retry_at = None if retry is None else retry.next_attempt_at
        if control.evaluations:
            self.evaluation_due()
        return True

    async def _with_partial_answer(
        self, held: HeldRun, run: Run, ended: request.RequestCancelled | request.RequestFailed
    ) -> Payload:
        if isinstance(ended, request.RequestFailed):
            if run.agent is None or ended.output is not None or ended.error.code in _REFUSED:
                return ended
            said = await partial_answer(self._reader, held.ref, run, abandoned=True)
        else:
            said = await partial_answer(self._reader, held.ref, run)
        if said is None:
            return ended
        return ended.model_copy(update={"message_id": said[0], "output": said[1]})

    async def _record_held(self, scope: Scope, held: Sequence[Draft]) -> None:
        if held:
            expect(await self._recorder.record(scope, *held))

    async def _commands_of(self, scope: Scope, run: Run) -> list[Event]:
        types, after = [CommandInjected.type], run.first_seq - 1
        return await self._reader.events_of(scope.tenant, scope.thread_id, types, after, _MAX_SEQ, COMMANDS_LIMIT)

    async def _left_open(self, scope: Scope) -> list[PayloadEntry]:
        """What other branches of a workflow had asked when it came to its end."""
        run = await self._reader.run(scope.tenant, scope.run_id or "")
        waiting = run.waiting_on if run is not None else ()
        return [PayloadEntry(InterruptExpired(interrupt_id=one), actor="system") for one in waiting]

    async def _end_children(self, run: Run, held: HeldRun) -> list[PayloadEntry]:
        """A parent's subagents end with it. Only a run that was entered before can have others than those of now."""
        children = set(held.control.children)
        if run.started_at is not None:
            children |= set(await self._children.open_children(held.ref.tenant, run.thread_id, run.id))
        ended = request.RequestCancelled(reason="its parent ended")
        return [PayloadEntry(ended, run_id=child, actor="system") for child in sorted(children)]
