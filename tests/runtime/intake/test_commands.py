"""People and programs that reach into a run, and what its request may ask for; on both databases."""

from pathlib import Path
from typing import Any

import pytest

from app.core.principal import LOCAL
from app.core.settings import Settings
from app.runtime.intake.interrupts import NotAnswered
from app.runtime.intake.rejection import Rejected
from app.runtime.intake.reruns import RerunRequest
from app.runtime.intake.submission import Submission
from app.views.replay_token import ReplayToken
from app.views.run import Run
from app.wiring.runtime import Holdfast
from tests.runs import ended, events_until, opened, submit
from tests.waiting import until

SPACE = """
apiVersion: holdfast/v1
kind: Runtime
metadata: {name: runtime}
spec: {defaultAgent: worker}
---
apiVersion: holdfast/v1
kind: Tool
metadata: {name: gate}
spec:
  kind: python
  entry: gate:wait
  effect: keyed
  timeoutSeconds: 60
  input: {type: object, properties: {}}
  output: {type: string}
---
apiVersion: holdfast/v1
kind: Tool
metadata: {name: echo}
spec:
  kind: builtin
  effect: readonly
  input: {type: object, properties: {text: {type: string}}, required: [text]}
  output: {type: object, properties: {text: {type: string}}, required: [text]}
---
apiVersion: holdfast/v1
kind: Model
metadata: {name: script}
spec:
  provider: scripted
  model: script
  capabilities: {streaming: true, tools: true, parallelTools: true}
  script:
    rules:
      - {match: {contains: "be quick"}, reply: {text: "quickly"}}
      - {match: {system: "be kind"}, reply: {text: "kindly"}}
      - {match: {afterTool: helper}, reply: {text: "helped: {{ toolResult }}"}}
      - {match: {afterTool: gate}, reply: {text: "passed"}}
      - {match: {afterTool: lookup}, reply: {text: "the client says {{ toolResult }}"}}
      - {match: {afterTool: both}, reply: {text: "both"}}
      - {match: {contains: delegate}, reply: {toolCalls: [{name: helper, args: {input: "pass the gate"}}]}}
      - {match: {contains: gate}, reply: {toolCalls: [{name: gate}]}}
      - match: {contains: "look up"}
        reply: {toolCalls: [{name: lookup, args: {key: a}}, {name: lookup, args: {key: b}}]}
      - {match: {contains: wrong}, reply: {toolCalls: [{name: echo, args: {}}]}}
      - {match: {system: "refused"}, reply: {toolCalls: [{name: echo, args: {text: mended}}]}}
      - {match: {contains: slowly}, reply: {chunks: ["one ", "two"], chunkDelaySeconds: 50}}
    default: {text: "You said: {{ input }}"}
---
apiVersion: holdfast/v1
kind: Model
metadata: {name: other}
spec:
  provider: scripted
  model: other
  capabilities: {tools: true, parallelTools: true}
  script: {default: {text: "from another model"}}
---
apiVersion: holdfast/v1
kind: Agent
metadata: {name: worker}
spec: {model: script, tools: [gate, echo], subagents: [helper], clientTools: true, maxTurns: 4}
---
apiVersion: holdfast/v1
kind: Agent
metadata: {name: helper, description: "Helps."}
spec: {model: script, tools: [gate]}
---
apiVersion: holdfast/v1
kind: Agent
metadata: {name: prover}
spec: {model: script, tools: [gate, echo], evidence: [gate]}
"""

GATE = """
import asyncio
from pathlib import Path

async def wait(ctx) -> str:
    \"\"\"Returns when the test opens the gate.\"\"\"
    folder = Path({folder!r})
    (folder / "begun").write_text(ctx.run_id)
    while not (folder / "open").exists():
        await asyncio.sleep(0.01)
    return "open"
"""

LOOKUP = {"name": "lookup", "description": "", "input": {"type": "object", "properties": {"key": {"type": "string"}}}}


@pytest.fixture
def space(tmp_path: Path) -> Path:
    root = tmp_path / "workspace"
    root.mkdir()
    (root / "all.yaml").write_text(SPACE)
    (root / "gate.py").write_text(GATE.format(folder=str(tmp_path)))
    return root


async def begun(tmp_path: Path) -> None:
    await until((tmp_path / "begun").exists, seconds=30)


