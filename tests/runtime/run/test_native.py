"""The native agent through the real runtime, on both databases: tools, approvals, questions, cancel, resume."""

import asyncio
import shutil
from pathlib import Path
from typing import Any

import pytest

from app.backends.contract import Context, Resume
from app.core import json
from app.core.ids import new_id
from app.core.json import JsonObject
from app.core.principal import LOCAL
from app.core.resources import shipped
from app.core.settings import Settings
from app.events.catalog import request, thread
from app.events.catalog.model import ModelCompleted
from app.events.catalog.tool import ToolInvoked, ToolResulted
from app.events.catalog.values import Effect, ToolCallValue, Usage
from app.events.ports import Appended
from app.events.recorder import Scope
from app.runtime.intake.interrupts import NotAnswered
from app.runtime.intake.rejection import Rejected
from app.store.blobs import Blobs
from app.views.interrupt import Interrupt
from app.views.run import Run
from tests.runs import ended, events_until, opened, submit, waiting

WITNESS = '''
from pathlib import Path

def effect(key: str, ctx) -> dict:
    """Leaves a line for every time it acts."""
    with Path("{path}").open("a") as lines:
        lines.write(f"{{key}} {{ctx.idempotency_key}}\\n")
    return {{"done": key}}
'''

TOOL = """
---
apiVersion: holdfast/v1
kind: Tool
metadata: {{name: {effect}}}
spec:
  kind: python
  entry: witness:effect
  effect: {effect}
  input: {{type: object, properties: {{key: {{type: string}}}}, required: [key]}}
  output: {{type: object, required: [done]}}
"""

MODEL = """
apiVersion: holdfast/v1
kind: Model
metadata: {name: script}
spec:
  provider: scripted
  model: script
  capabilities: {streaming: true, tools: true, parallelTools: true}
  script:
    rules:
      - {match: {afterTool: readonly, toolResult: excerpt}, reply: {text: "read some of it"}}
      - {match: {afterTool: readonly}, reply: {text: "read"}}
      - {match: {afterTool: keyed}, reply: {text: "kept"}}
      - {match: {afterTool: unsafe}, reply: {text: "dared"}}
      - {match: {contains: read}, reply: {toolCalls: [{name: readonly, args: {key: a}}]}}
      - {match: {contains: keep}, reply: {toolCalls: [{name: keyed, args: {key: b}}]}}
      - {match: {contains: dare}, reply: {toolCalls: [{name: unsafe, args: {key: c}}]}}
      - {match: {contains: forever}, reply: {toolCalls: [{name: echo, args: {text: "again"}}]}}
      - {match: {contains: slowly}, reply: {chunks: ["one ", "two"], chunkDelaySeconds: 30}}
    default: {text: "You said: {{ input }}"}
---
apiVersion: holdfast/v1
kind: Agent
metadata: {name: worker}
spec: {model: script, tools: [readonly, keyed, unsafe, echo], maxTurns: 3}
"""


@pytest.fixture
def space(tmp_path: Path) -> Path:
    """The demo with a worker whose tools leave witnesses of their effects."""
    root = tmp_path / "workspace"
    shutil.copytree(shipped("workspaces") / "demo", root)
    (root / "witness.py").write_text(WITNESS.format(path=tmp_path / "effects"))
    (root / "tools" / "witness.yaml").write_text(
        "".join(TOOL.format(effect=e) for e in ("readonly", "keyed", "unsafe"))
    )
    (root / "models" / "script.yaml").write_text(MODEL)
    return root


def effects(tmp_path: Path) -> list[str]:
    found = tmp_path / "effects"
    return found.read_text().splitlines() if found.exists() else []


