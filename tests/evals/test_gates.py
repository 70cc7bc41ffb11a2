"""Gates in real runs: what a verdict does, that it is in the log once, and that nothing leaves before it."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from app.core.principal import LOCAL
from app.core.settings import Settings
from app.events.envelope import Event
from app.events.follow import follow
from app.views.run import Run
from app.wiring.runtime import Holdfast
from tests.evals.judged import agent, evaluator, write
from tests.runs import ended, events_until, opened, payloads, submit, waiting

BLOCKING = "[{evaluator: polite, mode: blocking%s}]"


def clerk(more: str = "") -> str:
    return agent("clerk", BLOCKING % more)


async def thread_events(holdfast: Holdfast, run: Run, count: int) -> list[Event]:
    """The thread's events when so many verdicts about the run are in it."""
    seen: list[Event] = []
    store = holdfast.store
    async with asyncio.timeout(30):
        async for batch in follow(store.hub, store.reader.events, "default", run.thread_id, 0):
            seen += batch
            if sum(event.type == "runtime.gate.evaluated" for event in seen) >= count:
                return seen
    raise AssertionError("the stream ended")


def verdicts(events: list[Event]) -> list[dict[str, Any]]:
    return payloads(events, "gate.evaluated")


# -- blocking --------------------------------------------------------------------------------------


@pytest.mark.smoke
@pytest.mark.requirement("HK-23", "OS-I3")
async def test_answer_that_passes_is_handed_over_after_its_verdict(settings: Settings, tmp_path: Path) -> None:
    async with opened(settings, write(tmp_path, clerk())) as holdfast:
        events = await events_until(holdfast, await submit(holdfast, "clerk", "hello"))
    names = [event.type.removeprefix("runtime.") for event in events]
    assert names[-2:] == ["gate.evaluated", "request.completed"]
    (verdict,) = verdicts(events)
    assert (verdict["gate"], verdict["mode"], verdict["score"], verdict["passed"]) == ("polite", "blocking", 1, True)
    assert events[-1].payload["output"] == "Yes, please: hello"


@pytest.mark.requirement("HK-23")
async def test_answer_that_does_not_pass_is_never_in_the_stream(settings: Settings, tmp_path: Path) -> None:
    async with opened(settings, write(tmp_path, clerk())) as holdfast:
        run = await submit(holdfast, "clerk", "be rude")
        events = await events_until(holdfast, run)
        run = await ended(holdfast, run)
        entries = await holdfast.store.reader.transcript("default", run.thread_id)
    assert run.status == "failed" and run.error is not None and run.error["code"] == "GATE_NOT_PASSED"
    assert not any(b"fool" in event.payload_bytes for event in events)
    assert not any("fool" in str(entry.content) for entry in entries)
    (verdict,) = verdicts(events)
    assert (verdict["score"], verdict["minScore"], verdict["passed"]) == (0, 1, False)


async def test_held_answer_of_a_backend_without_models_is_held_too(settings: Settings, tmp_path: Path) -> None:
    root = write(tmp_path, agent("clerk", BLOCKING % "", "  backend: echo\n"))
    async with opened(settings, root) as holdfast:
        refused = await events_until(holdfast, await submit(holdfast, "clerk", "be rude, fool"))
        passed = await events_until(holdfast, await submit(holdfast, "clerk", "please"))
    assert refused[-1].type == "runtime.request.failed"
    assert not any(b"fool" in event.payload_bytes for event in refused[1:])  # the first one is the input
    assert passed[-1].payload["output"] == "please"


async def test_tool_calls_of_a_held_answer_are_in_the_history_of_the_next_run(
    settings: Settings, tmp_path: Path
) -> None:
    async with opened(settings, write(tmp_path, clerk())) as holdfast:
        first = await ended(holdfast, await submit(holdfast, "clerk", "look"))
        assert first.output == "please: at home"
        events = await events_until(holdfast, await submit(holdfast, "clerk", "and now", first.thread_id))
        requested = next(event for event in events if event.type == "runtime.model.requested")
        whole = await holdfast.store.reader.blob(
            "default", first.thread_id, requested.payload["messages"]["$blob"]["sha256"]
        )
    assert whole is not None
    assert b'"role":"tool"' in whole[1] and b"Let me see." in whole[1] and b"please: at home" in whole[1]