async def command(holdfast: Holdfast, run: Run, name: str, **arguments: Any) -> None:
    answer = await holdfast.commands.inject(LOCAL, run.id, name, arguments)
    assert isinstance(answer, Run), answer


@pytest.mark.requirement("HK-26")
@pytest.mark.parametrize(("said", "answer"), [({"message": "be quick"}, "quickly"), ({"hint": "be kind"}, "kindly")])
async def test_a_run_takes_up_steering_at_its_next_step(
    settings: Settings, space: Path, tmp_path: Path, said: dict[str, str], answer: str
) -> None:
    async with opened(settings, space) as holdfast:
        run = await submit(holdfast, "worker", "pass the gate")
        await begun(tmp_path)
        await command(holdfast, run, "steer", **said)
        (tmp_path / "open").touch()
        assert (await ended(holdfast, run)).output == answer
        taken = [e for e in await events_until(holdfast, run) if e.type == "runtime.step.completed"]
        assert [injected["arguments"] for e in taken for injected in e.payload["result"]] == [said]


@pytest.mark.requirement("HK-5", "HK-26")
async def test_a_run_goes_on_with_another_model_and_other_limits(
    settings: Settings, space: Path, tmp_path: Path
) -> None:
    async with opened(settings, space) as holdfast:
        run = await submit(holdfast, "worker", "pass the gate", limits={"toolCalls": 1})
        await begun(tmp_path)
        await command(holdfast, run, "switch_model_plan", model="other")
        await command(holdfast, run, "set_limits", modelCalls=2)
        (tmp_path / "open").touch()
        assert (await ended(holdfast, run)).output == "from another model"


@pytest.mark.requirement("HK-26")
async def test_a_pause_takes_effect_before_the_next_step_and_survives_a_restart(
    settings: Settings, space: Path, tmp_path: Path
) -> None:
    async with opened(settings, space) as holdfast:
        run = await submit(holdfast, "worker", "pass the gate")
        await begun(tmp_path)
        await command(holdfast, run, "pause")
        (tmp_path / "open").touch()
        raised = (await events_until(holdfast, run, "runtime.interrupt.raised"))[-1]
        assert raised.payload["kind"] == "paused"
    async with opened(settings, space) as holdfast:
        await command(holdfast, run, "resume")
        assert (await ended(holdfast, run)).output == "passed"
        invoked = [e for e in await events_until(holdfast, run) if e.type == "runtime.tool.invoked"]
        assert len(invoked) == 1


async def test_a_pause_that_is_withdrawn_in_time_stops_nothing(settings: Settings, space: Path, tmp_path: Path) -> None:
    async with opened(settings, space) as holdfast:
        run = await submit(holdfast, "worker", "pass the gate")
        await begun(tmp_path)
        await command(holdfast, run, "pause")
        await command(holdfast, run, "resume")
        (tmp_path / "open").touch()
        assert (await ended(holdfast, run)).output == "passed"


async def test_a_checkpoint_names_a_point_of_the_log(settings: Settings, space: Path, tmp_path: Path) -> None:
    async with opened(settings, space) as holdfast:
        run = await submit(holdfast, "worker", "pass the gate")
        await begun(tmp_path)
        await command(holdfast, run, "checkpoint", label="before", data={"why": "test"})
        (tmp_path / "open").touch()
        made = [e for e in await events_until(holdfast, run) if e.type == "runtime.checkpoint.created"]
        assert [e.payload for e in made] == [{"label": "before", "data": {"why": "test"}}]


@pytest.mark.parametrize(
    ("name", "arguments", "code"),
    [
        ("steer", {}, "COMMAND_INVALID"),
        ("steer", {"message": "a", "hint": "b"}, "COMMAND_INVALID"),
        ("fly", {}, "COMMAND_INVALID"),
        ("cancel", {}, "COMMAND_INVALID"),
        ("set_limits", {"patience": 3}, "LIMITS_INVALID"),
        ("switch_model_plan", {"model": "nobody"}, "MODEL_NOT_FOUND"),
        ("steer", {"message": "late"}, "RUN_TERMINAL"),
    ],
)
async def test_a_command_that_makes_no_sense_leaves_no_trace(
    settings: Settings, space: Path, name: str, arguments: dict[str, Any], code: str
) -> None:
    async with opened(settings, space) as holdfast:
        run = await ended(holdfast, await submit(holdfast, "worker", "hello"))
        refused = await holdfast.commands.inject(LOCAL, run.id, name, arguments)
        assert isinstance(refused, Rejected) and refused.failure.code == code
        after = await holdfast.store.reader.run("default", run.id)
        assert after is not None and after.last_seq == run.last_seq


