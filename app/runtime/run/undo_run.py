"""Carries out the plan of an undo: one action after the other, each through the gate, each recorded when it is done.

A run that is entered again goes on after the last action that is recorded; what was begun and has no result is
repeated or asked about as any tool call is. Leaves to the gateway: whether a call may be made; to intake: the plan.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import field
from typing import Any, Final

from app.core.errors import Failure
from app.core.json import JsonObject
from app.core.value import mutable
from app.events.catalog import Payload, request
from app.events.catalog.artifact import UndoActionCompleted, UndoCompleted, UndoPlanned
from app.events.catalog.values import ErrorValue
from app.events.envelope import Event
from app.runtime.run.memo import StoredPayload
from app.runtime.run.run_log import RunLog
from app.runtime.run.tool_calls import ToolCalls
from app.tools.contract import ToolOutcome, ToolRequest
from app.tools.stages import argument_hash
from app.views.effects import MAX_UNDO_ATTEMPTS, undo_call_id

RETRY_SECONDS: Final = (0.2, 1.0)
"""Before the second and the third call of a compensation that failed for a passing reason."""
_CONFLICT: Final = "WRITE_CONFLICT"


def planned(family: Sequence[Event]) -> StoredPayload:
    return next(event.payload for event in family if event.type == UndoPlanned.type)


@mutable(slots=True)
class _UndoReport:
    """Every call of the plan is in exactly one of the lists."""

    executed: list[JsonObject] = field(default_factory=list)
    skipped: list[JsonObject] = field(default_factory=list)
    failed: list[JsonObject] = field(default_factory=list)

    @property
    def verdict(self) -> str:
        if not self.skipped and not self.failed:
            return "done"
        return "partial" if self.executed else "failed"


class UndoRun:
    def __init__(self, log: RunLog, calls: ToolCalls, plan: StoredPayload, family: Sequence[Event]) -> None:
        self._log, self._calls, self._plan = log, calls, plan
        self._done = {
            (event.payload["ofRunId"], event.payload["callId"]): event.payload
            for event in family
            if event.type == UndoActionCompleted.type
        }

    async def carry_out(self) -> list[Payload]:
        """The run's last events: the counts, and its end with the report."""
        report, stopped = _UndoReport(), False
        for action in self._plan["actions"]:
            about = {name: action[name] for name in ("callId", "ofRunId", "tool", "compensation")}
            if stopped:
                report.skipped.append(about | _reason("UNDO_STOPPED", "an action before it failed"))
                continue
            key = action["ofRunId"], action["callId"]
            done = self._done.get(key) or await self._act(action)
            if done["ok"]:
                report.executed.append(about | {"attempts": done["attempt"]})
            else:
                report.failed.append(about | {"attempts": done["attempt"], "reason": done["error"]})
                stopped = self._plan["onFailure"] == "stop"
        for skipped in self._plan["skipped"]:
            about = {name: skipped[name] for name in ("callId", "ofRunId", "tool")}
            report.skipped.append(about | _reason(skipped["code"], skipped["message"]))
        await self._log.pause_if_asked()
        return self._ending(report)

    async def _act(self, action: StoredPayload) -> StoredPayload:
        key = action["ofRunId"], action["callId"]
        attempt = 0
        while True:
            attempt += 1
            outcome = await self._call(action, attempt)
            if outcome.ok or attempt == MAX_UNDO_ATTEMPTS or not self._may_repeat(outcome):
                break
            if undo_call_id(key, attempt + 1) not in self._log.memo.intents:
                await asyncio.sleep(RETRY_SECONDS[attempt - 1])
            self._log.stop_if_cancelled()
        completed = UndoActionCompleted(
            undo_id=self._log.run_id,
            call_id=action["callId"],
            of_run_id=action["ofRunId"],
            tool=action["tool"],
            compensation=action["compensation"],
            ok=outcome.ok,
            attempt=attempt,
            error=_error(outcome.error),
        )
        return (await self._log.record(completed)).events[0].payload

    async def _call(self, action: StoredPayload, attempt: int) -> ToolOutcome:
        key, arguments = (action["ofRunId"], action["callId"]), action["arguments"]
        call_id = undo_call_id(key, attempt)
        if argument_hash(arguments) != action["argumentHash"]:
            failed = Failure("UNDO_VALUES_MISSING", "The log has the arguments of the compensation only redacted.")
            return ToolOutcome(call_id, action["compensation"], error=failed)
        call = ToolRequest(call_id, action["compensation"], arguments, undoes="\n".join(key))
        return (await self._calls.outcomes([call]))[0]

    def _may_repeat(self, outcome: ToolOutcome) -> bool:
        """Only for a passing reason, and only what acts once however often it is called."""
        assert outcome.error is not None, "only what failed is repeated"
        unsafe = self._calls.effect(outcome.tool) == "unsafe"
        return not unsafe and (outcome.error.retryable or outcome.error.code == "TOOL_TIMEOUT")

    def _ending(self, report: _UndoReport) -> list[Payload]:
        counts = {name: len(getattr(report, name)) for name in ("executed", "skipped", "failed")}
        completed = UndoCompleted.model_validate({"undoId": self._log.run_id, "verdict": report.verdict, **counts})
        output: dict[str, Any] = {
            "undoOf": self._plan["undoOf"],
            "planHash": self._plan["planHash"],
            "verdict": report.verdict,
            "executed": report.executed,
            "skipped": report.skipped,
            "failed": report.failed,
        }
        if not report.failed:
            return [completed, request.RequestCompleted(output=output)]
        message = f"{counts['failed']} of {len(self._plan['actions'])} actions failed, {counts['executed']} were done."
        error = ErrorValue(code="UNDO_FAILED", message=message)
        return [completed, request.RequestFailed(error=error, output=output)]


def _reason(code: str, message: str) -> JsonObject:
    return {"reason": {"code": code, "message": message}}


def _error(failure: Failure | None) -> ErrorValue | None:
    if failure is None:
        return None
    code = "UNDO_CONFLICT" if failure.code == _CONFLICT else failure.code
    return ErrorValue(code=code, message=failure.message, retryable=failure.retryable)
