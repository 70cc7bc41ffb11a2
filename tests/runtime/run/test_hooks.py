"""Hooks at the points of a real run: what each decision does, that it is in the log, and that nobody is asked twice."""

import sys
from pathlib import Path

import pytest

from app.core.ids import new_id
from app.core.principal import LOCAL
from app.core.settings import Settings
from app.events.catalog import request, thread
from app.events.catalog.policy import HookFired
from app.events.envelope import Event
from app.events.ports import Appended
from app.events.recorder import Scope
from app.policy.hooks import subject_hash
from app.runtime.intake.submission import Submission
from app.views.run import Run
from tests.runs import ended, events_until, opened, payloads, submit, waiting
from tests.runtime.run.hooked import Space, builtin, hook, python

CARD = "4111 1111 1111 1111"


@pytest.fixture
def space(tmp_path: Path) -> Space:
    return Space(tmp_path)


def story(events: list[Event]) -> list[str]:
    """Types without their prefix, hooks with their point and decision."""
    names = []
    for event in events:
        name = event.type.removeprefix("runtime.")
        if name == "hook.fired":
            name = f"{event.payload['hook']} {event.payload['decision']}"
        if name not in ("adapter.event", "model.negotiated", "progress.narration"):
            names.append(name)
    return names


async def one_run(space: Space, text: str, agent: str = "clerk") -> tuple[Run, list[Event]]:
    async with opened(space.settings, space.root) as holdfast:
        run = await submit(holdfast, agent, text)
        return await ended(holdfast, run), await events_until(holdfast, run)


# -- every point -----------------------------------------------------------------------------------


@pytest.mark.smoke
@pytest.mark.requirement("OS-L6", "OS-L1", "SH-24")
async def test_each_point_is_asked_in_its_place_and_recorded_in_the_log(space: Space) -> None:
    points = "SessionStart, UserPromptSubmit, SkillStart, PreToolUse, PostToolUse, Stop"
    space.write({"all": python("all", points, "witness:allow")})
    run, events = await one_run(space, "hello, look around")
    assert run.status == "completed"
    assert story(events) == [
        "request.queued", "request.started", "SessionStart allow", "UserPromptSubmit allow", "SkillStart allow",
        "skill.invoked", "model.requested", "model.completed", "PreToolUse allow", "tool.invoked", "tool.resulted",
        "PostToolUse allow", "model.requested", "model.completed", "Stop deny", "skill.completed",
        "request.completed",
    ]  # fmt: skip
    fired = [event for event in events if event.type == "runtime.hook.fired"]
    assert {event.actor for event in fired} == {"hook:all"}
    asked = [line for line in space.seen() if not line.startswith("tool")]
    assert asked == ["SessionStart", "UserPromptSubmit", "SkillStart", "PreToolUse", "PostToolUse", "Stop"]


async def test_without_hooks_no_decision_is_recorded(space: Space) -> None:
    _, events = await one_run(space.write({}), "hello")
    assert payloads(events, "hook.fired") == []


@pytest.mark.requirement("OS-L6")
async def test_a_backend_without_turns_is_asked_about_its_stop_too(space: Space) -> None:
    space.write({"all": python("all", "SessionStart, UserPromptSubmit, Stop", "witness:allow")})
    run, events = await one_run(space, "say this", "parrot")
    assert run.output == "say this"
    assert [name for name in story(events) if " " in name] == [
        "SessionStart allow", "UserPromptSubmit allow", "Stop deny",
    ]  # fmt: skip


# -- the start and the prompt ----------------------------------------------------------------------


@pytest.mark.requirement("OS-F", "OS-L6")
@pytest.mark.parametrize(("point", "code"), [("SessionStart", "SESSION_DENIED"), ("UserPromptSubmit", "PROMPT_DENIED")])
async def test_a_denied_start_fails_the_run_before_any_model_is_asked(space: Space, point: str, code: str) -> None:
    rules = "def no(input): return {'decision': 'deny', 'reason': 'not on Fridays'}"
    run, events = await one_run(space.write({"no": python("no", point, "rules:no")}, rules=rules), "look around")
    assert run.error == {"code": code, "message": "not on Fridays", "retryable": False}
    assert payloads(events, "model.requested") == []


async def test_a_denied_prompt_is_not_shown_to_later_runs(space: Space) -> None:
    rules = (
        "def no(input):\n"
        "    bad = 'secret' in input['prompt']\n"
        "    return {'decision': 'deny', 'reason': 'no'} if bad else {'decision': 'allow'}\n"
    )
    space.write({"no": python("no", "UserPromptSubmit", "rules:no")}, rules=rules)
    async with opened(space.settings, space.root) as holdfast:
        first = await ended(holdfast, await submit(holdfast, "clerk", "a secret"))
        assert first.status == "failed"
        events = await events_until(holdfast, await submit(holdfast, "clerk", "plain", first.thread_id))
        (asked,) = payloads(events, "model.requested")
        assert "secret" not in str(asked["messages"])