@pytest.mark.requirement("SH-4")
async def test_a_subagent_works_on_its_parent_s_thread_and_its_answer_is_the_tool_s(
    settings: Settings, space: Path, tmp_path: Path
) -> None:
    (tmp_path / "open").touch()
    async with opened(settings, space) as holdfast:
        run = await ended(holdfast, await submit(holdfast, "worker", "delegate this"))
        assert run.output == "helped: passed"
        (child,) = [r for r in await _runs(holdfast, run.thread_id) if r.parent_run_id == run.id]
        assert (child.agent, child.status, child.output) == ("helper", "completed", "passed")


@pytest.mark.requirement("G5", "PX-2")
async def test_a_subagent_goes_on_where_it_was_after_its_server_died(
    settings: Settings, space: Path, tmp_path: Path
) -> None:
    async with opened(settings, space) as holdfast:
        run = await submit(holdfast, "worker", "delegate this")
        await begun(tmp_path)
        holdfast.executor.draining = True
        for held in list(holdfast.executor._held.values()):
            held.task.cancel()
        await holdfast.executor.idle()
        await holdfast.store.leases.expire_all()
    (tmp_path / "open").touch()
    async with opened(settings, space) as holdfast:
        assert (await ended(holdfast, run)).output == "helped: passed"
        children = [r for r in await _runs(holdfast, run.thread_id) if r.parent_run_id == run.id]
        assert [child.status for child in children] == ["completed"]


@pytest.mark.requirement("G8")
async def test_a_cancelled_run_takes_its_subagents_with_it(settings: Settings, space: Path, tmp_path: Path) -> None:
    async with opened(settings, space) as holdfast:
        run = await submit(holdfast, "worker", "delegate this")
        await begun(tmp_path)
        await holdfast.lifecycle.cancel(LOCAL, run.id)
        (tmp_path / "open").touch()
        assert (await ended(holdfast, run)).status == "cancelled"
        assert {r.status for r in await _runs(holdfast, run.thread_id)} == {"cancelled"}


@pytest.mark.requirement("CM-4", "HK-35")
async def test_calls_of_the_client_s_tools_wait_for_its_answers(settings: Settings, space: Path) -> None:
    async with opened(settings, space) as holdfast:
        run = await submit(holdfast, "worker", "look up two things", client_tools=[LOOKUP])
        await events_until(holdfast, run, "runtime.interrupt.raised")
        await holdfast.executor.idle()
        waiting = await holdfast.store.reader.interrupts("default", thread_id=run.thread_id, status="open")
        waiting.sort(key=lambda asked: str(asked.arguments["key"]))  # calls of one answer are made in parallel
        assert [(i.kind, i.tool, i.arguments) for i in waiting] == [
            ("external", "lookup", {"key": "a"}),
            ("external", "lookup", {"key": "b"}),
        ]
        for asked in waiting:
            answer = await holdfast.interrupts.answer(LOCAL, asked.id, {"output": f"value of {asked.arguments['key']}"})
            assert not isinstance(answer, NotAnswered)
        assert (await ended(holdfast, run)).output == "the client says value of b"


@pytest.mark.parametrize(
    ("agent", "tools"),
    [
        ("helper", [LOOKUP]),
        ("worker", [{**LOOKUP, "name": "echo"}]),
        ("worker", [{**LOOKUP, "name": "helper"}]),
        ("worker", [LOOKUP, LOOKUP]),
        ("worker", [{**LOOKUP, "input": {"type": "nonsense"}}]),
        ("worker", [{**LOOKUP, "name": "no spaces"}]),
    ],
)
async def test_client_tools_need_an_agent_that_takes_them_and_a_free_name(
    settings: Settings, space: Path, agent: str, tools: list[dict[str, Any]]
) -> None:
    async with opened(settings, space) as holdfast:
        refused = await holdfast.service.submit(LOCAL, Submission(agent, "hello", client_tools=tools))
        assert isinstance(refused, Rejected) and refused.failure.code == "CLIENT_TOOLS_REFUSED"


