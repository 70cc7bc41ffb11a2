"""The gate: published order, codes, events, hooks, approvals, repair rounds, cancel, parallel calls."""

import asyncio
from dataclasses import replace
from typing import Any

import pytest

from app.core.decisions import ALLOW, Approval, Approved, Decision, Deny, NotApproved, Transform
from app.core.errors import Failure
from app.core.json import JsonObject
from app.core.signal import CancelSignal
from app.core.suspend import Suspended
from app.tools.contract import (
    BytesResult,
    JsonResult,
    Proposal,
    Result,
    TextResult,
    ToolContext,
    ToolDefinition,
    ToolRequest,
)
from app.tools.gateway import Gateway
from app.tools.guard import ToolInvalid
from app.tools.registry import Registry
from tests.tools.recording import Recording, Spy, scope

WEATHER = ToolDefinition(
    "weather",
    input={
        "type": "object",
        "properties": {"city": {"type": "string"}, "days": {"type": "integer", "minimum": 1}},
        "required": ["city"],
    },
    effect="readonly",
)
GOOD = ToolRequest("call_1", "weather", {"city": "Oslo"})


def gate(*tools: Any, **options: Any) -> Gateway:
    return Gateway(Registry(tools), **options)


@pytest.mark.requirement("OS-L1", "HK-3", "G4")
async def test_a_good_call_is_recorded_as_intent_then_done_then_recorded_as_result() -> None:
    log, tool = Recording(), Spy(WEATHER)
    seen_at_invoke: list[str] = []

    class Watching(Spy):
        async def invoke(self, arguments: JsonObject, ctx: ToolContext) -> Result | Failure:
            seen_at_invoke.extend(log.types())
            return await super().invoke(arguments, ctx)

    tool = Watching(WEATHER)
    outcome = await gate(tool).call(GOOD, scope("weather"), log.ports())
    assert outcome.output == {"done": True}
    assert seen_at_invoke == ["tool.invoked"]
    assert log.types() == ["tool.invoked", "tool.resulted"]
    assert log.payloads("tool.resulted")[0]["ok"] is True


@pytest.mark.requirement("OS-L1")
async def test_the_published_order_is_kept() -> None:
    log = Recording()
    steps: list[str] = []

    async def hook(point: str, _subject: JsonObject) -> Decision:
        steps.append(point)
        return ALLOW

    async def approve(_call: ToolRequest, _tool: ToolDefinition, _hash: str) -> Approval:
        steps.append("approval")
        return Approved()

    async def record(payload: Any) -> None:
        steps.append(payload.type)

    class Bad(Spy):
        async def invoke(self, arguments: JsonObject, ctx: ToolContext) -> Result | Failure:
            steps.append("invoke")
            return JsonResult("not a number")

    tool = Bad(replace(WEATHER, approval="always", output={"type": "number"}))
    ports = replace(log.ports(hook=hook, approve=approve), record=record)
    outcome = await gate(tool).call(GOOD, scope("weather"), ports)
    assert outcome.error is not None
    assert outcome.error.code == "OUTPUT_INVALID"
    assert steps == [
        "PreToolUse", "approval", "runtime.tool.invoked", "invoke", "runtime.tool.resulted", "PostToolUse",
        "runtime.schema.violated",
    ]  # fmt: skip


@pytest.mark.requirement("OS-F", "OS-I3", "S17")
@pytest.mark.parametrize(
    ("call", "code"),
    [
        (ToolRequest("c", "nothing_like_it", {}), "TOOL_NOT_FOUND"),
        (ToolRequest("c", "secret_tool", {"city": "x"}), "TOOL_NOT_ALLOWED"),
        (ToolRequest("c", "weather", {"town": "Oslo"}), "INVALID_ARGUMENTS"),
        (ToolRequest("c", "weather", None, "city is Oslo"), "INVALID_ARGUMENTS"),
    ],
)
async def test_a_refused_call_has_its_code_and_its_events_and_no_invocation(call: ToolRequest, code: str) -> None:
    log, tool, other = Recording(), Spy(WEATHER), Spy(replace(WEATHER, name="secret_tool"))
    outcome = await gate(tool, other).call(call, scope("weather"), log.ports())
    assert outcome.error is not None
    assert outcome.error.code == code
    assert not tool.calls
    assert not other.calls
    assert log.types() == ["tool.guarded", "tool.resulted"]
    assert log.payloads("tool.guarded")[0]["code"] == code
    assert log.payloads("tool.resulted")[0]["error"]["code"] == code