@pytest.mark.requirement("OS-E", "OS-L6")
async def test_a_card_number_is_taken_out_before_a_model_sees_it_also_in_later_runs(space: Space) -> None:
    space.write({"cards": builtin("cards", "UserPromptSubmit", "redact_cards")})
    async with opened(space.settings, space.root) as holdfast:
        first = await ended(holdfast, await submit(holdfast, "clerk", f"pay with {CARD}"))
        assert first.output == "You said: pay with [REDACTED:card]"
        events = await events_until(holdfast, await submit(holdfast, "clerk", "and now?", first.thread_id))
        (asked,) = payloads(events, "model.requested")
        assert "4111" not in str(asked["messages"])
        assert "pay with [REDACTED:card]" in str(asked["messages"])


@pytest.mark.requirement("OS-L6")
async def test_a_history_that_a_request_brings_passes_the_same_hooks(space: Space) -> None:
    space.write({"cards": builtin("cards", "UserPromptSubmit", "redact_cards")})
    before = [{"role": "user", "content": f"my card is {CARD}"}, {"role": "assistant", "content": "Noted."}]
    async with opened(space.settings, space.root) as holdfast:
        run = await holdfast.service.submit(LOCAL, Submission("clerk", "and now?", history=before))
        assert isinstance(run, Run)
        (asked,) = payloads(await events_until(holdfast, run), "model.requested")
        said = [message["content"] for message in asked["messages"]]
        assert said == ["Be brief.", "my card is [REDACTED:card]", "Noted.", "and now?"]
        events = await events_until(holdfast, await submit(holdfast, "clerk", "later", run.thread_id))
        later = [message["content"] for message in payloads(events, "model.requested")[0]["messages"]]
        assert later[1:3] == said[1:3]
        assert (
            payloads(events, "hook.fired")[0]["key"] == "UserPromptSubmit" and len(payloads(events, "hook.fired")) == 1
        )


@pytest.mark.requirement("OS-L6", "HK-26")
async def test_what_people_say_on_the_way_passes_the_same_hooks(space: Space) -> None:
    rules = (
        "def no(input):\n"
        "    bad = 'secret' in input['prompt']\n"
        "    return {'decision': 'deny', 'reason': 'no'} if bad else {'decision': 'allow'}\n"
    )
    cards = builtin("cards", "UserPromptSubmit, PostToolUse", "redact_cards")
    space.write({"cards": cards, "no": python("no", "UserPromptSubmit", "rules:no")}, rules=rules)
    async with opened(space.settings, space.root) as holdfast:
        run = await submit(holdfast, "clerk", "publish it")
        asked = await waiting(holdfast, run)
        await holdfast.commands.inject(LOCAL, run.id, "steer", {"message": f"use {CARD}"})
        await holdfast.commands.inject(LOCAL, run.id, "steer", {"hint": "a secret"})
        await holdfast.interrupts.answer(LOCAL, asked.id, {"decision": "approve"})
        assert (await ended(holdfast, run)).status == "completed"
        said = payloads(await events_until(holdfast, run), "model.requested")[-1]["messages"]
        assert said[-1] == {"role": "user", "content": "use [REDACTED:card]"}
        assert "secret" not in str(said) and "4111" not in str(said)
        events = await events_until(holdfast, await submit(holdfast, "clerk", "and now?", run.thread_id))
        later = [message["content"] for message in payloads(events, "model.requested")[0]["messages"]]
        assert later[1] == "publish it" and "use [REDACTED:card]" in later


async def test_what_a_session_hook_adds_follows_the_instructions_and_precedes_the_skill(space: Space) -> None:
    rules = "def add(input): return {'decision': 'transform', 'output': {'context': 'It is Friday.'}}"
    space.write({"add": python("add", "SessionStart", "rules:add")}, rules=rules)
    _, events = await one_run(space, "hello")
    system = payloads(events, "model.requested")[0]["messages"][0]["content"]
    assert system.strip() == "Be brief.\n\nIt is Friday.\n\nGreet politely."