@pytest.mark.requirement("SH-20")
async def test_a_tool_can_be_run_directly_through_the_same_gate(settings: Settings, space: Path) -> None:
    async with opened(settings, space) as holdfast:
        run = await submit(holdfast, None, {"text": "hi"}, tool="echo")
        events = [e.type.removeprefix("runtime.") for e in await events_until(holdfast, run)]
        assert events == [
            "request.queued", "request.started", "tool.direct.started", "tool.invoked", "tool.resulted",
            "tool.direct.completed", "request.completed",
        ]  # fmt: skip
        refused = await ended(holdfast, await submit(holdfast, None, {"wrong": 1}, tool="echo"))
        assert refused.error is not None and refused.error["code"] == "INVALID_ARGUMENTS"


@pytest.mark.requirement("SH-21")
async def test_an_answer_without_its_evidence_fails_the_run_and_names_what_is_missing(
    settings: Settings, space: Path, tmp_path: Path
) -> None:
    (tmp_path / "open").touch()
    async with opened(settings, space) as holdfast:
        run = await submit(holdfast, "prover", "hello")
        payloads = {e.type: e.payload for e in await events_until(holdfast, run)}
        assert payloads["runtime.execution.contract.failed"]["missingEvidenceTools"] == ["gate"]
        assert payloads["runtime.request.failed"]["error"]["code"] == "EVIDENCE_MISSING"
        assert (await ended(holdfast, await submit(holdfast, "prover", "pass the gate"))).output == "passed"


@pytest.mark.requirement("PX-8")
@pytest.mark.parametrize(
    ("text", "limits", "budget"),
    [
        ("pass the gate", {"toolCalls": 1, "modelCalls": 1}, "model_calls"),
        ("look up", {"toolCalls": 1}, "tool_calls"),
        ("slowly", {"wallSeconds": 0.2}, "wall_time"),
        ("hello", {"tokens": 1}, "tokens"),
    ],
)
async def test_a_used_up_budget_is_recorded_and_ends_the_run(
    settings: Settings, space: Path, tmp_path: Path, text: str, limits: dict[str, float], budget: str
) -> None:
    (tmp_path / "open").touch()
    async with opened(settings, space) as holdfast:
        run = await submit(holdfast, "worker", text, limits=limits, client_tools=[LOOKUP])
        payloads = {e.type: e.payload for e in await events_until(holdfast, run)}
        exceeded = payloads["runtime.budget.exceeded"]
        assert (exceeded["budget"], exceeded["limit"]) == (budget, [*limits.values()][-1])
        assert payloads["runtime.request.failed"]["error"]["code"] == "BUDGET_EXCEEDED"


@pytest.mark.requirement("SH-12")
async def test_a_model_may_mend_a_call_that_the_guard_refused(settings: Settings, space: Path) -> None:
    async with opened(settings, space) as holdfast:
        run = await submit(holdfast, "worker", "wrong")
        events = [
            e for e in await events_until(holdfast, run) if e.type in ("runtime.tool.guarded", "runtime.tool.invoked")
        ]
        assert [e.payload.get("outcome") for e in events][:1] == ["repaired"]
        assert events[1].payload["arguments"] == {"text": "mended"}


@pytest.mark.requirement("G8")
@pytest.mark.parametrize("busy", ["interrupt", "rollback"])
async def test_a_run_that_takes_another_s_place_cancels_it_in_the_commit_that_accepts_it(
    settings: Settings, space: Path, tmp_path: Path, busy: Any
) -> None:
    async with opened(settings, space) as holdfast:
        first = await submit(holdfast, "worker", "pass the gate")
        queued = await submit(holdfast, "worker", "never begun", thread_id=first.thread_id)
        await begun(tmp_path)
        second = await submit(holdfast, "worker", "hello", thread_id=first.thread_id, busy=busy)
        (tmp_path / "open").touch()
        assert (await ended(holdfast, first)).status == "cancelled"
        assert (await ended(holdfast, queued)).status == "cancelled"
        (asked,) = [e for e in await events_until(holdfast, second) if e.type == "runtime.model.requested"]
        messages = [(m["role"], m["content"]) for m in asked.payload["messages"]]
        assert messages[-1] == ("user", "hello")
        assert (("user", "pass the gate") in messages) is (busy == "interrupt")
        if busy == "interrupt":  # what was begun is sent, and its open call is closed
            assert [role for role, _ in messages] == ["user", "user", "assistant", "tool", "user"]


