"""The stages of the gateway, one function each. A stage gets the attempt and the rest of the way (`proceed`),
and answers what came back. Order and meaning are described in `gateway`; the stage that repairs is `mending`."""

import asyncio
import hashlib
from dataclasses import replace
from typing import Literal

from app.core import json
from app.core.decisions import Allow, Approved, Decision, Deny, Transform
from app.core.errors import Failure
from app.core.json import JsonObject
from app.core.tracing import call_key, step
from app.events.catalog.policy import SchemaViolated
from app.events.catalog.tool import Finding, ToolDirectCompleted, ToolDirectStarted, ToolInvoked, ToolResulted
from app.events.catalog.values import ErrorValue, IssueValue
from app.tools.attempt import GatewayServices, Next, Returned, ToolAttempt
from app.tools.content import guarded_result
from app.tools.contract import UNLIMITED, CallScope, Ports, ToolContext, ToolRequest, writes_named_files
from app.tools.guard import is_json
from app.tools.invocation import CANCELLED, Invoked, invoke
from app.tools.names import one_edit_away, same_but_spelling
from app.tools.outputs import ToolOutput, bounded
from app.tools.paths import is_beneath, matches_path

# -- around everything -----------------------------------------------------------------------------


async def account(gate: GatewayServices, attempt: ToolAttempt, *, proceed: Next) -> Returned:
    call, record = attempt.call, attempt.ports.record
    if attempt.scope.direct:
        await record(ToolDirectStarted(tool_id=call.name, call_id=call.id))
    returned = await proceed(attempt)
    outcome = returned.outcome
    if not outcome.executed:
        await attempt.turn.come()
        stored = await record(ToolResulted(call_id=call.id, tool=outcome.tool, ok=False, error=_error(outcome.error)))
        returned = replace(returned, outcome=replace(outcome, error=_as_stored(outcome.error, stored)))
    if attempt.scope.direct and outcome.ok:
        await record(ToolDirectCompleted(tool_id=outcome.tool, output=outcome.output, call_id=call.id))
    return returned


# -- before the tool -------------------------------------------------------------------------------


async def find(gate: GatewayServices, attempt: ToolAttempt, *, proceed: Next) -> Returned:
    name = attempt.call.name
    tool = gate.registry.find(name)
    if tool is not None:
        return await proceed(replace(attempt, tool=tool))
    if name in attempt.scope.allowed and (missing := gate.registry.unavailable.get(name)) is not None:
        return Returned(attempt.ended(missing))
    allowed = sorted(attempt.scope.allowed & set(gate.registry))
    near = same_but_spelling(name, allowed) or one_edit_away(name, allowed)
    kind: Literal["near_miss_name", "unknown_tool"] = "near_miss_name" if near else "unknown_tool"
    hint = f" Did you mean {' or '.join(near)}?" if near else ""
    message = f"There is no tool of that name.{hint} Allowed: {', '.join(allowed) or 'none'}."
    return _refusal(attempt, "TOOL_NOT_FOUND", [Finding(kind=kind, path="", message=message)])


async def scope(gate: GatewayServices, attempt: ToolAttempt, *, proceed: Next) -> Returned:
    if attempt.call.name in attempt.scope.allowed:
        return await proceed(attempt)
    allowed = ", ".join(sorted(attempt.scope.allowed)) or "none"
    message = f"This tool may not be used here. Allowed: {allowed}."
    return _refusal(attempt, "TOOL_NOT_ALLOWED", [Finding(kind="not_allowed", path="", message=message)])


async def validate(gate: GatewayServices, attempt: ToolAttempt, *, proceed: Next) -> Returned:
    call, guard = attempt.call, attempt.found.guard
    if call.arguments is None:
        message = (
            "The arguments are not valid JSON. Send one JSON object with double quotes, without comments or "
            "trailing commas, and close every bracket."
        )
        return _refusal(attempt, "INVALID_ARGUMENTS", [Finding(kind="unparsable_arguments", path="", message=message)])
    if guard.accepts(call.arguments):
        return await proceed(attempt)
    return _refusal(attempt, "INVALID_ARGUMENTS", guard.check(call.arguments))


