"""The runner: who is asked in which order, what adds up to what, and that recorded decisions say the same again."""

import asyncio
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.core.decisions import ALLOW, Allow, Decision, Deny, Transform
from app.core.json import JsonObject
from app.core.schemas import SchemaRegistry
from app.events.catalog.policy import HookFired
from app.policy.contract import About, Handler, Hook, HookContext, Point
from app.policy.hooks import Fired, HookRunner, recall
from app.policy.points import RULES, prompt_input, prompt_subject
from app.tools.contract import Hook as GatewayHook
from app.tools.contract import ToolDefinition, ToolRequest
from app.tools.gateway import Gateway
from app.tools.registry import Registry
from tests.tools.recording import Recording, Spy, scope

SCHEMAS = SchemaRegistry()
ABOUT = About("run_1", "thr_1", agent="clerk")
PROMPT = Point.USER_PROMPT_SUBMIT


class Says:
    """Answers as configured, and keeps what it was asked."""

    def __init__(self, answer: object) -> None:
        self._answer = answer
        self.asked: list[JsonObject] = []

    async def decide(self, subject: JsonObject, ctx: HookContext) -> object:
        self.asked.append(subject)
        return self._answer


def hook(name: str, answer: object, *points: Point, **fields: Any) -> Hook:
    handler: Handler = answer if isinstance(answer, Says) else Says(answer)
    return Hook(name, frozenset(points or {PROMPT}), handler, **fields)


def runner(*hooks: Hook) -> HookRunner:
    return HookRunner(hooks, schemas=SCHEMAS)


def recorded(fired: Fired) -> list[JsonObject]:
    return [entry.payload.to_json() for entry in fired.entries if isinstance(entry.payload, HookFired)]


def prompt(text: str) -> Transform:
    return Transform({"prompt": text})


# -- order and chain -------------------------------------------------------------------------------


@pytest.mark.requirement("OS-L6")
async def test_the_higher_priority_is_asked_first_and_then_the_name_decides() -> None:
    hooks = [hook("b", ALLOW), hook("a", ALLOW), hook("last", ALLOW, priority=1), hook("first", ALLOW, priority=900)]
    fired = await runner(*hooks).fire(PROMPT, {"prompt": "hi"}, ABOUT)
    assert [event["handler"] for event in recorded(fired)] == ["first", "a", "b", "last"]


@pytest.mark.requirement("OS-L6", "SH-24")
async def test_a_transform_is_what_the_next_hook_sees() -> None:
    second, third = Says(prompt("two")), Says(ALLOW)
    fired = await runner(hook("a", prompt("one")), hook("b", second), hook("c", third)).fire(
        PROMPT, {"prompt": "zero"}, ABOUT
    )
    assert second.asked == [{"prompt": "one"}]
    assert third.asked == [{"prompt": "two"}]
    assert fired.subject == {"prompt": "two"}
    assert fired.decision == Transform({"prompt": "two"}, "b")


@pytest.mark.requirement("OS-L6")
async def test_the_first_denial_ends_the_chain() -> None:
    after = Says(ALLOW)
    fired = await runner(hook("a", prompt("x")), hook("b", Deny("no")), hook("c", after)).fire(
        PROMPT, {"prompt": "y"}, ABOUT
    )
    assert fired.decision == Deny("no", "b")
    assert after.asked == []
    assert [event["decision"] for event in recorded(fired)] == ["transform", "deny"]


@pytest.mark.requirement("OS-L6")
@pytest.mark.parametrize("point", Point)
async def test_without_hooks_everything_is_allowed_but_another_turn(point: Point) -> None:
    fired = await runner().fire(point, {}, ABOUT)
    assert isinstance(fired.decision, Deny if point is Point.STOP else Allow)
    assert fired.entries == ()


async def test_stop_goes_on_only_if_every_hook_allows_it() -> None:
    both = runner(hook("a", ALLOW, Point.STOP), hook("b", ALLOW, Point.STOP))
    assert isinstance((await both.fire(Point.STOP, {"turn": 1}, ABOUT)).decision, Allow)
    one = runner(hook("a", ALLOW, Point.STOP), hook("b", Deny("enough"), Point.STOP))
    assert isinstance((await one.fire(Point.STOP, {"turn": 1}, ABOUT)).decision, Deny)


