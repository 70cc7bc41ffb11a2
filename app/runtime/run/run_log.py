"""The run's own end of the log: records for it, raises its interrupts, and lets no step begin that must not.

A refused append means that the run ended or has a new owner. Leaves to the recorder: everything about the event.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from app.backends.contract import StepFailed
from app.core.clock import Clock, iso
from app.core.errors import Failure
from app.core.ids import new_id
from app.core.suspend import Suspended
from app.events.catalog import Payload
from app.events.catalog.execution import BudgetExceeded
from app.events.catalog.interrupt import InterruptRaised
from app.events.catalog.request import RequestSuspended
from app.events.placed import PlacedEvent
from app.events.ports import Answer, Appended, BlobDraft, Draft, Refused
from app.events.recorder import UNSTORABLE, PayloadEntry, Recorder, Scope
from app.runtime.run.budget_messages import budget_failure
from app.runtime.run.completed_steps import COMPLETES_A_STEP
from app.runtime.run.control import Control
from app.runtime.run.memo import Memo
from app.runtime.run.rerun_check import RerunCheck

PERSON_MS: Final = 24 * 3600 * 1000
"""How long a person has where the workspace does not say; then the answer is no."""
PROGRESS_SECONDS: Final = 1.0
"""How long a job's progress may wait for something else to be stored with."""


class Superseded(Exception):
    """The log refused an append: the run ended or has a new owner. There is nothing left to do here."""


class CutOff(BaseException):
    """The store or a new owner stopped a subagent's run in the middle of its parent's tool call.

    No exception of the call's own, so that the gateway does not take it for a failed tool.
    """

    def __init__(self, cause: Exception) -> None:
        super().__init__(str(cause))
        self.cause = cause


def expect(answer: Answer) -> Appended:
    if isinstance(answer, Refused):
        if answer.failure.code in UNSTORABLE:
            raise StepFailed(answer.failure)  # the run's own fault: whoever takes it up next would say the same
        raise Superseded(answer.failure.code)
    return answer