async def pre_hook(gate: GatewayServices, attempt: ToolAttempt, *, proceed: Next) -> Returned:
    subject = {"tool": attempt.call.name, "callId": attempt.call.id, "arguments": attempt.arguments}
    decision = await _ask_hook(gate, attempt.ports, "PreToolUse", subject)
    if isinstance(decision, Deny):
        return Returned(attempt.ended(Failure("GATE_DENIED", decision.reason)))
    if isinstance(decision, Transform):
        changed = decision.changes.get("arguments", attempt.arguments)
        findings = attempt.found.guard.check(changed)
        if findings or set(decision.changes) - {"arguments"}:
            await _violated(attempt, "hook.PreToolUse", "GATE_DENIED", [(f.path, f.message) for f in findings])
            return Returned(attempt.ended(Failure("GATE_DENIED", "A hook changed the arguments to invalid ones.")))
        attempt = replace(attempt, call=replace(attempt.call, arguments=changed))
    return await proceed(attempt)


async def approve(gate: GatewayServices, attempt: ToolAttempt, *, proceed: Next) -> Returned:
    if attempt.scope.writes is not None and (refused := _may_not_write(attempt, attempt.scope.writes)) is not None:
        return Returned(attempt.ended(refused))
    if attempt.scope.limits is not UNLIMITED and (refused := _beyond_session(attempt)) is not None:
        return Returned(attempt.ended(refused))
    if not _needs_approval(attempt):
        return await proceed(attempt)
    if attempt.ports.approve is None or attempt.scope.ask_nobody:
        return Returned(
            attempt.ended(Failure("APPROVAL_DENIED", "This call needs an approval, which cannot be given here."))
        )
    answer = await attempt.ports.approve(attempt.call, attempt.found.definition, argument_hash(attempt.arguments))
    if isinstance(answer, Approved):
        return await proceed(replace(attempt, approval_id=answer.interrupt_id))
    return Returned(attempt.ended(Failure(answer.code, answer.reason or "the call was not approved")))


def _may_not_write(attempt: ToolAttempt, patterns: tuple[str, ...]) -> Failure | None:
    """Asked last of all that look at the arguments, so that nothing changes them afterwards."""
    found = attempt.found
    if found.definition.effect == "readonly":
        return None
    for path in found.guard.named_paths(attempt.arguments):
        if not any(matches_path(path, pattern) for pattern in patterns):
            allowed = ", ".join(patterns) or "none"
            return Failure("POLICY_DENIED", f"This file may not be written here; allowed: {allowed}.")
    return None


def _beyond_session(attempt: ToolAttempt) -> Failure | None:
    """What the arguments alone show; the rest each kind of tool enforces when it acts."""
    found, limits = attempt.found, attempt.scope.limits
    if not limits.may_call(found.definition.name):
        return Failure("SESSION_CONTROL_DENIED", "The session's settings do not allow this tool.")
    if not limits.writes and writes_named_files(found.definition):
        return Failure("SESSION_CONTROL_DENIED", "The session's filesystemSandbox is read-only.")
    if limits.folder is None:
        return None
    for path in found.guard.named_paths(attempt.arguments):
        if not is_beneath(path, limits.folder):
            return Failure("SESSION_CONTROL_DENIED", f"Files of this session are beneath {limits.folder}.")
    return None


# -- the tool --------------------------------------------------------------------------------------


