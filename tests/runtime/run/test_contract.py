"""The backend contract on the real runtime: parallel branches, steps of the upstream, state, artifacts, the handoff."""

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from app.backends.contract import CallOptions, CallRequest, Context, ExtraTool, Output, Resume, StepFailed
from app.core.artifact import NewArtifact
from app.core.principal import LOCAL
from app.core.settings import Settings
from app.core.suspend import Suspended
from app.events.catalog.execution import StepCompleted
from app.events.catalog.request import RequestQueued
from app.events.catalog.tool import ToolInvoked, ToolResulted
from app.events.envelope import Event
from app.views.run import Run
from app.views.thread import Thread
from app.wiring.runtime import Holdfast
from tests.runs import ended, events_until, opened, payloads, submit, waiting
from tests.runtime.run.probing import Probe, answer, effects, open_interrupts, signals, with_native, write

CHANGING = """\
---
apiVersion: holdfast/v1
kind: Tool
metadata: {name: change}
spec:
  kind: python
  entry: changing:change
  effect: readonly
  input: {type: object, properties: {words: {type: array}}, required: [words]}
  output: {type: object}
"""
CHANGING_CODE = """\
def change(words: list) -> dict:
    words.append("b")
    return {"words": words}
"""


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings(data_dir=tmp_path / "data")


@pytest.fixture
def space(tmp_path: Path) -> Path:
    return write(tmp_path)


@pytest.mark.requirement("SH-2", "SH-4")
async def test_a_context_carries_workspace_agent_request_and_tools_with_schemas(
    settings: Settings, space: Path
) -> None:
    async def act(ctx: Context) -> str:
        assert ctx.workspace.agents["probe"] is ctx.definition and ctx.definition.description
        assert ctx.workspace.digest and ctx.config["word"] == "hello"
        request = ctx.request
        assert (request.run_id, request.thread_id, request.agent) == (ctx.run_id, ctx.thread_id, "probe")
        assert (dict(request.metadata), dict(request.labels)) == ({"a": 1}, {"b": "2"})
        assert [part["type"] for part in request.parts] == ["text"]
        with pytest.raises(TypeError):
            request.metadata["a"] = 2  # type: ignore[index]
        tools = ctx.tool_definitions
        assert set(tools) == set(ctx.tools) == {"note", "publish", "helper"}
        note = tools["note"]
        assert (note.description, note.effect) == ("Keeps a note.", "unsafe")
        assert note.input["required"] == ["what"] and note.output == {"type": "object"}
        assert tools["helper"].description == "Helps."
        return "seen"

    async with opened(settings, space, backends=with_native(Probe(act))) as holdfast:
        given = [{"type": "text", "text": "hello"}]
        run = await submit(holdfast, "probe", given, metadata={"a": 1}, labels={"b": "2"})
        assert (await ended(holdfast, run)).output == "seen"


@pytest.mark.requirement("SH-13", "SH-4")
async def test_every_run_is_handed_over_once(settings: Settings, space: Path) -> None:
    async def act(ctx: Context) -> str:
        await ctx.call_tools([CallRequest("c1", "publish", {"at": "home"})])
        answered = await ctx.call_agent("helper", "hello")
        return answered.text

    async with opened(settings, space, backends=with_native(Probe(act))) as holdfast:
        run = await submit(holdfast, "probe", "go")
        (asked,) = await open_interrupts(holdfast, run)
        await answer(holdfast, asked.id, {"decision": "approve"})
        events = await events_until(holdfast, run)
        (handoff,) = signals(events, "agent.handoff")
        assert handoff == {
            "adapter": "probe", "phase": "agent.handoff", "modelRef": "script",
            "tools": ["note", "publish"], "subagents": ["helper"],
        }  # fmt: skip
        whole = await holdfast.store.reader.events("default", run.thread_id, 0, 1000)
        handed = [event.run_id for event in whole if signals([event], "agent.handoff")]
        assert len(handed) == len(set(handed)) == 2
        subagent = await submit(holdfast, "helper", "hello")
        (again,) = signals(await events_until(holdfast, subagent), "agent.handoff")
        assert again["adapter"] == "native"