@pytest.mark.requirement("HK-23")
async def test_retry_answers_again_once_with_the_reason(settings: Settings, tmp_path: Path) -> None:
    async with opened(settings, write(tmp_path, clerk(", onFail: retry"))) as holdfast:
        run = await submit(holdfast, "clerk", "be rude")
        events = await events_until(holdfast, run)
    assert events[-1].payload["output"] == "A polite answer, please and thank you."
    assert [(one["attempt"], one["passed"]) for one in verdicts(events)] == [(1, False), (2, True)]


async def test_retry_that_does_not_help_fails(settings: Settings, tmp_path: Path) -> None:
    root = write(tmp_path, agent("clerk", BLOCKING % ", onFail: retry", "  backend: echo\n"))
    async with opened(settings, root) as holdfast:
        events = await events_until(holdfast, await submit(holdfast, "clerk", "rude"))
    assert events[-1].payload["error"]["code"] == "GATE_NOT_PASSED"
    assert len(verdicts(events)) == 2


@pytest.mark.requirement("HK-23")
async def test_fallback_lets_another_model_answer(settings: Settings, tmp_path: Path) -> None:
    root = write(tmp_path, clerk(", onFail: fallback, fallbackModel: spare"))
    async with opened(settings, root) as holdfast:
        events = await events_until(holdfast, await submit(holdfast, "clerk", "be rude"))
    assert events[-1].payload["output"] == "The spare model says please."
    assert [one["model"] for one in payloads(events, "model.requested")] == ["main", "spare"]


@pytest.mark.requirement("HK-23", "HK-25")
@pytest.mark.parametrize("decision", ["approve", "deny"])
async def test_person_decides_about_an_answer_that_did_not_pass(
    settings: Settings, tmp_path: Path, decision: str
) -> None:
    async with opened(settings, write(tmp_path, clerk(", onFail: ask"))) as holdfast:
        run = await submit(holdfast, "clerk", "be rude")
        asked = await waiting(holdfast, run)
        assert asked.kind == "approval" and asked.arguments["gate"] == "polite"
        digest = asked.arguments["output"]["$blob"]["sha256"]
        shown = await holdfast.store.reader.blob("default", run.thread_id, digest)
        assert shown is not None and shown[1] == b"Go away, you fool."
        await holdfast.interrupts.answer(LOCAL, asked.id, {"decision": decision})
        run = await ended(holdfast, run)
        events = await events_until(holdfast, run)
    assert (run.status, run.output) == (
        ("completed", "Go away, you fool.") if decision == "approve" else ("failed", None)
    )
    assert len(verdicts(events)) == 1


async def test_no_person_can_let_pass_what_another_gate_refuses(settings: Settings, tmp_path: Path) -> None:
    root = write(
        tmp_path,
        evaluator("short", "{kind: cel, config: {expression: 'size(output) < 5'}}"),
        agent("clerk", "[{evaluator: polite, mode: blocking, onFail: ask}, {evaluator: short, mode: blocking}]"),
    )
    async with opened(settings, root) as holdfast:
        run = await ended(holdfast, await submit(holdfast, "clerk", "be rude"))
    assert run.error is not None and run.error["message"] == "The answer did not pass the gate short."


@pytest.mark.requirement("OS-I3", "HK-23")
@pytest.mark.parametrize(
    ("said", "error"),
    [
        ("raise", "EVALUATOR_FAILED"),
        ("text", "EVALUATOR_FAILED"),
        ("sleep", "EVALUATOR_TIMEOUT"),
        ("beyond", "EVALUATOR_INVALID"),
        ("nan", "EVALUATOR_INVALID"),
    ],
)
async def test_gate_that_cannot_judge_lets_nothing_pass(tmp_path: Path, said: str, error: str) -> None:
    settings = Settings(data_dir=tmp_path / "data")
    async with opened(
        settings, write(tmp_path, agent("clerk", "[{evaluator: own, minScore: 0, mode: blocking}]"))
    ) as it:
        run = await submit(it, "clerk", said)
        events = await events_until(it, run)
    assert events[-1].payload["error"]["code"] == "GATE_NOT_PASSED"
    (verdict,) = verdicts(events)
    assert (verdict["passed"], verdict["error"], "score" in verdict) == (False, error, False)
    assert not any(b"secret of the evaluator" in event.payload_bytes for event in events)