@pytest.mark.requirement("S18", "OS-I3")
async def test_a_program_that_answers_nonsense_denies(space: Space) -> None:
    command = f"kind: command, command: ['{sys.executable}', '-c', 'print(1)'], timeoutSeconds: 20"
    run, events = await one_run(space.write({"no": hook("no", "UserPromptSubmit", command)}), "hi")
    assert run.error is not None and run.error["code"] == "PROMPT_DENIED"
    assert [fired["decision"] for fired in payloads(events, "hook.fired")] == ["deny"]


async def test_a_program_of_the_workspace_decides(space: Space) -> None:
    program = (
        f"#!{sys.executable}\nimport json, sys\nasked = json.load(sys.stdin)\n"
        "json.dump({'decision': 'transform', 'output': {'prompt': asked['input']['prompt'].upper()}}, sys.stdout)\n"
    )
    space.write({"up": hook("up", "UserPromptSubmit", "kind: command, command: [./up.sh], timeoutSeconds: 20")})
    (space.root / "up.sh").write_text(program)
    (space.root / "up.sh").chmod(0o755)
    run, _ = await one_run(space, "hi")
    assert run.output == "You said: HI"


@pytest.mark.requirement("OS-I3")
async def test_a_hook_that_cannot_be_made_fails_every_run(space: Space) -> None:
    space.write({"bad": builtin("bad", "Stop", "deny_tools", ", config: {tools: [look]}")})
    run, _ = await one_run(space, "hi")
    assert run.error is not None and run.error["code"] == "HOOK_INVALID"


# -- skills ----------------------------------------------------------------------------------------


async def test_a_denied_skill_fails_the_run_instead_of_widening_its_tools(space: Space) -> None:
    rules = "def no(input): return {'decision': 'deny', 'reason': f\"no {input['skill']}\"}"
    run, events = await one_run(space.write({"no": python("no", "SkillStart", "rules:no")}, rules=rules), "hello")
    assert run.error == {"code": "SKILL_DENIED", "message": "no greet", "retryable": False}
    assert payloads(events, "skill.invoked") == []


@pytest.mark.requirement("S17")
async def test_a_skill_can_be_left_with_fewer_tools(space: Space) -> None:
    rules = "def few(input): return {'decision': 'transform', 'output': {'allowedTools': ['look']}}"
    space.write({"few": python("few", "SkillStart", "rules:few")}, rules=rules)
    _, events = await one_run(space, "hello")
    assert payloads(events, "skill.invoked")[0]["allowedTools"] == ["look"]
    assert payloads(events, "model.requested")[0]["tools"] == ["look"]


# -- tools -----------------------------------------------------------------------------------------


@pytest.mark.requirement("OS-L1", "OS-F")
async def test_a_denied_tool_call_is_not_made_and_the_model_sees_the_denial(space: Space) -> None:
    space.write({"no": builtin("no", "PreToolUse", "deny_tools", ", config: {tools: [look]}")})
    run, events = await one_run(space, "look around")
    assert payloads(events, "tool.invoked") == []
    assert run.output == "seen GATE_DENIED: the tool look is on the deny-list"
    assert space.seen() == []


@pytest.mark.requirement("OS-L1")
async def test_a_redacted_result_is_all_that_models_get_now_and_later(space: Space) -> None:
    space.write({"cards": builtin("cards", "PostToolUse", "redact_cards")})
    async with opened(space.settings, space.root) as holdfast:
        first = await ended(holdfast, await submit(holdfast, "clerk", "look"))
        assert first.output == "seen look card [REDACTED:card]"
        events = await events_until(holdfast, await submit(holdfast, "clerk", "and now?", first.thread_id))
        (asked,) = payloads(events, "model.requested")
        assert "4111" not in str(asked["messages"])


async def test_a_tool_that_was_asked_for_directly_passes_the_hooks_of_the_runtime(space: Space) -> None:
    space.write({"no": builtin("no", "PreToolUse", "deny_tools", ", config: {tools: [look]}")})
    async with opened(space.settings, space.root) as holdfast:
        run = await holdfast.service.submit(LOCAL, Submission(None, {"at": "x"}, tool="look"))
        assert isinstance(run, Run)
        over = await ended(holdfast, run)
        assert over.error is not None and over.error["code"] == "GATE_DENIED"


# -- the stop --------------------------------------------------------------------------------------


@pytest.mark.requirement("OS-L6")
async def test_an_allowed_stop_grants_one_more_turn_until_it_is_denied(space: Space) -> None:
    space.write({"turns": builtin("turns", "Stop", "max_turns", ", config: {turns: 3}")})
    run, events = await one_run(space, "think")
    assert len(payloads(events, "model.requested")) == 3
    assert [fired["decision"] for fired in payloads(events, "hook.fired")] == ["allow", "allow", "deny"]
    assert run.output == "You said: Go on."