@pytest.mark.requirement("SH-12")
async def test_a_misspelt_name_of_a_tool_out_of_scope_is_never_repaired_into_one_in_scope() -> None:
    log = Recording()
    inside, outside = Spy(replace(WEATHER, name="send_mail")), Spy(replace(WEATHER, name="sends_mail"))
    call = ToolRequest("c", "sendx_mail", {"city": "x"})
    outcome = await gate(inside, outside).call(call, scope("send_mail"), log.ports())
    assert outcome.error is not None
    assert not inside.calls


@pytest.mark.requirement("SH-12")
async def test_an_unsafe_tool_is_not_found_by_a_typing_slip_but_by_its_case() -> None:
    log, tool = Recording(), Spy(replace(WEATHER, effect="unsafe"))
    gateway = gate(tool)
    slip = await gateway.call(ToolRequest("c", "wether", {"city": "x"}), scope("weather"), log.ports())
    case = await gateway.call(ToolRequest("c", "Weather", {"city": "x"}), scope("weather"), log.ports())
    assert slip.error is not None
    assert slip.error.code == "TOOL_NOT_FOUND"
    assert case.ok


@pytest.mark.requirement("SH-12")
async def test_a_repaired_call_is_recorded_with_before_and_after_before_it_acts() -> None:
    log, tool = Recording(), Spy(WEATHER)
    call = ToolRequest("c", "weather", {"city": "Oslo", "days": "3"})
    outcome = await gate(tool).call(call, scope("weather"), log.ports())
    assert outcome.ok
    assert tool.calls[0][0] == {"city": "Oslo", "days": 3}
    assert log.types() == ["tool.guarded", "tool.invoked", "tool.resulted"]
    assert log.payloads("tool.guarded")[0]["repairs"] == [
        {"kind": "text_to_integer", "path": "/days", "before": "3", "after": 3}
    ]


@pytest.mark.requirement("SH-12")
async def test_a_model_gets_one_round_with_the_guards_message_and_its_answer_is_checked_again() -> None:
    log, tool = Recording(), Spy(WEATHER)
    asked: list[str] = []

    async def ask(_call: ToolRequest, message: str) -> Proposal | None:
        asked.append(message)
        return Proposal("weather", {"city": "Oslo", "days": 0} if len(asked) == 1 else {"city": "Oslo"})

    gateway, ports = gate(tool), log.ports(ask_model=ask)
    call = ToolRequest("c", "weather", {"days": 2})
    still_bad = await gateway.call(call, scope("weather"), ports)
    assert still_bad.error is not None
    assert still_bad.error.code == "INVALID_ARGUMENTS"
    assert len(asked) == 1
    assert "`/city` is required and missing" in asked[0]
    assert "Example:" in asked[0]
    good = await gateway.call(call, scope("weather"), ports)
    assert good.ok
    assert [c[0] for c in tool.calls] == [{"city": "Oslo"}]
    assert log.payloads("tool.guarded")[-1]["round"] == "model"


@pytest.mark.requirement("S17")
async def test_a_model_cannot_widen_its_scope_by_repair() -> None:
    log, tool, other = Recording(), Spy(WEATHER), Spy(replace(WEATHER, name="transfer"))

    async def ask(_call: ToolRequest, _message: str) -> Proposal | None:
        return Proposal("transfer", {"city": "x"})

    call = ToolRequest("c", "weather", {})
    outcome = await gate(tool, other).call(call, scope("weather"), log.ports(ask_model=ask))
    assert outcome.error is not None
    assert outcome.error.code == "TOOL_NOT_ALLOWED"
    assert not other.calls


@pytest.mark.requirement("S18", "OS-L6", "OS-I3")
@pytest.mark.parametrize("behaviour", ["denies", "throws", "hangs", "answers nonsense", "changes to invalid"])
async def test_a_hook_that_denies_or_misbehaves_keeps_the_tool_from_running(behaviour: str) -> None:
    log, tool = Recording(), Spy(WEATHER)

    async def hook(_point: str, _subject: JsonObject) -> Decision:
        match behaviour:
            case "denies":
                return Deny("not today")
            case "throws":
                raise RuntimeError("secret text")
            case "hangs":
                await asyncio.Event().wait()
            case "changes to invalid":
                return Transform({"arguments": {"city": 5}})
        return "yes"  # type: ignore[return-value]  # what a broken hook does

    outcome = await gate(tool, hook_timeout=0.05).call(GOOD, scope("weather"), log.ports(hook=hook))
    assert outcome.error is not None
    assert outcome.error.code == "GATE_DENIED"
    assert "secret text" not in outcome.error.message
    assert not tool.calls
    assert "tool.invoked" not in log.types()