@pytest.mark.requirement("HK-23", "OS-I1")
async def test_judging_model_is_asked_by_recorded_calls_with_seeds(settings: Settings, tmp_path: Path) -> None:
    root = write(tmp_path, agent("clerk", "[{evaluator: friendly, minScore: 0.8, mode: blocking}]"))
    async with opened(settings, root) as holdfast:
        events = await events_until(holdfast, await submit(holdfast, "clerk", "hello"))
        refused = await events_until(holdfast, await submit(holdfast, "clerk", "be rude"))
        judged = [
            await events_until(holdfast, await submit(holdfast, "clerk", word)) for word in ("nonsense", "broken")
        ]
    asked = [one for one in payloads(events, "model.requested") if one.get("role") == "judge"]
    assert [one["parameters"]["seed"] for one in asked] == [7, 8, 9]
    (verdict,) = verdicts(events)
    assert verdict["score"] == pytest.approx(0.9)
    assert [(one["seed"], one["model"], one["score"]) for one in verdict["judgements"]] == [
        (7, "judge", 0.9), (8, "judge", 0.9), (9, "judge", 0.9),
    ]  # fmt: skip
    assert refused[-1].payload["error"]["code"] == "GATE_NOT_PASSED"
    assert verdicts(refused)[0]["score"] == pytest.approx(0.1)
    for story in judged:
        assert story[-1].payload["error"]["code"] == "GATE_NOT_PASSED"
        assert verdicts(story)[0]["error"] == "EVALUATOR_FAILED"


# -- shadow ----------------------------------------------------------------------------------------


@pytest.mark.smoke
@pytest.mark.requirement("HK-33", "HK-M")
async def test_shadow_gate_judges_after_the_run_and_changes_nothing(settings: Settings, tmp_path: Path) -> None:
    shadow = agent("clerk", "[{evaluator: polite}, {evaluator: friendly, minScore: 0.5}]")
    async with opened(settings, write(tmp_path, shadow, agent("plain", "[]"))) as holdfast:
        run, other = await submit(holdfast, "clerk", "be rude"), await submit(holdfast, "plain", "be rude")
        events = await thread_events(holdfast, run, 2)
        plain = await events_until(holdfast, other)
        found = await ended(holdfast, run)
    assert (found.status, found.output) == ("completed", "Go away, you fool.")
    of_run = [event.type for event in events if event.run_id == run.id]
    assert of_run == [event.type for event in plain]
    judged = [event for event in events if event.type == "runtime.gate.evaluated"]
    assert all(event.run_id is None and event.payload["runId"] == run.id for event in judged)
    assert {(event.payload["gate"], event.payload["passed"]) for event in judged} == {
        ("polite", False), ("friendly", False),
    }  # fmt: skip
    of_judge = next(event.payload for event in judged if event.payload["gate"] == "friendly")
    assert [one["seed"] for one in of_judge["judgements"]] == [7, 8, 9]
    assert of_judge["judgements"][0]["usage"]["inputTokens"] > 0


@pytest.mark.requirement("HK-33")
async def test_shadow_gate_that_cannot_judge_says_so_and_leaves_the_run_alone(
    settings: Settings, tmp_path: Path
) -> None:
    async with opened(settings, write(tmp_path, agent("clerk", "[{evaluator: own, minScore: 0}]"))) as holdfast:
        run = await submit(holdfast, "clerk", "raise")
        events = await thread_events(holdfast, run, 1)
        assert (await ended(holdfast, run)).status == "completed"
    (verdict,) = verdicts(events)
    assert (verdict["passed"], verdict["error"]) == (False, "EVALUATOR_FAILED")


async def test_sample_decides_by_run_whether_a_gate_judges(settings: Settings, tmp_path: Path) -> None:
    root = write(tmp_path, agent("clerk", "[{evaluator: polite, mode: blocking, sample: 0.5}]", "  backend: echo\n"))
    async with opened(settings, root) as holdfast:
        runs = [await ended(holdfast, await submit(holdfast, "clerk", "rude")) for _ in range(20)]
        gates = holdfast.gates.of(holdfast.workspace.current, holdfast.workspace.current.agents["clerk"])
    (rule,) = gates.blocking
    assert {run.id for run in runs if run.status == "failed"} == {run.id for run in runs if rule.takes(run.id)}


# -- what is declared --------------------------------------------------------------------------------


@pytest.mark.requirement("HK-33", "HK-36")
async def test_verdict_is_an_eval_gate_decision_of_the_journal(settings: Settings, tmp_path: Path) -> None:
    from app.views.journal import journal

    async with opened(settings, write(tmp_path, clerk())) as holdfast:
        events = await events_until(holdfast, await submit(holdfast, "clerk", "hello"))
    assert [item["kind"] for item in journal(events[0].run_id or "", events)].count("EvalGateDecision") == 1