async def answered(holdfast: Holdfast, run: Run) -> Run:
    """The run after every question that it asks has its answer."""
    while True:
        for asked in await open_interrupts(holdfast, run):
            (question,) = asked.questions or [{}]
            await answer(holdfast, asked.id, {"answers": {question["id"]: question["id"].upper()}})
        await holdfast.executor.idle()
        over = await holdfast.store.reader.run("default", run.id)
        assert over is not None
        if over.terminal:
            return over


class FanOut:
    """Branches that come back in another order each time: model, tool, signal, checkpoint and question in each."""

    kind = "probe"
    resume: Resume = "replay"

    def __init__(self) -> None:
        self.entries = 0

    async def run(self, ctx: Context) -> str:
        self.entries += 1
        names = ["a", "b", "c"] if self.entries % 2 else ["c", "b", "a"]
        return " ".join(sorted(await asyncio.gather(*(self._branch(ctx, name) for name in names))))

    async def _branch(self, ctx: Context, name: str) -> str:
        await ctx.emit("agent.node.completed", node=name)
        said = await ctx.call_model([{"role": "user", "content": f"branch {name}"}])
        await ctx.checkpoint(f"after {name}")
        (made,) = await ctx.call_tools([CallRequest(f"note-{name}", "note", {"what": name})])
        assert made.output == {"kept": name, "of": {"deep": [1, 2]}}, made
        helped = await ctx.call_agent("helper", f"about {name}")
        answers = await ctx.ask("Which way?", [{"id": name, "question": f"Where to, {name}?"}])
        return f"{said.text}:{made.output['kept']}:{helped.text}:{answers[name]}"


@pytest.mark.requirement("PX-2", "G4", "G5", "SH-10")
async def test_branches_may_come_back_in_any_order_and_repeat_nothing(
    settings: Settings, space: Path, tmp_path: Path
) -> None:
    backend = FanOut()
    async with opened(settings, space, backends=with_native(backend)) as holdfast:
        run = await submit(holdfast, "probe", "go")
        assert await open_interrupts(holdfast, run)
    async with opened(settings, space, backends=with_native(backend)) as holdfast:
        over = await answered(holdfast, run)
        assert over.error is None
        assert over.output == " ".join(f"about branch {n}:{n}:about about {n}:{n.upper()}" for n in "abc")
        events = await events_until(holdfast, run)
    assert backend.entries > 1 and sorted(effects(tmp_path)) == ["a", "b", "c"]
    assert len(payloads(events, "model.completed")) == len(payloads(events, "checkpoint.created")) == 3
    assert sorted(it["node"] for it in signals(events, "agent.node.completed")) == ["a", "b", "c"]


@pytest.mark.requirement("G4", "G9")
async def test_a_call_that_suspends_lets_an_unsafe_sibling_end(settings: Settings, space: Path, tmp_path: Path) -> None:
    async def act(ctx: Context) -> str:
        one = ctx.call_tools([CallRequest("p", "publish", {"at": "home"})])
        other = ctx.call_tools([CallRequest("n", "note", {"what": "slow"})])
        try:
            results = await asyncio.gather(one, other)
        except Suspended:
            return "an upstream that swallows it"
        return " ".join(result.content for made in results for result in made)

    async with opened(settings, space, backends=with_native(Probe(act))) as holdfast:
        run = await submit(holdfast, "probe", "go")
        (asked,) = await open_interrupts(holdfast, run)
        assert asked.kind == "approval" and effects(tmp_path) == ["slow"]
        await answer(holdfast, asked.id, {"decision": "approve"})
        over = await ended(holdfast, run)
        assert over.output == 'page.txt 1 {"kept":"slow","of":{"deep":[1,2]}}'
        assert sorted(effects(tmp_path)) == ["published home", "slow"]