@pytest.mark.requirement("OS-L6")
async def test_what_a_hook_changes_is_what_the_tool_and_the_model_get() -> None:
    log, tool = Recording(), Spy(WEATHER, TextResult("long answer"))

    async def hook(point: str, _subject: JsonObject) -> Decision:
        if point == "PreToolUse":
            return Transform({"arguments": {"city": "Bergen"}})
        return Transform({"output": "short"})

    outcome = await gate(tool).call(GOOD, scope("weather"), log.ports(hook=hook))
    assert tool.calls[0][0] == {"city": "Bergen"}
    assert log.payloads("tool.invoked")[0]["arguments"] == {"city": "Bergen"}
    assert outcome.output == "short"


@pytest.mark.requirement("S18")
async def test_a_failing_hook_after_the_tool_withholds_the_output() -> None:
    log, tool = Recording(), Spy(WEATHER)

    async def hook(point: str, _subject: JsonObject) -> Decision:
        if point == "PostToolUse":
            raise RuntimeError
        return ALLOW

    outcome = await gate(tool).call(GOOD, scope("weather"), log.ports(hook=hook))
    assert outcome.error is not None
    assert outcome.error.code == "GATE_DENIED"
    assert outcome.output is None
    assert outcome.executed


async def test_a_denied_approval_and_a_missing_approver_both_deny() -> None:
    log, tool = Recording(), Spy(replace(WEATHER, approval="always"))

    async def approve(_call: ToolRequest, _tool: ToolDefinition, _hash: str) -> Approval:
        return NotApproved("too expensive")

    gateway = gate(tool)
    for ports in (log.ports(approve=approve), log.ports()):
        outcome = await gateway.call(GOOD, scope("weather"), ports)
        assert outcome.error is not None
        assert outcome.error.code == "APPROVAL_DENIED"
    assert not tool.calls


async def test_an_open_approval_passes_through_as_suspended_and_records_nothing() -> None:
    log, tool = Recording(), Spy(replace(WEATHER, approval="always"))

    async def approve(_call: ToolRequest, _tool: ToolDefinition, _hash: str) -> Approval:
        raise Suspended("int_1")

    with pytest.raises(Suspended):
        await gate(tool).call(GOOD, scope("weather"), log.ports(approve=approve))
    assert log.types() == []


@pytest.mark.parametrize("answer", [True, Failure("INTERNAL", "cannot say")])
async def test_an_approval_rule_that_holds_or_cannot_be_evaluated_asks(answer: bool | Failure) -> None:
    class Condition:
        def evaluate(self, values: Any) -> bool | Failure:
            return answer

    log, tool = Recording(), Spy(replace(WEATHER, approval=Condition()))
    outcome = await gate(tool).call(GOOD, scope("weather"), log.ports())
    assert outcome.error is not None
    assert outcome.error.code == "APPROVAL_DENIED"


@pytest.mark.requirement("S17")
async def test_a_scope_may_ask_for_more_approvals_than_the_tool_and_never_for_fewer() -> None:
    async def approve(_call: ToolRequest, _tool: ToolDefinition, _hash: str) -> Approval:
        asked.append(1)
        return Approved()

    asked: list[int] = []
    free, guarded = Spy(WEATHER), Spy(replace(WEATHER, approval="always"))
    ports = Recording().ports(approve=approve)
    assert (await gate(free).call(GOOD, replace(scope("weather"), always_ask=frozenset({"weather"})), ports)).ok
    assert asked == [1]
    nobody = replace(scope("weather"), ask_nobody=True)
    assert (await gate(free).call(GOOD, nobody, ports)).ok
    outcome = await gate(guarded).call(GOOD, nobody, ports)
    assert outcome.error is not None and outcome.error.code == "APPROVAL_DENIED"
    assert (asked, guarded.calls) == ([1], [])


