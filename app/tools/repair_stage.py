"""The stage that repairs: a call which the guard refused is mended and sent through the whole gate again.

First deterministically (`repair`), then by one round with the model, each switchable per tool, each at
most once. What was changed is recorded before the changed call may act; what cannot be mended stays refused.
"""

from dataclasses import replace
from typing import Literal

from app.events.catalog.tool import Repair, ToolGuarded
from app.tools.attempt import GatewayServices, Next, Returned, ToolAttempt
from app.tools.contract import RepairSwitches
from app.tools.guard import is_json
from app.tools.repair import repair_arguments, repair_name, repair_text


async def repair(gate: GatewayServices, attempt: ToolAttempt, *, proceed: Next) -> Returned:
    first = await proceed(attempt)
    if not first.refused:
        return first
    attempt = replace(attempt, findings=first.outcome.findings)
    mended = _mend(gate, attempt)
    if mended is not None:
        await _record(mended, first, "repaired", "deterministic")
        return await proceed(mended)
    proposed = await _propose(gate, attempt, first)
    if proposed is None:
        await _record(attempt, first, "refused", None)
        return first
    if not _admitted(gate, proposed):
        better = _mend(gate, proposed)
        if better is None:
            last = await proceed(proposed)
            await _record(attempt, last, "refused", "model")
            return last
        proposed = better
    await _record(proposed, first, "repaired", "model")
    return await proceed(proposed)


def _admitted(gate: GatewayServices, attempt: ToolAttempt) -> bool:
    """Whether the guard would let the call pass: find, scope and validate in one look."""
    call = attempt.call
    tool = gate.registry.find(call.name)
    if tool is None or call.name not in attempt.scope.allowed or call.arguments is None:
        return False
    return tool.guard.accepts(call.arguments)


def _mend(gate: GatewayServices, attempt: ToolAttempt) -> ToolAttempt | None:
    """The deterministic round: the name, then the arguments. All of it has one answer, or there is none."""
    call, repairs = attempt.call, list(attempt.repairs)
    name = call.name
    if gate.registry.find(name) is None:
        name = repair_name(name, gate.registry.effects, attempt.scope.allowed) or name
    tool = gate.registry.find(name)
    if tool is None or name not in attempt.scope.allowed:
        return None
    if name != call.name:
        if not tool.definition.repair.names:
            return None
        repairs.append(Repair(kind="tool_name", path="", before=call.name, after=name))
        call = replace(call, name=name)
    if call.arguments is not None and not is_json(call.arguments):
        return None
    if call.arguments is None or not tool.guard.accepts(call.arguments):
        text = call.arguments is None
        mended = repair_text(tool.guard, call) if text else repair_arguments(tool.guard, call.arguments or {})
        if mended is None:
            return None
        repairs += mended.repairs
        call = replace(call, arguments=mended.arguments, raw=None)
    return replace(attempt, call=call, repairs=tuple(repairs))


async def _propose(gate: GatewayServices, attempt: ToolAttempt, first: Returned) -> ToolAttempt | None:
    """The model's answer to the guard's message, as a call of the same id."""
    tool, call = gate.registry.find(attempt.call.name), attempt.call
    switches = tool.definition.repair if tool is not None else RepairSwitches()
    if attempt.ports.ask_model is None or not switches.model or first.outcome.error is None:
        return None
    answer = await attempt.ports.ask_model(call, first.outcome.error.message)
    if answer is None:
        return None
    new = replace(call, name=answer.name, arguments=answer.arguments, raw=answer.raw, complete=answer.complete)
    change = Repair(
        kind="model",
        path="",
        before={"name": call.name, "arguments": call.arguments, "raw": call.raw},
        after={"name": new.name, "arguments": new.arguments, "raw": new.raw},
    )
    return replace(attempt, call=new, repairs=(change,))


async def _record(
    attempt: ToolAttempt,
    returned: Returned,
    outcome: Literal["repaired", "refused"],
    round: Literal["deterministic", "model"] | None,
) -> None:
    error = returned.outcome.error
    await attempt.ports.record(
        ToolGuarded(
            call_id=attempt.call.id,
            tool=returned.outcome.tool,
            outcome=outcome,
            round=round,
            findings=list(returned.outcome.findings),
            repairs=list(attempt.repairs) or None,
            code=error.code if outcome == "refused" and error is not None else None,
        )
    )