async def perform(gate: GatewayServices, attempt: ToolAttempt) -> Returned:
    if attempt.ports.cancelled is not None and attempt.ports.cancelled.is_set:
        return Returned(attempt.ended(Failure("TOOL_CANCELLED", "The run was cancelled before the tool started.")))
    call, definition, record = attempt.call, attempt.found.definition, attempt.ports.record
    key = idempotency_key(attempt.scope, call) if definition.effect == "keyed" else None
    await record(
        ToolInvoked(
            call_id=call.id,
            tool=call.name,
            arguments=attempt.arguments,
            effect=definition.effect,
            argument_hash=argument_hash(attempt.arguments),
            attempt=call.attempt,
            idempotency_key=key,
            message_id=call.message_id,
            approval_id=attempt.approval_id,
            sandbox=definition.sandbox,
        )
    )
    started = gate.clock.monotonic()
    context = _context(attempt, key)
    with step(call_key(attempt.scope.run_id, call.id)):
        invoked = await invoke(
            attempt.found.tool, attempt.arguments, context, attempt.ports.cancelled, gate.cancel_grace
        )
    took = round((gate.clock.monotonic() - started) * 1000)
    task = asyncio.current_task()
    if task is not None and task.cancelling():
        # A result is still to be recorded; only then may the cancel go on. A tool that was stopped because its
        # executor goes, not its run, has none: whoever takes the run over decides by the tool's effect.
        run_cancelled = attempt.ports.cancelled is not None and attempt.ports.cancelled.is_set
        if run_cancelled or invoked.result is not CANCELLED:
            await asyncio.shield(_record_result(attempt, invoked, took))
        raise asyncio.CancelledError
    return await _record_result(attempt, invoked, took)


async def _record_result(attempt: ToolAttempt, invoked: Invoked, took: int) -> Returned:
    call = attempt.call
    output: ToolOutput | Failure
    result = await guarded_result(attempt, invoked.result)
    if isinstance(result, Failure):
        output = result
    else:
        output = await bounded(result, attempt.found.definition, attempt.ports.put_blob)
    await attempt.turn.come()
    failed = output if isinstance(output, Failure) else None
    shown = None if isinstance(output, Failure) else output.shown
    truncated = not isinstance(output, Failure) and output.truncated
    stored = await attempt.ports.record(
        ToolResulted(
            call_id=call.id,
            tool=call.name,
            ok=failed is None,
            output=shown,
            error=_error(failed),
            duration_ms=took,
            truncated=truncated or None,
            applied=None if invoked.applied else False,
        )
    )
    failed, shown = _as_stored(failed, stored), shown if stored is None else stored.get("output")
    if failed is None and not invoked.applied:
        failed = Failure("TOOL_CANCELLED", "The run was cancelled while the tool was running.")
    outcome = attempt.ended(
        failed, output=shown, executed=True, duration_ms=took, truncated=truncated, applied=invoked.applied
    )
    whole = output.whole if isinstance(output, ToolOutput) and output.truncated else shown
    return Returned(outcome, whole)


# -- after the tool --------------------------------------------------------------------------------


async def post_hook(gate: GatewayServices, attempt: ToolAttempt, *, proceed: Next) -> Returned:
    returned = await proceed(attempt)
    outcome = returned.outcome
    if not outcome.executed or not outcome.applied:
        return returned
    subject: JsonObject = {
        "tool": outcome.tool,
        "callId": outcome.call_id,
        "arguments": outcome.arguments,
        "ok": outcome.ok,
        "output": outcome.output,
    }
    if outcome.error is not None:
        subject["error"] = {"code": outcome.error.code, "message": outcome.error.message}
    decision = await _ask_hook(gate, attempt.ports, "PostToolUse", subject)
    if isinstance(decision, Deny):
        return Returned(replace(outcome, output=None, error=Failure("GATE_DENIED", decision.reason)))
    if isinstance(decision, Transform) and outcome.ok:
        if set(decision.changes) - {"output"} or not is_json(decision.changes.get("output")):
            await _violated(attempt, "hook.PostToolUse", "GATE_DENIED", [])
            failed = Failure("GATE_DENIED", "A hook changed the output to something invalid.")
            return Returned(replace(outcome, output=None, error=failed))
        changed = decision.changes.get("output", outcome.output)
        return Returned(replace(outcome, output=changed, truncated=False), changed)  # the hook saw no more than this
    return returned