@pytest.mark.requirement("G4")
async def test_a_keyed_tool_gets_the_same_key_on_every_attempt_and_another_for_another_call() -> None:
    log, tool = Recording(), Spy(replace(WEATHER, effect="keyed"))
    gateway = gate(tool)
    for call in (GOOD, replace(GOOD, attempt=2), replace(GOOD, id="call_2")):
        await gateway.call(call, scope("weather"), log.ports())
    first, again, other = [ctx.idempotency_key for _, ctx in tool.calls]
    assert first == again != other
    assert [p["idempotencyKey"] for p in log.payloads("tool.invoked")] == [first, again, other]


async def test_a_tool_that_is_too_slow_times_out_and_is_recorded() -> None:
    class Slow(Spy):
        async def invoke(self, arguments: JsonObject, ctx: ToolContext) -> Result | Failure:
            await asyncio.Event().wait()
            raise AssertionError

    log = Recording()
    outcome = await gate(Slow(replace(WEATHER, timeout_seconds=0.05))).call(GOOD, scope("weather"), log.ports())
    assert outcome.error is not None
    assert outcome.error.code == "TOOL_TIMEOUT"
    assert log.payloads("tool.resulted")[0]["error"]["code"] == "TOOL_TIMEOUT"


@pytest.mark.requirement("G21")
async def test_what_a_tool_raises_is_a_failure_with_its_text_and_without_its_credentials() -> None:
    class Broken(Spy):
        async def invoke(self, arguments: JsonObject, ctx: ToolContext) -> Result | Failure:
            raise ValueError("no login with password=hunter2\nat postgres://app:hunter2@db/app")

    log = Recording()
    outcome = await gate(Broken(WEATHER)).call(GOOD, scope("weather"), log.ports())
    assert outcome.error is not None
    assert outcome.error.code == "TOOL_FAILED"
    assert outcome.error.message.startswith("weather failed with ValueError: no login with password=[REDACTED")
    assert "hunter2" not in str(log.events) + str(outcome)


async def test_large_output_goes_to_a_blob_and_the_model_gets_a_bounded_excerpt() -> None:
    log, tool = Recording(), Spy(WEATHER, TextResult("é" * 50_000))
    outcome = await gate(tool).call(GOOD, scope("weather"), log.ports())
    assert isinstance(outcome.output, dict)
    assert outcome.truncated
    assert len(str(outcome.output["excerpt"])) < 10_000
    reference = outcome.output["$blob"]
    assert isinstance(reference, dict)
    assert log.blobs[str(reference["sha256"])] == ("é" * 50_000).encode()
    assert log.payloads("tool.resulted")[0]["truncated"] is True


@pytest.mark.parametrize("size", [1, 50, 1000, 16 * 1024, 40_000])
async def test_the_excerpt_has_the_size_that_the_tool_says(size: int) -> None:
    log, tool = Recording(), Spy(replace(WEATHER, excerpt_bytes=size), TextResult("start " + "é" * 50_000 + " end"))
    outcome = await gate(tool).call(GOOD, scope("weather"), log.ports())
    assert isinstance(outcome.output, dict)
    excerpt = str(outcome.output["excerpt"])
    assert size - 50 <= len(excerpt.encode()) <= size
    assert excerpt.startswith("start "[:size])
    assert excerpt.endswith(" end") or size < 1000


async def test_what_fits_the_excerpt_is_shown_whole() -> None:
    log = Recording()
    short = Spy(replace(WEATHER, excerpt_bytes=100), TextResult("x" * 100))
    assert (await gate(short).call(GOOD, scope("weather"), log.ports())).output == "x" * 100
    # More than an event holds: stored as well, so that the log and the model have the same.
    long = Spy(replace(WEATHER, excerpt_bytes=40_000), TextResult("x" * 30_000))
    outcome = await gate(long).call(GOOD, scope("weather"), log.ports())
    assert isinstance(outcome.output, dict)
    assert (outcome.output["excerpt"], outcome.output["truncated"]) == ("x" * 30_000, False)
    assert list(log.blobs.values()) == [b"x" * 30_000]


async def test_output_over_the_limit_is_an_error_and_is_not_kept() -> None:
    log, tool = Recording(), Spy(replace(WEATHER, max_output_bytes=100), BytesResult(b"x" * 101))
    outcome = await gate(tool).call(GOOD, scope("weather"), log.ports())
    assert outcome.error is not None
    assert outcome.error.code == "OUTPUT_TOO_LARGE"
    assert not log.blobs