@pytest.mark.smoke
@pytest.mark.requirement("HK-1", "HK-3", "HK-13", "SH-2")
async def test_a_model_uses_a_tool_and_answers(settings: Settings, space: Path) -> None:
    async with opened(settings, space) as holdfast:
        run = await submit(holdfast, "assistant", "please calculate this")
        events = await events_until(holdfast, run)
        assert (await ended(holdfast, run)).output == 'That makes {"value":42}.'
        aside = ("runtime.adapter.event", "runtime.progress.narration")
        types = [event.type.removeprefix("runtime.") for event in events if event.type not in aside]
        assert types == [
            "request.queued", "request.started", "model.negotiated", "model.requested", "model.completed",
            "tool.invoked", "tool.resulted", "model.requested", "model.completed", "request.completed",
        ]  # fmt: skip
        deltas = [e.payload["event"] for e in events if e.type == "runtime.adapter.event"]
        said = "".join(delta["text"] for delta in deltas if delta["phase"] == "agent.output.delta")
        assert said == 'That makes {"value":42}.'


async def test_a_thread_s_next_run_is_given_what_was_said_before(settings: Settings, space: Path) -> None:
    async with opened(settings, space) as holdfast:
        first = await ended(holdfast, await submit(holdfast, "worker", "one"))
        run = await submit(holdfast, "worker", "two", first.thread_id)
        (asked,) = [e for e in await events_until(holdfast, run) if e.type == "runtime.model.requested"]
        assert [message["content"] for message in asked.payload["messages"]] == ["one", "You said: one", "two"]


@pytest.mark.requirement("OS-L5", "S17")
async def test_a_skill_narrows_the_tools_and_is_recorded(settings: Settings, space: Path) -> None:
    async with opened(settings, space) as holdfast:
        run = await submit(holdfast, "assistant", "hello there")
        events = {event.type: event for event in await events_until(holdfast, run)}
        assert events["runtime.skill.invoked"].payload["skill"] == "greet"
        assert events["runtime.model.requested"].payload["tools"] == ["echo"]
        assert events["runtime.skill.completed"].payload["ok"] is True


@pytest.mark.requirement("G9", "HK-25", "CM-4")
async def test_of_two_decisions_at_once_one_counts_and_the_other_learns_who_was_first(
    settings: Settings, space: Path
) -> None:
    async with opened(settings, space) as holdfast:
        run = await submit(holdfast, "assistant", "publish it now")
        asked = await waiting(holdfast, run)
        assert (asked.kind, asked.tool, asked.status) == ("approval", "publish", "open")
        waits = await holdfast.store.reader.run("default", run.id)
        assert waits is not None and (waits.status, waits.waiting_on) == ("waiting", [asked.id])
        wrong = await holdfast.interrupts.answer(LOCAL, asked.id, {"decision": "maybe"})
        assert isinstance(wrong, NotAnswered) and wrong.failure.code == "ANSWER_INVALID"
        answers = await asyncio.gather(
            holdfast.interrupts.answer(LOCAL, asked.id, {"decision": "approve"}),
            holdfast.interrupts.answer(LOCAL, asked.id, {"decision": "deny"}),
        )
        (taken,) = [answer for answer in answers if isinstance(answer, Interrupt)]
        (refused,) = [answer for answer in answers if isinstance(answer, NotAnswered)]
        assert refused.failure.code == "INTERRUPT_NOT_OPEN" and refused.winner == "user:local"
        await ended(holdfast, run)
        acted = [event for event in await events_until(holdfast, run) if event.type == "runtime.tool.invoked"]
        assert taken.answer is not None
        assert len(acted) == (1 if taken.answer["decision"] == "approve" else 0)


@pytest.mark.requirement("G9")
async def test_a_denied_call_records_no_invocation_and_the_model_sees_the_denial(
    settings: Settings, space: Path
) -> None:
    async with opened(settings, space) as holdfast:
        run = await submit(holdfast, "assistant", "publish it now")
        asked = await waiting(holdfast, run)
        await holdfast.interrupts.answer(LOCAL, asked.id, {"decision": "deny", "reason": "not today"})
        events = await events_until(holdfast, run)
        assert not [event for event in events if event.type == "runtime.tool.invoked"]
        (result,) = [event.payload for event in events if event.type == "runtime.tool.resulted"]
        assert result["ok"] is False and result["error"]["code"] == "APPROVAL_DENIED"