@pytest.mark.requirement("G4", "G9")
async def test_a_renewal_of_leases_does_not_cut_off_the_siblings_of_a_call_that_waits(
    settings: Settings, space: Path
) -> None:
    """The run gives its lease back with the question, while its other calls are still at work."""
    begun: list[str] = []
    at_work, go_on = asyncio.Event(), asyncio.Event()

    async def act(ctx: Context) -> str:
        async def work() -> str:
            begun.append("s")
            at_work.set()
            await go_on.wait()
            return "worked"

        publishing = ctx.call_tools([CallRequest("p", "publish", {"at": "home"})])
        worked, _ = await asyncio.gather(ctx.step("s", "unsafe", work, tool="theirs"), publishing)
        return str(worked)

    async with opened(settings, space, backends=with_native(Probe(act))) as holdfast:
        run = await submit(holdfast, "probe", "go")
        await waiting(holdfast, run)
        await asyncio.wait_for(at_work.wait(), 30)
        await holdfast.executor._renew_leases()
        go_on.set()
        (asked,) = await open_interrupts(holdfast, run)
        assert asked.kind == "approval", "nobody is asked about a step that was cut off"
        await answer(holdfast, asked.id, {"decision": "approve"})
        assert ((await ended(holdfast, run)).output, begun) == ("worked", ["s"])


@pytest.mark.requirement("PX-1")
async def test_what_a_backend_or_tool_does_with_what_it_got_does_not_change_what_clients_see(
    settings: Settings, tmp_path: Path
) -> None:
    """An event goes out to slow readers for as long as they take; its content stays what was stored."""
    space = write(tmp_path, CHANGING)
    documents = space / "workspace.yaml"
    documents.write_text(documents.read_text().replace("tools: [note, publish], sub", "tools: [change], sub"))
    (space / "changing.py").write_text(CHANGING_CODE)

    async def act(ctx: Context) -> str:
        assert isinstance(ctx.input, dict)
        ctx.input["words"].append("b")
        made = await ctx.step("s", "readonly", step, tool="theirs")
        made["words"].append("b")
        (used,) = await ctx.call_tools([CallRequest("c", "change", {"words": ["a"]})])
        assert used.output == {"words": ["a", "b"]}
        used.output["words"].append("c")
        return "done"

    async def step() -> dict[str, list[str]]:
        return {"words": ["a"]}

    published: dict[str, Any] = {}
    async with opened(settings, space, backends=with_native(Probe(act))) as holdfast:
        log, before = holdfast.store.log, holdfast.store.log.on_commit

        def committed(events: Sequence[Event], seconds: float) -> None:
            published.update({event.type: event.payload for event in events})
            before(events, seconds)

        log.on_commit = committed
        run = await ended(holdfast, await submit(holdfast, "probe", {"words": ["a"]}))
        assert run.output == "done", run.error
    assert published[RequestQueued.type]["input"] == {"words": ["a"]}
    assert published[StepCompleted.type]["result"]["output"] == {"words": ["a"]}
    assert published[ToolInvoked.type]["arguments"] == {"words": ["a"]}
    assert published[ToolResulted.type]["output"] == {"words": ["a", "b"]}


@pytest.mark.requirement("G4")
async def test_what_an_upstream_cancels_is_finished_and_recorded(
    settings: Settings, space: Path, tmp_path: Path
) -> None:
    async def act(ctx: Context) -> str:
        task = asyncio.create_task(ctx.call_tools([CallRequest("n", "note", {"what": "cancelled"})]))
        await asyncio.sleep(0.01)
        task.cancel()
        await asyncio.wait({task})
        return "gone on"

    async with opened(settings, space, backends=with_native(Probe(act))) as holdfast:
        run = await submit(holdfast, "probe", "go")
        events = await events_until(holdfast, run)
        assert [it["ok"] for it in payloads(events, "tool.resulted")] == [True]
        assert events[-1].payload["output"] == "gone on" and effects(tmp_path) == ["cancelled"]