async def test_a_new_thread_can_begin_with_a_history(settings: Settings, space: Path) -> None:
    said = [{"role": "user", "content": "I am Ann"}, {"role": "assistant", "content": "Hello Ann"}]
    async with opened(settings, space) as holdfast:
        run = await submit(holdfast, "worker", "who am I?", history=said, instructions="Be brief.")
        (asked,) = [e for e in await events_until(holdfast, run) if e.type == "runtime.model.requested"]
        assert [m["content"] for m in asked.payload["messages"]] == ["Be brief.", "I am Ann", "Hello Ann", "who am I?"]


async def test_an_input_too_large_for_its_event_reaches_the_model_whole(settings: Settings, space: Path) -> None:
    text = "x" * 40_000
    async with opened(settings, space) as holdfast:
        run = await submit(holdfast, "worker", text)
        done = await events_until(holdfast, run)
        assert "$blob" in done[0].payload["input"]
        found = done[-1].payload["output"]["$blob"]
        assert found["size"] == len("You said: ") + len(text)


async def _runs(holdfast: Holdfast, thread_id: str) -> list[Run]:
    return await holdfast.store.reader.runs("default", thread_id=thread_id, status=None, before=None, limit=50)


@pytest.mark.requirement("HK-27")
async def test_a_strict_rerun_repeats_the_run_and_a_changed_workspace_refuses_it(
    settings: Settings, space: Path, tmp_path: Path
) -> None:
    (tmp_path / "open").touch()
    async with opened(settings, space) as holdfast:
        first = await ended(holdfast, await submit(holdfast, "worker", "hello"))
        run = await ended(holdfast, await submit(holdfast, "worker", "pass the gate", thread_id=first.thread_id))
        token = await holdfast.reruns.token(LOCAL, run.id)
        assert isinstance(token, ReplayToken)
        signed = holdfast.reruns.sign(token)
        again = await holdfast.reruns.rerun(LOCAL, run.id, RerunRequest(token=signed))
        assert isinstance(again, Run) and again.rerun_of == run.id and again.thread_id != run.thread_id
        assert (await ended(holdfast, again)).output == "passed"
        repeated = await holdfast.reruns.token(LOCAL, again.id)
        assert isinstance(repeated, ReplayToken)
        assert (repeated.prompt, repeated.tools, repeated.provider) == (token.prompt, token.tools, token.provider)
    (space / "all.yaml").write_text(SPACE.replace("model: other", "model: newer"))
    async with opened(settings, space) as holdfast:
        refused = await holdfast.reruns.rerun(LOCAL, run.id, RerunRequest(token=signed))
        assert isinstance(refused, Rejected) and refused.failure.detail == {"mismatches": ["runtime"]}
        recorded = await holdfast.reruns.rerun(LOCAL, run.id, RerunRequest("recorded", signed))
        assert isinstance(recorded, Run) and (await ended(holdfast, recorded)).output == "passed"
        compat = await holdfast.reruns.rerun(LOCAL, run.id, RerunRequest(token=signed, mode="compat"))
        assert isinstance(compat, Run) and (await ended(holdfast, compat)).output == "passed"
        other = await holdfast.reruns.rerun(LOCAL, first.id, RerunRequest(token=signed))
        assert isinstance(other, Rejected) and other.failure.code == "REPLAY_TOKEN_INVALID"


@pytest.mark.requirement("HK-27")
async def test_a_strict_rerun_ends_before_a_tool_call_that_was_not_recorded(
    settings: Settings, space: Path, tmp_path: Path
) -> None:
    (tmp_path / "open").touch()
    async with opened(settings, space) as holdfast:
        replay: dict[str, Any] = {"prompt": None, "calls": []}
        run = await ended(holdfast, await submit(holdfast, None, {"text": "hi"}, tool="echo", replay=replay))
        assert run.error is not None and run.error["code"] == "REPLAY_MISMATCH"
        invoked = [e for e in await events_until(holdfast, run) if e.type == "runtime.tool.invoked"]
        assert invoked == []
