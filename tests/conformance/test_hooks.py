"""What every kind of hook must do, asked by the runner: the suite a new kind has to pass."""

import asyncio
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from app.core.decisions import Allow, Decision, Deny, Transform
from app.core.schemas import SchemaRegistry
from app.events.catalog.policy import HookFired, SchemaViolated
from app.outside import process
from app.outside.process import Finished, ProcessError, Program
from app.policy.contract import About, Handler, Hook, HookContext, Point
from app.policy.hooks import Fired, HookRunner
from app.policy.kinds.builtin import BuiltinHandler
from app.policy.kinds.command import CommandHandler
from app.policy.kinds.python import FunctionHandler

PROGRAM = Path(__file__).with_name("hook_program.py")
SCHEMAS = SchemaRegistry()
ABOUT = About("run_1", "thr_1", "acme", "clerk")
SECONDS = 20.0  # time for an interpreter to start on a busy machine


def act(do: str, subject: dict[str, Any], ctx: HookContext) -> Any:
    match do:
        case "allow":
            return Allow("fine")
        case "deny":
            return {"decision": "deny", "reason": "not on Fridays"}
        case "transform":
            return Transform({"arguments": {"text": subject["arguments"]["text"] + "!"}})
        case "wrong_transform":
            return {"decision": "transform", "output": {"tool": "another"}}
        case "throw":
            raise ValueError("sk-secret-0123456789abcdef")
        case "nonsense":
            return {"verdict": "yes"}
        case "text":
            return "allow"
        case "mutate":
            subject["arguments"]["text"] = "changed in place"
            return Allow()
        case "context":
            about = ctx.about
            context = {"hook": ctx.point, "runId": about.run_id, "threadId": about.thread_id, "agent": about.agent}
            return Transform({"arguments": {"context": context}})
    return None


def async_function(do: str) -> Handler:
    async def decide(subject: dict[str, Any], ctx: HookContext) -> Any:
        if do == "late":
            await asyncio.sleep(60)
        return act(do, subject, ctx)

    return FunctionHandler(decide)


def plain_function(do: str) -> Handler:
    def decide(subject: dict[str, Any], ctx: HookContext) -> Any:
        if do == "late":
            time.sleep(2)  # a thread cannot be ended; it must not outlive the tests by much
        return act(do, subject, ctx)

    return FunctionHandler(decide)


def command(do: str) -> Handler:
    return CommandHandler((sys.executable, "-I", "-S", str(PROGRAM)), {}, {"do": do}, PROGRAM.parent)


KINDS: dict[str, Callable[[str], Handler]] = {
    "async function": async_function,
    "plain function": plain_function,
    "command": command,
}


@pytest.fixture(params=KINDS)
def kind(request: pytest.FixtureRequest) -> Callable[[str], Handler]:
    return KINDS[request.param]


async def ask(handler: Handler, *, seconds: float = SECONDS) -> Fired:
    runner = HookRunner(
        [Hook("only", frozenset({Point.PRE_TOOL_USE}), handler, timeout_seconds=seconds)], schemas=SCHEMAS
    )
    subject = {"tool": "echo", "callId": "call_1", "arguments": {"text": "hello"}}
    return await runner.fire(Point.PRE_TOOL_USE, subject, ABOUT, key="PreToolUse:call_1", call_id="call_1")


def recorded(fired: Fired) -> HookFired:
    [payload] = [entry.payload for entry in fired.entries if isinstance(entry.payload, HookFired)]
    return payload


def denied(fired: Fired, reason: str) -> bool:
    return (
        fired.decision == Deny(reason, "only")
        and recorded(fired).decision == "deny"
        and recorded(fired).reason == reason
    )


@pytest.mark.requirement("OS-L6", "SH-24")
@pytest.mark.parametrize(
    ("do", "decision"),
    [
        ("allow", Allow("fine")),
        ("deny", Deny("not on Fridays", "only")),
        ("transform", Transform({"arguments": {"text": "hello!"}}, "only")),
    ],
)
async def test_a_decision_comes_back_and_is_recorded_in_one_event(
    kind: Callable[[str], Handler], do: str, decision: Decision
) -> None:
    fired = await ask(kind(do))
    assert fired.decision == decision
    event = recorded(fired)
    assert (event.hook, event.handler, event.decision, event.call_id) == ("PreToolUse", "only", do, "call_1")
    assert event.key == "PreToolUse:call_1"
    assert event.duration_ms is not None
    assert [entry.actor for entry in fired.entries] == ["hook:only"]


async def test_a_transform_is_what_the_subject_becomes(kind: Callable[[str], Handler]) -> None:
    fired = await ask(kind("transform"))
    assert fired.subject == {"tool": "echo", "callId": "call_1", "arguments": {"text": "hello!"}}
    assert recorded(fired).output == {"arguments": {"text": "hello!"}}


@pytest.mark.requirement("S18", "OS-I3", "OS-F")
async def test_a_hook_that_throws_denies_and_its_message_is_nowhere(kind: Callable[[str], Handler]) -> None:
    fired = await ask(kind("throw"))
    assert isinstance(fired.decision, Deny)
    assert fired.decision.reason.startswith("the hook failed with")
    assert "sk-secret" not in str(fired)