async def test_a_hook_for_some_tools_is_asked_about_those_alone() -> None:
    only = runner(hook("a", Deny("no"), Point.PRE_TOOL_USE, tools=frozenset({"rm"})))
    about_rm = await only.fire(Point.PRE_TOOL_USE, {"tool": "rm", "arguments": {}}, ABOUT)
    about_ls = await only.fire(Point.PRE_TOOL_USE, {"tool": "ls", "arguments": {}}, ABOUT)
    assert isinstance(about_rm.decision, Deny)
    assert about_ls == Fired(ALLOW, {"tool": "ls", "arguments": {}})


@pytest.mark.parametrize(("agent", "asked"), [("clerk", True), ("boss", False), (None, False)])
async def test_a_hook_of_some_agents_is_asked_for_those_alone(agent: str | None, asked: bool) -> None:
    only = runner(hook("a", Deny("no"), agents=frozenset({"clerk"})))
    about = About("run_1", agent=agent)
    assert only.asks(PROMPT, {"prompt": "hi"}, about) is asked
    assert isinstance((await only.fire(PROMPT, {"prompt": "hi"}, about)).decision, Deny) is asked


async def test_a_cancelled_run_does_not_turn_into_a_denial() -> None:
    begun = asyncio.Event()

    class Waits:
        async def decide(self, subject: JsonObject, ctx: HookContext) -> object:
            begun.set()
            return await asyncio.Event().wait()

    asking = asyncio.create_task(runner(Hook("a", frozenset({PROMPT}), Waits())).fire(PROMPT, {"prompt": "hi"}, ABOUT))
    await begun.wait()
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking


# -- what a transform may be -----------------------------------------------------------------------


@pytest.mark.requirement("S18", "OS-I5")
@pytest.mark.parametrize(
    ("point", "changes"),
    [
        (Point.SESSION_START, {"context": 1}),
        (PROMPT, {}),
        (PROMPT, {"prompt": None}),
        (PROMPT, {"prompt": "a", "agent": "boss"}),
        (Point.PRE_TOOL_USE, {"arguments": ["a"]}),
        (Point.POST_TOOL_USE, {"result": 1}),
        (Point.POST_TOOL_USE, {"output": float("nan")}),
        (Point.SKILL_START, {"allowedTools": ["echo", "rm"]}),
        (Point.STOP, {"message": ""}),
        (Point.PRE_COMPACT, {"keep": 3}),
        (Point.WORKFLOW_START, {"phase": "x"}),
        (PROMPT, "not an object"),
        (PROMPT, {"prompt": {1, 2}}),
    ],
)
async def test_a_transform_that_does_not_fit_its_point_denies(point: Point, changes: Any) -> None:
    subject = {"skill": "greet", "allowedTools": ["echo", "clock"], "prompt": "hi", "turn": 1}
    fired = await runner(hook("a", Transform(changes), point)).fire(point, subject, ABOUT)
    assert isinstance(fired.decision, Deny)
    assert fired.subject == subject


async def test_a_skill_may_lose_tools() -> None:
    fewer = Transform({"allowedTools": ["echo"]})
    subject = {"skill": "greet", "allowedTools": ["echo", "clock"]}
    fired = await runner(hook("a", fewer, Point.SKILL_START)).fire(Point.SKILL_START, subject, ABOUT)
    assert fired.subject["allowedTools"] == ["echo"]


def test_every_point_has_rules_and_every_schema_of_a_change_exists() -> None:
    assert set(RULES) == set(Point)
    for rules in RULES.values():
        if rules.schema is not None:
            assert SCHEMAS.document(rules.schema)["additionalProperties"] is False


# -- prompts that are more than text ---------------------------------------------------------------


@pytest.mark.parametrize("value", ["text", [{"type": "text", "text": "a"}, {"type": "image", "url": "u"}], {"a": 1}])
def test_an_input_comes_back_from_its_subject(value: Any) -> None:
    assert prompt_input(prompt_subject(value)) == value


async def test_a_new_text_takes_the_place_of_all_text_parts_and_leaves_pictures() -> None:
    parts = [
        {"type": "image", "url": "u"}, {"type": "text", "text": "a"}, {"type": "text", "text": "b"},
    ]  # fmt: skip
    fired = await runner(hook("a", prompt("c"))).fire(PROMPT, prompt_subject(parts), ABOUT)
    assert prompt_input(fired.subject) == [{"type": "image", "url": "u"}, {"type": "text", "text": "c"}]
    assert fired.subject["prompt"] == "c"