async def test_a_stop_may_say_what_the_next_turn_is_about(space: Space) -> None:
    rules = (
        "def go(input):\n"
        "    if input['turn'] > 1: return {'decision': 'deny', 'reason': input['output']}\n"
        "    return {'decision': 'transform', 'output': {'message': 'Now look.'}}\n"
    )
    space.write({"go": python("go", "Stop", "rules:go")}, rules=rules)
    run, events = await one_run(space, "think")
    assert run.output == f"seen Now look. card {CARD}"
    assert payloads(events, "hook.fired")[-1]["reason"] == run.output


async def test_granted_turns_end_with_the_agent_s_own_and_the_last_answer_is_the_result(space: Space) -> None:
    space.write({"turns": builtin("turns", "Stop", "max_turns", ", config: {turns: 100}")})
    run, events = await one_run(space, "think")
    assert run.status == "completed"
    assert len(payloads(events, "model.requested")) == 4


# -- resume ----------------------------------------------------------------------------------------


@pytest.mark.requirement("G4", "G5", "PX-2")
async def test_nobody_is_asked_twice_when_a_run_is_entered_again(settings: Settings, space: Space) -> None:
    points = "SessionStart, SkillStart, PreToolUse, PostToolUse, Stop"
    space.write({
        "all": python("all", points, "witness:allow"), "sign": python("sign", "UserPromptSubmit", "witness:sign"),
    })  # fmt: skip
    async with opened(settings, space.root) as holdfast:
        run = await submit(holdfast, "clerk", "hello, publish it")
        asked = await waiting(holdfast, run)
        before = space.seen()
        assert before == ["SessionStart", "UserPromptSubmit", "SkillStart", "PreToolUse"]
    async with opened(settings, space.root) as holdfast:
        await holdfast.interrupts.answer(LOCAL, asked.id, {"decision": "approve"})
        assert (await ended(holdfast, run)).output == "published"
        assert space.seen() == [*before, "tool home", "PostToolUse", "Stop"]
        requested = payloads(await events_until(holdfast, run), "model.requested")
        prompts = [payload["messages"][1]["content"] for payload in requested]
        assert prompts[0] == prompts[1] != "hello, publish it"


@pytest.mark.requirement("G4")
async def test_a_backend_that_restarts_takes_the_recorded_decisions_too(space: Space) -> None:
    space.write({"sign": python("sign", "UserPromptSubmit", "witness:sign")})
    async with opened(space.settings, space.root) as holdfast:
        scope = Scope("default", new_id("thread"), new_id("run"))
        digest = holdfast.workspace.current.digest
        fired = HookFired(
            hook="UserPromptSubmit", handler="sign", decision="transform", output={"prompt": "x" * 20_000},
            key="UserPromptSubmit", subject_hash=subject_hash({"prompt": "hi"}),
        )  # fmt: skip
        left = [
            thread.ThreadCreated(), request.RequestQueued(agent="parrot", input="hi", workspace_digest=digest),
            request.RequestStarted(executor="dead", epoch=1), fired,
        ]  # fmt: skip
        await holdfast.executor.drain(0)
        assert isinstance(await holdfast.store.recorder.record(scope, *left), Appended)
        run = await holdfast.store.reader.run("default", scope.run_id or "")
        assert run is not None
    async with opened(space.settings, space.root) as holdfast:
        over = await ended(holdfast, run)
        assert over.status == "completed"
        assert space.seen() == []


@pytest.mark.requirement("S18")
async def test_a_recorded_decision_holds_only_for_what_it_was_asked_about(space: Space) -> None:
    space.write({"all": python("all", "UserPromptSubmit", "witness:allow")})
    async with opened(space.settings, space.root) as holdfast:
        scope = Scope("default", new_id("thread"), new_id("run"))
        digest = holdfast.workspace.current.digest
        fired = HookFired(
            hook="UserPromptSubmit", handler="all", decision="allow", key="UserPromptSubmit",
            subject_hash=subject_hash({"prompt": "something else"}),
        )  # fmt: skip
        left = [
            thread.ThreadCreated(), request.RequestQueued(agent="clerk", input="hi", workspace_digest=digest),
            request.RequestStarted(executor="dead", epoch=1), fired,
        ]  # fmt: skip
        await holdfast.executor.drain(0)
        assert isinstance(await holdfast.store.recorder.record(scope, *left), Appended)
        run = await holdfast.store.reader.run("default", scope.run_id or "")
        assert run is not None
    async with opened(space.settings, space.root) as holdfast:
        assert (await ended(holdfast, run)).status == "completed"
        assert space.seen() == ["UserPromptSubmit"]