@pytest.mark.requirement("S18", "OS-I3", "OS-F")
async def test_a_hook_that_is_late_denies(kind: Callable[[str], Handler]) -> None:
    assert denied(await ask(kind("late"), seconds=0.5), "the hook did not answer in time")


@pytest.mark.requirement("S18")
@pytest.mark.parametrize("do", ["nonsense", "text", "nothing"])
async def test_an_answer_that_is_no_decision_denies(kind: Callable[[str], Handler], do: str) -> None:
    fired = await ask(kind(do))
    assert isinstance(fired.decision, Deny)
    assert recorded(fired).decision == "deny"


@pytest.mark.requirement("S18", "OS-I5")
async def test_a_transform_that_the_schema_refuses_denies_and_is_recorded(kind: Callable[[str], Handler]) -> None:
    fired = await ask(kind("wrong_transform"))
    assert denied(fired, "the hook changed the subject to something invalid")
    violation = fired.entries[0].payload
    assert isinstance(violation, SchemaViolated)
    assert violation.schema_name == "hook_pre_tool_use_output_v1"
    assert "another" not in str(violation)
    assert recorded(fired).output is None


async def test_what_a_hook_does_to_its_input_changes_nothing(kind: Callable[[str], Handler]) -> None:
    fired = await ask(kind("mutate"))
    assert isinstance(fired.decision, Allow)
    assert fired.subject["arguments"] == {"text": "hello"}


async def test_a_hook_learns_for_whom_it_decides(kind: Callable[[str], Handler]) -> None:
    fired = await ask(kind("context"))
    assert fired.subject["arguments"]["context"] == {
        "hook": "PreToolUse", "runId": "run_1", "threadId": "thr_1", "agent": "clerk",
    }  # fmt: skip


async def test_a_built_in_answers_without_a_thread_and_is_held_to_the_same() -> None:
    fired = await ask(BuiltinHandler(lambda subject, point: Transform({"arguments": {"at": point}})))
    assert fired.decision == Transform({"arguments": {"at": "PreToolUse"}}, "only")
    assert isinstance((await ask(BuiltinHandler(lambda subject, point: Deny("no")))).decision, Deny)


# -- commands only ---------------------------------------------------------------------------------


@pytest.mark.requirement("S15", "G21")
async def test_a_command_sees_nothing_of_the_environment_but_what_it_was_given(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOLDFAST_TEST_SECRET", "hidden")
    program = (sys.executable, "-I", "-S", str(PROGRAM))
    handler = CommandHandler(
        program, {"LEVEL": "high", "TOKEN": "${env:TOKEN}"}, {"do": "context"}, PROGRAM.parent, {"TOKEN": "t"}.get
    )
    fired = await ask(handler)
    assert set(fired.subject["arguments"]["env"]) - {"LC_CTYPE"} == {
        "HOME", "LANG", "LEVEL", "PATH", "TMPDIR", "TOKEN",
    }  # fmt: skip


async def test_a_command_whose_secret_is_not_set_denies() -> None:
    program = (sys.executable, "-I", "-S", str(PROGRAM))
    handler = CommandHandler(program, {"TOKEN": "${env:TOKEN}"}, {"do": "allow"}, PROGRAM.parent)
    assert isinstance((await ask(handler)).decision, Deny)


async def test_a_command_that_does_not_exist_denies() -> None:
    assert isinstance((await ask(CommandHandler(("./no-such-program",), folder=PROGRAM.parent))).decision, Deny)


@pytest.mark.requirement("S15", "G21")
async def test_a_command_reads_neither_the_data_folder_nor_dotenv_of_its_workspace(tmp_path: Path) -> None:
    data = tmp_path / "workspace" / "data"
    data.mkdir(parents=True)
    (data / "holdfast.db").write_text("the log")
    (data.parent / ".env").write_text("KEY=sk-dotenv")
    code = (
        "import json, os\ndef read(name):\n    try: return open(os.environ['PLACE'] + name).read()\n"
        "    except OSError as error: return ''\n"
        "found = read('/data/holdfast.db') + read('/.env')\n"
        "print(json.dumps({'decision': 'deny' if found else 'allow', 'reason': found or 'none'}))"
    )
    program = (sys.executable, "-I", "-S", "-c", code)
    place = {"PLACE": str(data.parent)}
    assert isinstance((await ask(CommandHandler(program, place, {}, data.parent, data=data))).decision, Allow)
    without = CommandHandler(program, place, {}, data.parent)  # the program denies if it can read them
    assert isinstance((await ask(without)).decision, Deny)


async def test_a_command_that_the_machine_cannot_confine_as_required_denies(monkeypatch: pytest.MonkeyPatch) -> None:
    async def lacking(program: Program, *, grace: float) -> Finished:
        assert program.required
        raise ProcessError("SANDBOX_INCOMPLETE", "the sandbox is required and lacks here: files")

    monkeypatch.setattr(process, "run", lacking)
    handler = CommandHandler((sys.executable, "-c", "pass"), folder=PROGRAM.parent, required=True)
    assert isinstance((await ask(handler)).decision, Deny)