async def test_a_change_is_recorded_as_the_whole_input_it_makes() -> None:
    parts = [{"type": "text", "text": "a"}, {"type": "image", "url": "u"}]
    fired = await runner(hook("a", prompt("c"))).fire(PROMPT, prompt_subject(parts), ABOUT)
    assert recorded(fired)[0]["output"] == {"input": [{"type": "text", "text": "c"}, {"type": "image", "url": "u"}]}
    fired = await runner(hook("a", Transform({"input": "c"}))).fire(PROMPT, prompt_subject("a"), ABOUT)
    assert recorded(fired)[0]["output"] == {"prompt": "c"}


async def test_a_new_input_is_shown_to_the_next_hook_as_text_too() -> None:
    second = Says(ALLOW)
    first = Transform({"input": {"order": 2}})
    await runner(hook("a", first), hook("b", second)).fire(PROMPT, prompt_subject({"order": 1}), ABOUT)
    assert second.asked == [{"prompt": '{"order":2}', "input": {"order": 2}}]


# -- resume ----------------------------------------------------------------------------------------

decisions: st.SearchStrategy[Decision] = st.one_of(
    st.just(ALLOW), st.builds(Deny, st.text(min_size=1, max_size=5)), st.builds(prompt, st.text(max_size=5))
)


@pytest.mark.requirement("G4", "OS-I1")
@given(st.lists(decisions, max_size=5), st.one_of(st.text(max_size=5), st.just({"order": 1})))
def test_recorded_decisions_come_to_the_same_as_the_first_time(answers: list[Decision], value: Any) -> None:
    hooks = [hook(str(number), answer, priority=9 - number) for number, answer in enumerate(answers)]
    subject = prompt_subject(value)
    fired = asyncio.run(runner(*hooks).fire(PROMPT, subject, ABOUT, key="k"))
    again = recall(PROMPT, subject, recorded(fired))
    assert (again.decision, again.subject) == (fired.decision, fired.subject)


async def test_events_of_one_firing_share_its_key_and_what_was_asked_about() -> None:
    hooks = runner(hook("a", prompt("x")), hook("b", ALLOW))
    first = recorded(await hooks.fire(PROMPT, {"prompt": "1"}, ABOUT, key="k"))
    other = recorded(await hooks.fire(PROMPT, {"prompt": "2"}, ABOUT, key="k"))
    assert {event["key"] for event in first + other} == {"k"}
    assert len({event["subjectHash"] for event in first}) == 1
    assert first[0]["subjectHash"] != other[0]["subjectHash"]


# -- through the tool gateway ----------------------------------------------------------------------


def port(hooks: HookRunner, log: Recording) -> GatewayHook:
    async def ask(point: str, subject: JsonObject) -> Decision:
        fired = await hooks.fire(Point(point), subject, ABOUT, call_id=subject["callId"])
        for entry in fired.entries:
            await log.record(entry.payload)
        return fired.decision

    return ask


async def use(hooks: HookRunner, log: Recording, spy: Spy) -> Any:
    gateway = Gateway(Registry([spy]))
    return await gateway.call(
        ToolRequest("call_1", "echo", {"text": "hi"}), scope("echo"), log.ports(hook=port(hooks, log))
    )


def echo() -> Spy:
    schema = {"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]}
    return Spy(ToolDefinition("echo", input=schema, effect="readonly"))


@pytest.mark.requirement("OS-L1", "OS-L6", "OS-F")
async def test_a_denied_call_is_recorded_and_never_made() -> None:
    log, spy = Recording(), echo()
    outcome = await use(runner(hook("a", Deny("no"), Point.PRE_TOOL_USE)), log, spy)
    assert outcome.error.code == "GATE_DENIED"
    assert spy.calls == []
    assert log.types() == ["hook.fired", "tool.resulted"]
    assert log.payloads("hook.fired")[0]["callId"] == "call_1"


@pytest.mark.requirement("OS-L1", "S18")
async def test_changed_arguments_reach_the_tool_and_wrong_ones_do_not() -> None:
    log, spy = Recording(), echo()
    await use(runner(hook("a", Transform({"arguments": {"text": "ho"}}), Point.PRE_TOOL_USE)), log, spy)
    outcome = await use(runner(hook("a", Transform({"arguments": {"text": 1}}), Point.PRE_TOOL_USE)), log, spy)
    assert [arguments for arguments, _ in spy.calls] == [{"text": "ho"}]
    assert outcome.error.code == "GATE_DENIED"


async def test_a_changed_output_is_what_the_model_gets() -> None:
    log = Recording()
    outcome = await use(runner(hook("a", Transform({"output": None}), Point.POST_TOOL_USE)), log, echo())
    assert outcome.ok
    assert outcome.output is None
    assert log.payloads("hook.fired")[0]["output"] == {"output": None}