@pytest.mark.requirement("G9", "G5")
async def test_an_answer_after_a_restart_resumes_the_run(settings: Settings, space: Path) -> None:
    async with opened(settings, space) as holdfast:
        run = await submit(holdfast, "assistant", "publish it now")
        asked = await waiting(holdfast, run)
    async with opened(settings, space) as holdfast:
        assert isinstance(await holdfast.interrupts.answer(LOCAL, asked.id, {"decision": "approve"}), Interrupt)
        assert (await ended(holdfast, run)).output == "It has been published."


async def left_behind(
    settings: Settings, space: Path, tool: Effect, key: str, *, intent: bool, request_hash: str | None = None,
    output: JsonObject | None = None,
) -> Run:  # fmt: skip
    """The log as a crash leaves it: the model has asked for a tool, and perhaps the tool was begun."""
    async with opened(settings, space) as holdfast:
        word = {"readonly": "read", "keyed": "keep", "unsafe": "dare"}[tool]
        probe = await submit(holdfast, "worker", f"{word} please")
        # What a worker asks for does not depend on the run, so the hash of a real request serves the made-up one.
        events = await events_until(holdfast, probe)
        (first, *_) = [event.payload for event in events if event.type == "runtime.model.requested"]
        scope = Scope("default", new_id("thread"), new_id("run"))
        digest = holdfast.workspace.current.digest
        queued = request.RequestQueued(agent="worker", input=f"{word} please", workspace_digest=digest)
        call = ToolCallValue(id="call_cut", name=tool, args={"key": key})
        answered = ModelCompleted(
            message_id="msg_cut", model="script", provider="scripted", text="", tool_calls=[call],
            finish_reason="tool_use", usage=Usage(), request_hash=request_hash or first["requestHash"],
        )  # fmt: skip
        begun = ToolInvoked(call_id="call_cut", tool=tool, arguments={"key": key}, argument_hash="h", effect=tool)
        started = request.RequestStarted(executor="dead", epoch=1)
        left = [thread.ThreadCreated(), queued, started, answered, *([begun] if intent else [])]
        await holdfast.executor.drain(0)
        assert isinstance(await holdfast.store.recorder.record(scope, *left), Appended)
        if output is not None:
            blobs = Blobs(holdfast.store.database)
            blob = await blobs.put("default", scope.thread_id, json.canonical(output), "application/json")
            shown = {"excerpt": "the beginning", "truncated": True, "$blob": blob}
            resulted = ToolResulted(call_id="call_cut", tool=tool, ok=True, output=shown, truncated=True)
            assert isinstance(await holdfast.store.recorder.record(scope, resulted), Appended)
        run = await holdfast.store.reader.run("default", scope.run_id or "")
        assert run is not None
        return run


@pytest.mark.requirement("G4")
@pytest.mark.parametrize(("output", "said"), [({"done": "x" * 20_000}, "read some of it"), ({"gone": 1}, "read")])
async def test_a_large_result_that_was_recorded_is_judged_by_what_was_stored_and_not_by_its_excerpt(
    settings: Settings, space: Path, tmp_path: Path, output: JsonObject, said: str
) -> None:
    run = await left_behind(settings, space, "readonly", "a", intent=True, output=output)
    before = effects(tmp_path)
    async with opened(settings, space) as holdfast:
        over = await ended(holdfast, run)
        assert (over.status, over.output) == ("completed", said)
        assert effects(tmp_path) == before


