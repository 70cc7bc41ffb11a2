"""The conformance suite of backends with a loop of their own, on the real runtime and both databases."""

from pathlib import Path
from typing import Any

import pytest

from app.core.ids import new_id
from app.core.principal import LOCAL
from app.core.settings import Settings
from app.events.catalog import request, thread
from app.events.envelope import Event
from app.events.ports import Appended, Draft
from app.events.recorder import Scope
from app.views.interrupt import Interrupt
from app.views.run import Run
from app.wiring.runtime import Holdfast
from tests.conformance.backends.loops import LOOPS, Loop, effects, write
from tests.runs import ended, events_until, opened, payloads, submit, waiting


@pytest.fixture(params=LOOPS, ids=lambda loop: loop.kind)
def loop(request: pytest.FixtureRequest) -> Loop:
    loop: Loop = request.param
    if not loop.installed:
        pytest.skip(f"the extra of {loop.kind} is not installed")
    return loop


@pytest.fixture
def root(tmp_path: Path, loop: Loop) -> Path:
    return write(tmp_path, loop)


async def asked(holdfast: Holdfast, run: Run) -> list[Interrupt]:
    """What the run waits for, after everything that it was doing has ended."""
    await waiting(holdfast, run)
    await holdfast.executor.idle()
    return await holdfast.store.reader.interrupts(
        "default", thread_id=run.thread_id, status="open", after="", limit=100
    )


async def approve(holdfast: Holdfast, interrupt: Interrupt) -> None:
    answer = {"decision": "retry"} if interrupt.kind == "recovery" else {"decision": "approve"}
    assert isinstance(await holdfast.interrupts.answer(LOCAL, interrupt.id, answer), Interrupt)


def is_repeated(events: list[Event], name: str) -> bool:
    calls = [payload["callId"] for payload in payloads(events, name)]
    return len(calls) != len(set(calls))


@pytest.mark.requirement("HK-1", "SH-2", "SH-13")
async def test_answers_tools_and_refused_calls(settings: Settings, root: Path, tmp_path: Path, loop: Loop) -> None:
    async with opened(settings, root) as holdfast:
        assert holdfast.backends[loop.kind].resume == loop.resume
        answer = await submit(holdfast, "loop", "just answer")
        tools = await submit(holdfast, "loop", "note one")
        foreign = await submit(holdfast, "loop", "a foreign one")
        assert [(await ended(holdfast, run)).output for run in (answer, tools, foreign)] == [
            "answered", "noted", "refused",
        ]  # fmt: skip
        assert effects(tmp_path) == ["one"]
        events = await events_until(holdfast, answer)
        said = "".join(
            it["event"].get("text", "")
            for it in payloads(events, "adapter.event")
            if it["event"]["phase"] == "agent.output.delta"
        )
        assert said == "answered", "every token is in the log"
        assert [event.type for event in events if event.type in request.TERMINAL] == [events[-1].type]
        (handoff,) = [
            it["event"] for it in payloads(events, "adapter.event") if it["event"]["phase"] == "agent.handoff"
        ]
        assert (handoff["adapter"], handoff["tools"], handoff["subagents"]) == (
            loop.kind, ["note", "publish"], ["helper"],
        )  # fmt: skip
        (refused,) = payloads(await events_until(holdfast, foreign), "tool.resulted")
        assert (refused["ok"], refused["error"]["code"]) == (False, "TOOL_NOT_ALLOWED")


@pytest.mark.requirement("G4", "G5", "G9", "PX-2")
async def test_an_approval_across_a_restart_has_one_effect(
    settings: Settings, root: Path, tmp_path: Path, loop: Loop
) -> None:
    async with opened(settings, root) as holdfast:
        run = await submit(holdfast, "loop", "publish it")
        (approval,) = await asked(holdfast, run)
        assert (approval.kind, approval.tool, effects(tmp_path)) == ("approval", "publish", [])
    async with opened(settings, root) as holdfast:
        await approve(holdfast, approval)
        over, events = await ended(holdfast, run), await events_until(holdfast, run)
        assert (over.status, over.output) == ("completed", "published")
        assert effects(tmp_path) == ["published home"]
        assert len(payloads(events, "model.completed")) == 2 and not is_repeated(events, "tool.resulted")


@pytest.mark.requirement("G4", "G9", "PX-2")
async def test_of_parallel_calls_one_waits_and_the_others_end(
    settings: Settings, root: Path, tmp_path: Path, loop: Loop
) -> None:
    async with opened(settings, root) as holdfast:
        run = await submit(holdfast, "loop", "all at once")
        (approval,) = await asked(holdfast, run)
        assert approval.kind == "approval" and effects(tmp_path) == ["a", "b"], "no sibling is cut off"
    async with opened(settings, root) as holdfast:
        await approve(holdfast, approval)
        over, events = await ended(holdfast, run), await events_until(holdfast, run)
        assert (over.error, over.output) == (None, "all done")
        assert effects(tmp_path) == ["a", "b", "published home"]
        assert len(payloads(events, "model.completed")) == 2 and not is_repeated(events, "tool.invoked")


