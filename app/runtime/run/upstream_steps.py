"""Steps that an upstream runs itself, such as a framework's own file tools: recorded, and never run twice.

The log says `agent.tool.start` before and `agent.tool.result` after it. The hooks of tools are asked about them; what
a hook would change in the arguments cannot be changed here, and so it denies. Leaves to the backend: the work itself.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Final

from app.backends.contract import StepFailed
from app.core import json
from app.core.decisions import Deny, Transform
from app.core.errors import Failure
from app.core.json import JsonObject
from app.core.suspend import Suspended
from app.events.catalog.adapter import TOOL_RESULT, TOOL_START, AdapterEvent, Signal
from app.events.catalog.builders import BuiltStepCompleted
from app.events.catalog.values import Effect
from app.events.ports import StoreError
from app.policy.contract import Point
from app.runtime.run.cut_off_calls import CutOffCall, decided
from app.runtime.run.run_hooks import RunHooks
from app.runtime.run.run_log import CutOff, RunLog, Superseded
from app.runtime.run.tool_calls import ToolCalls
from app.tools.complaints import error_text
from app.tools.invocation import CANCEL_GRACE

STEP: Final = "tool"
"""What `runtime.step.completed` calls such a step."""
MAX_OUTPUT_BYTES: Final = 1024 * 1024
_NONE: Final[JsonObject] = {}

Work = Callable[[], Awaitable[Any]]


class UpstreamSteps:
    def __init__(self, log: RunLog, tools: ToolCalls, hooks: RunHooks) -> None:
        self._log, self._tools, self._hooks = log, tools, hooks

    async def run(self, key: str, effect: Effect, work: Work, tool: str | None, args: JsonObject | None) -> Any:
        name, memo = tool or key, self._log.memo
        call_id = self._tools.ids.of(key, name, args)
        recorded = memo.steps.get(call_id)
        if recorded is not None and recorded["step"] == STEP:
            return self._answer(name, recorded["result"])
        started, attempt = memo.starts.get(call_id), 1
        if started is not None:
            attempt = started.get("attempt", 1) + 1
            if effect == "unsafe":
                used = await decided(self._log, CutOffCall(call_id, name, started.get("args")))
                if used is not None:
                    return await self._ended(call_id, name, effect, {"ok": True, "output": used.output})
        if effect == "unsafe" and self._log.control.draining:
            raise Suspended("the server stops")
        await self._log.begin_step()
        await self._tools.count([call_id])
        await self._permit(call_id, name, args)
        await self._signal(TOOL_START, name, call_id, args=args, effect=effect, attempt=attempt)
        result = await self._act(name, work)
        answer = await self._ended(call_id, name, effect, result)
        self._log.stop_if_cancelled()
        return answer

    async def _act(self, name: str, work: Work) -> JsonObject:
        cancelled = self._log.control.cancelled
        cancelled.acting += 1
        try:
            output = await self._within_grace(work)
            if len(json.canonical(output)) > MAX_OUTPUT_BYTES:
                return _error("OUTPUT_TOO_LARGE", f"the output of {name} exceeds {MAX_OUTPUT_BYTES} bytes")
            return {"ok": True, "output": output}
        except (Superseded, StoreError):
            raise
        except StepFailed as failed:
            return _error(failed.failure.code, failed.failure.message)
        except json.JsonError:
            return _error("TOOL_FAILED", f"the output of {name} is not JSON")
        except asyncio.CancelledError:
            if not cancelled.is_set:
                raise
            return _error("TOOL_CANCELLED", "The run was cancelled while the tool was running.")
        except Exception as error:
            said = error_text(str(error))
            return _error("TOOL_FAILED", f"{name} failed with {type(error).__name__}" + (f": {said}" if said else ""))
        finally:
            cancelled.acting -= 1

    async def _within_grace(self, work: Work) -> Any:
        """What the work gives. When the run is cancelled, it has the time of a tool to end."""
        cancelled = self._log.control.cancelled
        task, watch = asyncio.ensure_future(work()), asyncio.ensure_future(cancelled.wait())
        try:
            await asyncio.wait({task, watch}, return_when=asyncio.FIRST_COMPLETED)
            if not task.done():
                task.cancel()
                await asyncio.wait({task}, timeout=CANCEL_GRACE)
            if not task.done():
                raise asyncio.CancelledError
            return task.result()
        finally:
            watch.cancel()
            if not task.done():
                task.cancel()

    async def _ended(self, call_id: str, name: str, effect: Effect, result: JsonObject) -> Any:
        result = await self._judged(call_id, name, result)
        kind = self._log.scope.actor.removeprefix("backend:")
        fields = {field: value for field, value in result.items() if field != "ok"}
        signal = Signal.model_validate(
            {"adapter": kind, "phase": TOOL_RESULT, "toolId": name, "callId": call_id, **fields}
        )
        done = BuiltStepCompleted(step=STEP, key=call_id, result={"tool": name, "effect": effect, **result})
        stored = (await self._log.record(AdapterEvent(event=signal), done)).events[-1]
        if b'"$blob"' not in stored.payload_bytes:
            result = json.loads(stored.payload_bytes)["result"]  # for the backend, which may change what it gets
        return self._answer(name, result)

    def _answer(self, name: str, result: JsonObject) -> Any:
        if not result["ok"]:
            raise StepFailed(Failure(result["error"]["code"], result["error"]["message"]))
        self._tools.evidence.add(name)
        return result.get("output")

    # -- hooks ---------------------------------------------------------------------------------------

    async def _permit(self, call_id: str, name: str, args: JsonObject | None) -> None:
        if not self._hooks.concern_tools:
            return
        subject: JsonObject = {"tool": name, "callId": call_id, "arguments": args or _NONE}
        decision = await self._ask(Point.PRE_TOOL_USE, subject)
        if isinstance(decision, Transform):
            decision = Deny("a hook changed the arguments of a step that the upstream runs itself")
        if isinstance(decision, Deny):
            result = _error("GATE_DENIED", decision.reason)
            # It never started, so there is no signal of it; the hook's own event says why.
            denied = {"tool": name, "effect": "readonly", **result}
            await self._log.record(BuiltStepCompleted(step=STEP, key=call_id, result=denied))
            self._answer(name, result)

    async def _judged(self, call_id: str, name: str, result: JsonObject) -> JsonObject:
        if not self._hooks.concern_tools:
            return result
        subject: JsonObject = {"tool": name, "callId": call_id, "arguments": _NONE, **result}
        decision = await self._ask(Point.POST_TOOL_USE, subject)
        if isinstance(decision, Deny):
            return _error("GATE_DENIED", decision.reason)
        if isinstance(decision, Transform) and result["ok"]:
            return {"ok": True, "output": decision.changes.get("output", result["output"])}
        return result

    async def _ask(self, point: Point, subject: JsonObject) -> Any:
        try:
            return await self._hooks.of_a_call(point, subject)
        except CutOff as cut:
            raise cut.cause from cut

    async def _signal(self, phase: str, name: str, call_id: str, **fields: Any) -> None:
        kind = self._log.scope.actor.removeprefix("backend:")
        given = {field: value for field, value in fields.items() if value is not None}
        signal = Signal.model_validate({"adapter": kind, "phase": phase, "toolId": name, "callId": call_id, **given})
        await self._log.record(AdapterEvent(event=signal))


def _error(code: str, message: str) -> JsonObject:
    return {"ok": False, "error": {"code": code, "message": message}}