@pytest.mark.requirement("G8")
async def test_a_cancel_that_an_upstream_swallows_still_ends_the_run(settings: Settings, space: Path) -> None:
    async def act(ctx: Context) -> str:
        await ctx.emit("agent.ready")
        try:
            await asyncio.sleep(30)
        except asyncio.CancelledError:
            return "never mind"
        return "too late"

    async with opened(settings, space, backends=with_native(Probe(act))) as holdfast:
        run = await submit(holdfast, "probe", "go")
        await events_until(holdfast, run, "runtime.adapter.event")
        await holdfast.lifecycle.cancel(LOCAL, run.id)
        assert (await ended(holdfast, run)).status == "cancelled"


class Stepper:
    """Runs tools of its own, and asks a person between them."""

    kind = "probe"
    resume: Resume = "replay"

    def __init__(self) -> None:
        self.ran: list[str] = []

    async def run(self, ctx: Context) -> str:
        extra = [ExtraTool("theirs", "Their own.", {"type": "object", "properties": {"n": {"type": "integer"}}})]
        said = await ctx.call_model([{"role": "user", "content": "use yours"}], CallOptions(extra_tools=extra))
        (call,) = said.calls

        async def work() -> dict[str, Any]:
            self.ran.append("work")
            return {"large": "x" * 20_000, "n": 1}

        async def broken() -> None:
            self.ran.append("broken")
            raise ValueError("no")

        made = await ctx.step(call.id, "unsafe", work, tool="theirs", args=call.args)
        try:
            await ctx.step("broken", "readonly", broken)
        except StepFailed as failed:
            problem = failed.failure
        await ctx.ask("Go on?", [{"id": "a", "question": "Really?"}], key="once")
        return f"{len(made['large'])} {problem.code}: {problem.message}"


@pytest.mark.requirement("SH-10", "SH-13", "G4")
async def test_a_step_of_the_upstream_is_recorded_and_never_run_again(settings: Settings, space: Path) -> None:
    backend = Stepper()
    async with opened(settings, space, backends=with_native(backend)) as holdfast:
        run = await submit(holdfast, "probe", "go")
        (asked,) = await open_interrupts(holdfast, run)
    async with opened(settings, space, backends=with_native(backend)) as holdfast:
        await answer(holdfast, asked.id, {"answers": {"a": "yes"}})
        over, events = await ended(holdfast, run), await events_until(holdfast, run)
        assert over.output == "20000 TOOL_FAILED: broken failed with ValueError: no"
        assert backend.ran == ["work", "broken"]
        starts, results = signals(events, "agent.tool.start"), signals(events, "agent.tool.result")
        assert [it["toolId"] for it in starts] == [it["toolId"] for it in results] == ["theirs", "broken"]
        assert starts[0]["args"] == {"n": 1} and "output" in results[0] and results[1]["error"]["code"] == "TOOL_FAILED"
        assert payloads(events, "model.requested")[0]["tools"] == ["helper", "note", "publish", "theirs"]
        # The next run is sent the result with the call.
        following = await submit(holdfast, "helper", "hello", run.thread_id)
        await ended(holdfast, following)
        page = await holdfast.store.reader.events("default", run.thread_id, 0, 1000)
        assert [e.payload["key"] for e in page if e.type == "runtime.step.completed"] == [starts[0]["callId"], "broken"]


@pytest.mark.requirement("G4")
@pytest.mark.parametrize(
    ("effect", "given", "ran"),
    [("unsafe", {"decision": "use", "output": "theirs"}, 1), ("unsafe", {"decision": "retry"}, 2), ("keyed", None, 2)],
)
async def test_a_step_that_was_cut_off_is_repeated_only_if_that_is_harmless(
    settings: Settings, space: Path, effect: Any, given: dict[str, Any] | None, ran: int
) -> None:
    entered: list[int] = []
    working = asyncio.Event()

    async def act(ctx: Context) -> str:
        async def work() -> str:
            entered.append(1)
            working.set()
            if len(entered) == 1:
                await asyncio.sleep(60)
            return "ours"

        return str(await ctx.step("s", effect, work, tool="theirs"))

    async with opened(settings, space, backends=with_native(Probe(act))) as holdfast:
        run = await submit(holdfast, "probe", "go")
        await asyncio.wait_for(working.wait(), 30)
        await holdfast.executor.drain(0)
    async with opened(settings, space, backends=with_native(Probe(act))) as holdfast:
        if given is not None:
            (asked,) = await open_interrupts(holdfast, run)
            assert (asked.kind, asked.tool) == ("recovery", "theirs")
            await answer(holdfast, asked.id, given)
        over = await ended(holdfast, run)
        assert (over.error, over.output) == (None, "theirs" if ran == 1 else "ours")
        assert len(entered) == ran