async def check_output(gate: GatewayServices, attempt: ToolAttempt, *, proceed: Next) -> Returned:
    returned = await proceed(attempt)
    outcome = returned.outcome
    if not outcome.executed or not outcome.ok or attempt.tool is None:
        return returned
    issues = attempt.tool.guard.output_issues(returned.whole)
    if not issues:
        return returned
    await _violated(attempt, "tool.output", "OUTPUT_INVALID", issues)
    where = "; ".join(f"{path or '/'}: {message}" for path, message in issues[:3])
    failed = Failure("OUTPUT_INVALID", f"The tool's output breaks its schema ({where}).")
    return Returned(replace(outcome, output=None, error=failed))


# -- parts -----------------------------------------------------------------------------------------


def _needs_approval(attempt: ToolAttempt) -> bool:
    """The scope may only add to what the tool's own rule asks for."""
    wanted = attempt.found.definition.approval
    if attempt.must_ask or attempt.call.name in attempt.scope.always_ask:
        return True
    if isinstance(wanted, str):
        return wanted != "never"
    # A rule that cannot be evaluated asks: better one question too many than one too few.
    return wanted.evaluate({"args": attempt.arguments}) is not False


def argument_hash(arguments: JsonObject) -> str:
    return hashlib.sha256(json.canonical(arguments)).hexdigest()


def idempotency_key(scope: CallScope, call: ToolRequest) -> str:
    """The same on every attempt of this call, another for every other call; reveals nothing about either."""
    of = f"{scope.run_id}\n{call.id}" if call.undoes is None else f"undo\n{call.undoes}"
    return "hf-" + hashlib.sha256(f"{scope.tenant}\n{of}".encode()).hexdigest()[:40]


def _context(attempt: ToolAttempt, key: str | None) -> ToolContext:
    definition = attempt.found.definition
    return ToolContext(
        run_id=attempt.scope.run_id,
        call_id=attempt.call.id,
        tool=definition.name,
        tenant=attempt.scope.tenant,
        effect=definition.effect,
        deadline=asyncio.get_running_loop().time() + definition.timeout_seconds,
        trace_id=attempt.scope.trace_id,
        idempotency_key=key,
        max_output_bytes=definition.max_output_bytes,
        limits=attempt.scope.limits,
        progress=attempt.ports.progress,
        make_artifact=attempt.ports.artifact,
        ask=None if attempt.ports.ask is None else attempt.ports.ask(attempt.call),
        put_blob=attempt.ports.put_blob,
        load_blob=attempt.ports.load_blob,
        loop=asyncio.get_running_loop(),
    )


def _refusal(attempt: ToolAttempt, code: str, findings: "list[Finding] | tuple[Finding, ...]") -> Returned:
    message = " ".join(finding.message for finding in findings)
    outcome = replace(attempt.ended(Failure(code, message)), findings=tuple(findings))
    return Returned(outcome, refused=True)


async def _ask_hook(gate: GatewayServices, ports: Ports, point: str, subject: JsonObject) -> Decision | None:
    """Whatever a hook does but answer in time is a denial."""
    if ports.hook is None:
        return None
    try:
        async with asyncio.timeout(gate.hook_timeout):
            decision: object = await ports.hook(point, subject)
    except TimeoutError:
        return Deny(f"the {point} hook did not answer in time")
    except Exception as error:
        return Deny(f"the {point} hook failed with {type(error).__name__}")
    if not isinstance(decision, Allow | Deny | Transform):
        return Deny(f"the {point} hook gave no decision")
    return decision


async def _violated(attempt: ToolAttempt, boundary: str, code: str, issues: list[tuple[str, str]]) -> None:
    await attempt.ports.record(
        SchemaViolated(
            schema_name=f"tool:{attempt.call.name}",
            boundary=boundary,
            code=code,
            call_id=attempt.call.id,
            issues=[IssueValue(path=path, message=message) for path, message in issues],
        )
    )


def _as_stored(failure: Failure | None, stored: JsonObject | None) -> Failure | None:
    error = (stored or {}).get("error")
    return replace(failure, message=error["message"]) if failure is not None and error else failure


def _error(failure: Failure | None) -> ErrorValue | None:
    if failure is None:
        return None
    return ErrorValue(code=failure.code, message=failure.message, retryable=failure.retryable)