async def test_the_output_schema_sees_the_whole_output_and_not_the_excerpt() -> None:
    log = Recording()
    tool = Spy(replace(WEATHER, output={"type": "array", "minItems": 9_000}), JsonResult([1] * 9_000))
    outcome = await gate(tool).call(GOOD, scope("weather"), log.ports())
    assert outcome.ok
    assert outcome.truncated


@pytest.mark.requirement("G8")
async def test_no_tool_starts_after_the_cancel() -> None:
    log, tool, cancelled = Recording(), Spy(WEATHER), asyncio.Event()
    cancelled.set()
    outcome = await gate(tool).call(GOOD, scope("weather"), log.ports(cancelled=cancelled))
    assert outcome.error is not None
    assert outcome.error.code == "TOOL_CANCELLED"
    assert not tool.calls


@pytest.mark.requirement("G8")
@pytest.mark.parametrize("how", ["command", "task"])
async def test_a_result_that_arrives_within_the_grace_is_recorded_and_not_applied(how: str) -> None:
    started, cancelled = asyncio.Event(), CancelSignal()

    class Finishing(Spy):
        async def invoke(self, arguments: JsonObject, ctx: ToolContext) -> Result | Failure:
            started.set()
            try:
                await asyncio.Event().wait()
            except asyncio.CancelledError:
                return JsonResult("finished anyway")
            raise AssertionError

    log = Recording()
    work = asyncio.create_task(gate(Finishing(WEATHER)).call(GOOD, scope("weather"), log.ports(cancelled=cancelled)))
    await asyncio.wait_for(started.wait(), 30)
    if how == "command":
        cancelled.set()
        outcome = await asyncio.wait_for(work, 30)
        assert outcome.error is not None
        assert outcome.error.code == "TOOL_CANCELLED"
    else:
        work.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asyncio.wait_for(work, 30)
    assert log.payloads("tool.resulted")[0] | {"durationMs": 0} == {
        "callId": "call_1", "tool": "weather", "ok": True, "output": "finished anyway", "durationMs": 0,
        "applied": False,
    }  # fmt: skip


@pytest.mark.requirement("G8")
async def test_a_tool_that_ignores_its_cancel_is_left_behind_after_the_grace() -> None:
    started, release, cancelled = asyncio.Event(), asyncio.Event(), CancelSignal()

    class Stubborn(Spy):
        async def invoke(self, arguments: JsonObject, ctx: ToolContext) -> Result | Failure:
            started.set()
            while not release.is_set():
                try:
                    await release.wait()
                except asyncio.CancelledError:
                    continue
            return JsonResult(None)

    log = Recording()
    gateway = gate(Stubborn(WEATHER), cancel_grace=-0.95)
    work = asyncio.create_task(gateway.call(GOOD, scope("weather"), log.ports(cancelled=cancelled)))
    await asyncio.wait_for(started.wait(), 30)
    cancelled.set()
    outcome = await asyncio.wait_for(work, 30)
    assert outcome.error is not None
    assert outcome.error.code == "TOOL_CANCELLED"
    release.set()


@pytest.mark.requirement("HK-4")
async def test_parallel_calls_act_at_once_and_their_results_are_recorded_in_call_order() -> None:
    both = asyncio.Barrier(3)
    done: list[str] = []

    class Meeting(Spy):
        async def invoke(self, arguments: JsonObject, ctx: ToolContext) -> Result | Failure:
            await asyncio.wait_for(both.wait(), 30)
            for _ in range(10 - 3 * int(ctx.call_id)):  # the last one asked for is done first
                await asyncio.sleep(0)
            done.append(ctx.call_id)
            return JsonResult(ctx.call_id)

    log = Recording()
    calls = [ToolRequest(str(n), "weather", {"city": "x"}) for n in range(3)]
    outcomes = await gate(Meeting(WEATHER)).call_all(calls, scope("weather"), log.ports())
    assert done == ["2", "1", "0"]
    assert [outcome.output for outcome in outcomes] == ["0", "1", "2"]
    assert [p["callId"] for p in log.payloads("tool.resulted")] == ["0", "1", "2"]


async def test_of_parallel_calls_the_others_finish_before_a_pause_is_raised() -> None:
    log = Recording()
    tool, asking = Spy(WEATHER), Spy(replace(WEATHER, name="pay", approval="always"))

    async def approve(_call: ToolRequest, _tool: ToolDefinition, _hash: str) -> Approval:
        raise Suspended("int_1")

    calls = [ToolRequest("0", "pay", {"city": "x"}), ToolRequest("1", "weather", {"city": "x"})]
    with pytest.raises(Suspended):
        await gate(tool, asking).call_all(calls, scope("weather", "pay"), log.ports(approve=approve))
    assert [p["callId"] for p in log.payloads("tool.resulted")] == ["1"]