@pytest.mark.requirement("SH-4")
async def test_a_run_leaves_a_state_that_the_next_run_and_a_fork_get(settings: Settings, space: Path) -> None:
    async def act(ctx: Context) -> str:
        before = ctx.state
        count = 0 if before is None else before["count"]
        ctx.set_state({"count": count + 1, "large": "y" * (30_000 if ctx.input == "large" else 10)})
        return f"{count} {0 if before is None else len(before['large'])}"

    async with opened(settings, space, backends=with_native(Probe(act))) as holdfast:
        first = await ended(holdfast, await submit(holdfast, "probe", "small"))
        second = await ended(holdfast, await submit(holdfast, "probe", "large", first.thread_id))
        third = await ended(holdfast, await submit(holdfast, "probe", "small", first.thread_id))
        assert [run.output for run in (first, second, third)] == ["0 0", "1 10", "2 30000"]
        at = second.last_seq
        fork = await holdfast.threads.fork(LOCAL, first.thread_id, at)
        assert isinstance(fork, Thread)
        assert (await ended(holdfast, await submit(holdfast, "probe", "small", fork.id))).output == "2 30000"
        again = await holdfast.threads.fork(LOCAL, fork.id)
        assert isinstance(again, Thread)
        assert (await ended(holdfast, await submit(holdfast, "probe", "small", again.id))).output == "3 10"
        other = await submit(holdfast, "helper", "hello", first.thread_id)
        assert (await ended(holdfast, other)).status == "completed"
    async with opened(settings, space, backends=with_native(Probe(act))) as holdfast:
        assert (await ended(holdfast, await submit(holdfast, "probe", "small", first.thread_id))).output == "3 10"


@pytest.mark.requirement("SH-2", "SH-13", "HK-10")
async def test_backends_tools_and_answers_make_artifacts_once_and_in_versions(settings: Settings, space: Path) -> None:
    async def act(ctx: Context) -> Output:
        one = await ctx.artifact("page.txt", "text/plain", b"draft")
        (made,) = await ctx.call_tools([CallRequest("p", "publish", {"at": "home"})])
        two = NewArtifact("page.txt", "text/plain", b"final")
        return Output(made.content, artifacts=[one, two], parts=[{"type": "text", "text": "done"}])

    async with opened(settings, space, backends=with_native(Probe(act))) as holdfast:
        run = await submit(holdfast, "probe", "go")
        (asked,) = await open_interrupts(holdfast, run)
        await answer(holdfast, asked.id, {"decision": "approve"})
        over, events = await ended(holdfast, run), await events_until(holdfast, run)
        assert over.output == "page.txt 2"
        made = [it["artifact"] for it in payloads(events, "artifact.created")]
        assert [(it["name"], it["version"], it["size"]) for it in made] == [
            ("page.txt", 1, 5), ("page.txt", 2, 4), ("page.txt", 3, 5),
        ]  # fmt: skip
        assert [it.get("previous") for it in made] == [None, made[0]["id"], made[1]["id"]]
        assert events[-1].payload["artifacts"] == [made[0]["id"], made[2]["id"]]
        assert events[-1].payload["parts"] == [{"type": "text", "text": "done"}]
        stored = await holdfast.store.reader.blob("default", run.thread_id, made[1]["sha256"])
        assert stored == ("text/plain", b"home")