class RunLog:
    def __init__(
        self,
        recorder: Recorder,
        scope: Scope,
        memo: Memo,
        control: Control,
        clock: Clock,
        *,
        root_run_id: str | None = None,
        person_ms: int = PERSON_MS,
        over_time: Callable[[], BudgetExceeded | None] = lambda: None,
        rerun_check: RerunCheck | None = None,
    ) -> None:
        assert scope.run_id is not None
        self.recorder, self.scope, self.memo, self.control = recorder, scope, memo, control
        self.run_id = scope.run_id
        self._clock, self._person_ms, self._over_time = clock, person_ms, over_time
        self._rerun_check = rerun_check
        self._root = root_run_id or scope.run_id
        self.is_root = self._root == scope.run_id
        self._opening: list[Draft] = []

    @property
    def strict(self) -> bool:
        """Whether this is a strict rerun, in which nothing may differ from what was recorded."""
        return self._rerun_check is not None

    async def open_with(self, *payloads: Payload | PayloadEntry) -> None:
        """Recorded with the first that the run records, in the same commit: one less before the first token."""
        opening = None if self.strict or not self.is_root else self.recorder.prepared(self.scope, *payloads)
        if opening is None:
            await self.record(*payloads)
        else:
            self._opening += opening

    async def opened(self) -> None:
        """Before anything that is not recorded here, the opening is recorded by itself."""
        if self._opening:
            await self.record()

    def hold_opening(self) -> None:
        """Of a run that recorded nothing else: the opening goes with its end."""
        if self._opening:
            self.hold()

    async def record(self, *payloads: Payload | PayloadEntry) -> Appended:
        self._check(payloads)
        control = self.control
        opening, self._opening = self._opening, []
        if not control.flushing and not control.held and not opening:
            return self._noted(expect(await self.recorder.record(self.scope, *payloads)))
        held = [*await control.take_held(), *opening]
        answer = await self.recorder.record(self.scope, *held, *payloads)
        if isinstance(answer, Refused) and answer.failure.code in UNSTORABLE:
            # What was ready is not lost with what cannot be stored: the run's end takes it along.
            control.held[:0] = held
        return Appended(self._noted(expect(answer)).events[len(held) :])

    def place(self, payload: Payload) -> PlacedEvent | None:
        """For a piece of a stream: as `record`, but whether it was stored is for the caller to ask, before the next one
        at the latest. None if it has to be recorded with others, or if something follows from it."""
        control = self.control
        if self._rerun_check is not None or control.flushing or control.held or self._opening:
            return None
        if control.on_step is not None or control.progress is not None:
            return None
        return PlacedEvent(self.recorder.record(self.scope, payload), expect)

    def _noted(self, appended: Appended) -> Appended:
        """Of a job, and of a run that is suspected of killing the server: whether it has come further."""
        control = self.control
        if control.on_step is None and control.progress is None:
            return appended
        steps = sum(event.type in COMPLETES_A_STEP for event in appended.events)
        if steps and control.on_step is not None:
            on_step, control.on_step = control.on_step, None
            on_step()
        if steps and control.progress is not None:
            control.steps += steps
            if self.is_root:
                self.hold(control.progress({"stage": "step", "steps": control.steps}), within=PROGRESS_SECONDS)
        return appended

    def _check(self, payloads: Sequence[Payload | PayloadEntry]) -> None:
        if self._rerun_check is not None:
            for payload in payloads:
                self._rerun_check.check(payload.payload if isinstance(payload, PayloadEntry) else payload)

    def hold(self, *payloads: Payload | PayloadEntry, within: float = 0.0) -> list[Draft] | None:
        """Ready to be stored in one commit with what the run records next, if that comes within so many seconds, or
        without any before the run waits for anything. Else they are recorded by themselves.

        The events as they will be stored; None if they cannot be held.
        """
        if self._rerun_check is not None or not self.is_root:
            return None
        drafts = self.recorder.prepared(self.scope, *payloads)
        if drafts is not None:
            opening, self._opening = self._opening, []
            control = self.control
            control.held += opening + drafts
            if within:
                asyncio.get_running_loop().call_later(within, self.send_held)
            elif not control.sending:
                control.sending = True
                asyncio.get_running_loop().call_soon(self._send_soon)
        return drafts

    def _send_soon(self) -> None:
        self.control.sending = False
        self.send_held()

    def send_held(self) -> None:
        """The run's task waits for something, or records elsewhere: what it held waits no longer."""
        control = self.control
        if not control.held:
            return
        held, control.held = control.held, []
        # It has its place in the log at once, before whatever another branch records.
        stored = self.recorder.record(self.scope, *held)
        if control.on_step is not None or control.progress is not None:
            stored = self._stored(stored)
        placed = PlacedEvent(stored, expect)
        # Its failure is raised to whoever records next; a run that is cut off before that has no use for it.
        placed.leave()
        control.flushing.append(placed)

    async def _stored(self, stored: Awaitable[Answer]) -> Answer:
        answer = await stored
        self._noted(expect(answer))
        return answer

    async def settle(self) -> None:
        """Before a step, and before anything that is not recorded here: what is held comes first."""
        held = await self.control.take_held()
        if held:
            expect(await self.recorder.record(self.scope, *held))

    async def begin_step(self) -> None:
        """Before anything new: from the cancel on no step starts, and a paused run waits here."""
        if self.control.flushing or self.control.held:
            await self.settle()
        self.stop_if_cancelled()
        await self.pause_if_asked()
        over = self._over_time()
        if over is not None:
            raise await self.exceeded(over)

    async def pause_if_asked(self) -> None:
        """Before a step, and once more before the run completes."""
        control = self.control
        if control.pausing is not None:
            raise Suspended(control.pausing)
        if not control.commands and not control.known and not self.memo.commands:
            return
        pause = self._open_pause()
        if pause is None:
            control.settle_pauses()
        else:
            control.pausing = interrupt_id = new_id("interrupt")
            await self.settle()
            title = "The run was paused"
            arguments = {"commandId": pause}
            raised = InterruptRaised(
                interrupt_id=interrupt_id,
                kind="paused",
                title=title,
                expires_at=self.expiry(),
                arguments=arguments,
            )
            # Of the root run, whoever of the family came to it first: the pause is for all of them.
            expect(await self.recorder.record(self.scope, PayloadEntry(raised, run_id=self._root)))
            raise Suspended(raised.interrupt_id)

    def stop_if_cancelled(self) -> None:
        if self.control.cancelled.is_set:
            raise asyncio.CancelledError

    def _open_pause(self) -> str | None:
        """The newest pause that nothing has answered: no interrupt yet, and no resume after it."""
        pause: str | None = None
        for command in self.memo.commands + self.control.commands:
            if command["command"] == "pause":
                pause = command["commandId"]
            elif command["command"] == "resume":
                pause = None
        if pause is None:
            return None
        for asked in self.memo.interrupts:
            if asked["kind"] == "paused" and asked["arguments"]["commandId"] == pause:
                if asked.get("expired"):
                    raise StepFailed(Failure("PAUSE_EXPIRED", "The run was not resumed in time."))
                if "answer" not in asked:
                    raise Suspended(asked["interruptId"])  # another branch of it was answered meanwhile
                return None
        return pause

    async def exceeded(self, payload: BudgetExceeded) -> StepFailed:
        await self.record(payload)
        return StepFailed(budget_failure(payload))

    async def raise_interrupt(
        self, raised: InterruptRaised, apart: tuple[str, ...] = (), blobs: tuple[BlobDraft, ...] = ()
    ) -> Suspended:
        """A subagent's interrupt belongs to the root run: that is what waits, and what the answer wakes."""
        self.control.asked[raised.interrupt_id] = bool(raised.background)
        if self.is_root:
            await self.record(PayloadEntry(raised, blobs=blobs, apart=apart) if apart or blobs else raised)
        else:
            asked = raised.model_copy(update={"for_run_id": self.run_id})
            entry = PayloadEntry(asked, run_id=self._root, blobs=blobs, apart=apart)
            expect(await self.recorder.record(self.scope, entry))
        return Suspended(raised.interrupt_id)

    async def suspend(self) -> None:
        """Say of a root run whose branches all wait that it does; a question that stopped it at once said so itself."""
        control = self.control
        if self.is_root and control.asked and not control.draining:
            await self.settle()
            expect(await self.recorder.record(self.scope, RequestSuspended(waiting_on=list(control.asked))))

    def expiry(self, seconds: float | None = None) -> str:
        """When a question raised now expires; without a time of its own, as the workspace says."""
        return iso(self._clock.now_ms() + (self._person_ms if seconds is None else round(seconds * 1000)))