@pytest.mark.requirement("G4", "PX-2")
@pytest.mark.parametrize("tool", ["readonly", "keyed"])
async def test_a_harmless_call_that_was_cut_off_is_repeated_with_the_same_key(
    settings: Settings, space: Path, tmp_path: Path, tool: Effect
) -> None:
    run = await left_behind(settings, space, tool, "b", intent=True)
    before = effects(tmp_path)
    async with opened(settings, space) as holdfast:
        events = await events_until(holdfast, run)
        attempts = [e.payload["attempt"] for e in events if e.type == "runtime.tool.invoked"]
        assert attempts == [1, 2] and len(effects(tmp_path)) == len(before) + 1
        keys = {e.payload.get("idempotencyKey") for e in events if e.type == "runtime.tool.invoked"} - {None}
        assert len(keys) == (1 if tool == "keyed" else 0)
        assert [e.type for e in events].count("runtime.model.completed") == 2, "the recorded answer is not asked again"
        assert (await ended(holdfast, run)).status == "completed"


@pytest.mark.requirement("G4")
@pytest.mark.parametrize(
    ("answer", "status", "acted"),
    [({"decision": "retry"}, "completed", 1), ({"decision": "use", "output": {"done": "c"}}, "completed", 0),
     ({"decision": "fail"}, "failed", 0)],
)  # fmt: skip
async def test_an_unsafe_call_that_was_cut_off_is_never_repeated_without_an_operator(
    settings: Settings, space: Path, tmp_path: Path, answer: dict[str, Any], status: str, acted: int
) -> None:
    run = await left_behind(settings, space, "unsafe", "c", intent=True)
    before = len(effects(tmp_path))
    async with opened(settings, space) as holdfast:
        asked = await waiting(holdfast, run)
        assert asked.kind == "recovery" and len(effects(tmp_path)) == before
        assert isinstance(await holdfast.interrupts.answer(LOCAL, asked.id, answer), Interrupt)
        assert (await ended(holdfast, run)).status == status
        assert len(effects(tmp_path)) == before + acted


@pytest.mark.requirement("G5")
async def test_a_resumed_run_asks_anew_what_the_record_does_not_answer(settings: Settings, space: Path) -> None:
    run = await left_behind(settings, space, "keyed", "b", intent=False, request_hash="0" * 64)
    async with opened(settings, space) as holdfast:
        over, events = await ended(holdfast, run), await events_until(holdfast, run)
        assert over.status == "completed"
        invoked = [event.payload["callId"] for event in events if event.type == "runtime.tool.invoked"]
        assert invoked and "call_cut" not in invoked, "the call of the answer that nobody asked for is not made"


async def test_turns_are_bounded(settings: Settings, space: Path) -> None:
    async with opened(settings, space) as holdfast:
        run = await ended(holdfast, await submit(holdfast, "worker", "forever"))
        assert run.error is not None and run.error["code"] == "MAX_TURNS"


@pytest.mark.requirement("G8")
async def test_cancel_ends_a_run_in_the_middle_of_its_answer(settings: Settings, space: Path) -> None:
    async with opened(settings, space) as holdfast:
        run = await submit(holdfast, "worker", "slowly")
        await events_until(holdfast, run, "runtime.model.requested")
        asked = await holdfast.lifecycle.cancel(LOCAL, run.id)
        assert not isinstance(asked, Rejected)
        over = await ended(holdfast, run)
        assert over.status == "cancelled" and over.cancel_requested_at is not None
        again = await holdfast.lifecycle.cancel(LOCAL, run.id)
        assert not isinstance(again, Rejected) and again.status == "cancelled"


class Asking:
    """A backend that asks a person; called again, it asks the same."""

    kind = "echo"
    resume: Resume = "replay"

    async def run(self, ctx: Context) -> str:
        answers = await ctx.ask("Which way?", [{"id": "way", "question": "Left or right?"}])
        return f"going {answers['way']}"


@pytest.mark.requirement("HK-25")
async def test_a_question_waits_for_its_answer_and_costs_no_worker(settings: Settings, space: Path) -> None:
    async with opened(settings, space, backends={"echo": Asking()}) as holdfast:
        run = await submit(holdfast, "echo", "go")
        asked = await waiting(holdfast, run)
        await asyncio.wait_for(holdfast.executor.idle(), 30)
        await holdfast.interrupts.answer(LOCAL, asked.id, {"answers": {"way": "left"}})
        assert (await ended(holdfast, run)).output == "going left"