@pytest.mark.requirement("G4", "G5", "S17", "PX-2")
async def test_a_fan_out_to_subagents_with_an_approval_inside_survives_a_restart(
    settings: Settings, root: Path, tmp_path: Path, loop: Loop
) -> None:
    async with opened(settings, root) as holdfast:
        run = await submit(holdfast, "loop", "ask the others")
        (approval,) = await asked(holdfast, run)
        assert approval.tool == "publish" and effects(tmp_path) == ["one"]
    async with opened(settings, root) as holdfast:
        await approve(holdfast, approval)
        over = await ended(holdfast, run)
        assert (over.error, over.output) == (None, "they did")
        assert effects(tmp_path) == ["one", "published home"]
        runs = await holdfast.store.reader.runs("default", thread_id=run.thread_id, status=None, before=None, limit=10)
        assert sorted((it.agent or "", it.status, it.output) for it in runs) == [
            ("helper", "completed", "noted"), ("helper", "completed", "published"), ("loop", "completed", "they did"),
        ]  # fmt: skip


@pytest.mark.requirement("S17", "G9")
async def test_a_subagent_uses_only_what_its_parent_has_or_passes_on(root: Path, tmp_path: Path) -> None:
    """The parents have `note`, the subagent declares `publish` as well, and its model calls both. On SQLite alone: what
    may be called does not depend on the database."""
    async with opened(Settings(data_dir=tmp_path / "data"), root) as holdfast:
        narrow = await submit(holdfast, "narrow", "ask the others")
        over = await ended(holdfast, narrow)
        assert (over.error, over.output, effects(tmp_path)) == (None, "they did", ["one"])
        events = await holdfast.store.reader.events("default", narrow.thread_id, 0, 1000)
        of_helpers = [event for event in events if event.run_id not in (None, narrow.id)]
        offered = [set(it["tools"]) for it in payloads(of_helpers, "model.requested")]
        assert offered and all("note" in tools and "publish" not in tools for tools in offered), "not offered"
        refused = [it for it in payloads(of_helpers, "tool.resulted") if not it["ok"]]
        assert [it["error"]["code"] for it in refused] == ["TOOL_NOT_ALLOWED"], "and refused at dispatch"
        giver = await submit(holdfast, "giver", "ask the others")
        (approval,) = await asked(holdfast, giver)
        assert approval.tool == "publish"
        await approve(holdfast, approval)
        assert (await ended(holdfast, giver)).output == "they did"
        assert effects(tmp_path) == ["one", "one", "published home"]
        direct = await submit(holdfast, "giver", "publish it")
        await ended(holdfast, direct)
        (own,) = payloads(await events_until(holdfast, direct), "tool.resulted")
        assert own["error"]["code"] == "TOOL_NOT_ALLOWED", "what it passes on is not its own"


@pytest.mark.requirement("G8", "PX-8", "OS-F", "G7")
async def test_cancels_budgets_and_failures_end_a_run_with_a_known_reason(
    settings: Settings, root: Path, loop: Loop
) -> None:
    async with opened(settings, root) as holdfast:
        slow = await submit(holdfast, "loop", "take your time")
        await events_until(holdfast, slow, "runtime.model.requested")
        await holdfast.lifecycle.cancel(LOCAL, slow.id)
        assert (await ended(holdfast, slow)).status == "cancelled"
        endless = await submit(holdfast, "loop", "on and on", limits={"modelCalls": 2})
        broken = await submit(holdfast, "loop", "nobody is there")
        for run, code in ((endless, "BUDGET_EXCEEDED"), (broken, "PROVIDER_ERROR")):
            over, events = await ended(holdfast, run), await events_until(holdfast, run)
            assert over.error is not None and over.error["code"] == code, over.error
            assert [event.type for event in events if event.type in request.TERMINAL] == ["runtime.request.failed"]


async def left_behind(holdfast: Holdfast, recorded: list[Event], count: int) -> Run:
    """Another run whose log is the first events of one that ended, as a kill after them would leave it."""
    scope = Scope("default", new_id("thread"), new_id("run"))
    drafts = [Draft(event.type, event.payload, scope.run_id, event.actor) for event in recorded[:count]]
    created = Draft(thread.ThreadCreated.type, thread.ThreadCreated().to_json(), None, "system")
    assert isinstance(await holdfast.store.recorder.record(scope, created, *drafts), Appended)
    run = await holdfast.store.reader.run("default", scope.run_id or "")
    assert run is not None
    return run


@pytest.mark.requirement("G4", "G5", "PX-2")
async def test_a_run_that_was_killed_after_any_event_ends_the_same_and_repeats_no_result(
    settings: Settings, root: Path, tmp_path: Path, loop: Loop
) -> None:
    async with opened(settings, root) as holdfast:
        whole = await events_until(holdfast, await submit(holdfast, "loop", "note one"))
        await holdfast.executor.drain(0)
        left = [(count, await left_behind(holdfast, whole, count)) for count in range(2, len(whole))]
    before = len(effects(tmp_path))
    done = 0
    async with opened(settings, root) as holdfast:
        for count, run in left:
            stored: list[Any] = payloads(whole[:count], "tool.resulted")
            begun: list[Any] = payloads(whole[:count], "tool.invoked")
            if begun and not stored:  # nobody knows whether it took effect, so an operator says
                (recovery,) = await asked(holdfast, run)
                assert recovery.kind == "recovery"
                await approve(holdfast, recovery)
            over, events = await ended(holdfast, run), await events_until(holdfast, run)
            assert (over.error, over.output) == (None, "noted"), count
            done += not stored
            if loop.resume == "replay":
                assert len(payloads(events, "model.completed")) == len(payloads(whole, "model.completed")), count
                assert len(payloads(events, "tool.resulted")) == 1, count
    if loop.resume == "replay":
        assert len(effects(tmp_path)) == before + done