@pytest.mark.requirement("SH-20")
async def test_a_direct_request_takes_the_same_way_and_is_bracketed() -> None:
    log, tool = Recording(), Spy(WEATHER)
    await gate(tool).call(GOOD, scope("weather", direct=True), log.ports())
    await gate(tool).call(replace(GOOD, arguments={}), scope("weather", direct=True), log.ports())
    assert log.types() == [
        "tool.direct.started", "tool.invoked", "tool.resulted", "tool.direct.completed",
        "tool.direct.started", "tool.guarded", "tool.resulted",
    ]  # fmt: skip


async def test_a_recorded_result_is_finished_without_acting_again() -> None:
    log, tool = Recording(), Spy(replace(WEATHER, output={"type": "string"}))
    gateway = gate(tool)
    first = await gate(Spy(WEATHER)).call(GOOD, scope("weather"), log.ports())
    outcome = await gateway.finish(GOOD, scope("weather"), log.ports(), first)
    assert outcome.error is not None
    assert outcome.error.code == "OUTPUT_INVALID"
    assert not tool.calls


@pytest.mark.parametrize(
    ("result", "schema"),
    [
        (JsonResult([1] * 9_000), {"type": "array", "minItems": 9_000}),
        (TextResult("x" * 20_000), {"type": "string", "minLength": 20_000}),
        (BytesResult(b"picture", "image/png"), {"type": "null"}),
    ],
)
@pytest.mark.parametrize("good", [True, False])
async def test_of_a_recorded_excerpt_the_stored_output_is_checked(
    result: Result, schema: dict[str, Any], good: bool
) -> None:
    log = Recording()
    recorded = await gate(Spy(WEATHER, result)).call(GOOD, scope("weather"), log.ports())
    checked = gate(Spy(replace(WEATHER, output=schema if good else {"type": "boolean"})))
    outcome = await checked.finish(GOOD, scope("weather"), log.ports(load_blob=log.load_blob), recorded)
    if good:
        assert outcome == recorded
    else:
        assert outcome.error is not None
        assert outcome.error.code == "OUTPUT_INVALID"


async def test_a_recorded_excerpt_whose_output_cannot_be_read_is_withheld_only_where_there_is_a_schema() -> None:
    log = Recording()
    recorded = await gate(Spy(WEATHER, JsonResult([1] * 9_000))).call(GOOD, scope("weather"), log.ports())
    assert await gate(Spy(WEATHER)).finish(GOOD, scope("weather"), log.ports(), recorded) == recorded
    strict = gate(Spy(replace(WEATHER, output={"type": "array"})))
    outcome = await strict.finish(GOOD, scope("weather"), log.ports(), recorded)
    assert outcome.error is not None
    assert outcome.error.code == "OUTPUT_INVALID"
    assert outcome.output is None


@pytest.mark.requirement("OS-I3")
@pytest.mark.parametrize(
    "schema", [{"type": "objct"}, {"$ref": "http://169.254.169.254/x"}, {"$ref": "file:///etc/passwd"}]
)
def test_a_tool_whose_schema_cannot_be_used_is_not_registered(schema: dict[str, Any]) -> None:
    with pytest.raises(ToolInvalid):
        Registry([Spy(replace(WEATHER, input=schema))])


@pytest.mark.requirement("OS-I3")
@pytest.mark.parametrize("value", [float("nan"), 2**70, "\ud800", {1: 2}, b"bytes", "deep"])
async def test_arguments_that_are_no_json_are_refused_and_not_raised(value: Any) -> None:
    if value == "deep":
        value = []
        for _ in range(3000):
            value = [value]
    log, tool = Recording(), Spy(replace(WEATHER, input={"type": "object", "properties": {"v": {}}}))
    outcome = await gate(tool).call(ToolRequest("c", "weather", {"v": value}), scope("weather"), log.ports())
    assert outcome.error is not None
    assert outcome.error.code == "INVALID_ARGUMENTS"
    assert not tool.calls


@pytest.mark.requirement("OS-I3")
def test_two_tools_of_one_name_are_not_registered() -> None:
    with pytest.raises(ToolInvalid):
        Registry([Spy(WEATHER), Spy(WEATHER)])