class Tomorrow:
    """Two days ahead: everything open has expired."""

    def now_ms(self) -> int:
        import time

        return time.time_ns() // 1_000_000 + 2 * 86_400_000

    def monotonic(self) -> float:
        import time

        return time.monotonic()


@pytest.mark.requirement("G9", "G18")
async def test_an_approval_that_nobody_gives_expires_into_a_denial(settings: Settings, space: Path) -> None:
    async with opened(settings, space) as holdfast:
        run = await submit(holdfast, "assistant", "publish it now")
        asked = await waiting(holdfast, run)
    async with opened(settings, space, clock=Tomorrow()) as holdfast:
        events = await events_until(holdfast, run)
        late = await holdfast.interrupts.answer(LOCAL, asked.id, {"decision": "approve"})
        assert isinstance(late, NotAnswered) and late.failure.code == "INTERRUPT_NOT_OPEN"
        (result,) = [event.payload for event in events if event.type == "runtime.tool.resulted"]
        assert result["error"]["code"] == "APPROVAL_DENIED"


@pytest.mark.requirement("G21", "HK-32")
async def test_the_values_of_a_workspace_s_secrets_and_its_kinds_of_personal_data_are_never_stored(
    settings: Settings, space: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "correct horse battery")
    runtime = (space / "runtime.yaml").read_text()
    assert "OPENAI_API_KEY" in runtime
    (space / "runtime.yaml").write_text(runtime.replace("kinds: [secret]", "kinds: [secret, email]"))
    async with opened(settings, space) as holdfast:
        run = await submit(holdfast, "echo", "say correct horse battery to me@example.org")
        assert (await ended(holdfast, run)).output == "say [REDACTED:secret] to [REDACTED:email]"
        events = await holdfast.store.reader.events("default", run.thread_id, 0, 100)
        assert not [e for e in events if b"horse" in e.payload_bytes or b"me@" in e.payload_bytes]


@pytest.mark.requirement("PX-8", "HK-6")
async def test_a_run_that_would_spend_more_than_its_budget_fails_before_the_call(
    settings: Settings, space: Path
) -> None:
    (space / "models" / "script.yaml").write_text(MODEL.replace("maxTurns: 3", "maxTurns: 3, limits: {modelCalls: 1}"))
    async with opened(settings, space) as holdfast:
        run = await submit(holdfast, "worker", "read please")
        asked = [event for event in await events_until(holdfast, run) if event.type == "runtime.model.requested"]
        over = await ended(holdfast, run)
        assert over.error is not None and over.error["code"] == "BUDGET_EXCEEDED" and len(asked) == 1


@pytest.mark.requirement("PX-8")
async def test_a_tenant_s_day_is_shared_by_its_runs(settings: Settings, space: Path) -> None:
    runtime = (space / "runtime.yaml").read_text()
    daily = runtime.replace("  budgets:\n", "  budgets:\n    tenant: {tokensPerDay: 4000}\n")
    (space / "runtime.yaml").write_text(daily)
    limited = MODEL.replace("maxTurns: 3", "maxTurns: 3, parameters: {maxTokens: 1500}")
    (space / "models" / "script.yaml").write_text(limited)
    async with opened(settings, space) as holdfast:
        # Two may be under way at once, a third would reach over the day's limit.
        runs = [await submit(holdfast, "worker", "slowly") for _ in range(2)]
        for run in runs:
            await events_until(holdfast, run, "runtime.model.requested")
        refused = await ended(holdfast, await submit(holdfast, "worker", "hello"))
        assert refused.error is not None and refused.error["code"] == "BUDGET_EXCEEDED"
        for run in runs:
            await holdfast.lifecycle.cancel(LOCAL, run.id)
            await ended(holdfast, run)
        assert (await ended(holdfast, await submit(holdfast, "worker", "hello"))).status == "completed"
