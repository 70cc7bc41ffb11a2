"""Shadow gates over many runs: their verdicts are those of blocking gates, and the runs are as without any gate."""

import asyncio
from pathlib import Path
from typing import Any

import pytest

from app.core.principal import LOCAL
from app.core.settings import Settings
from app.events.envelope import Event
from app.views.run import Run
from app.wiring.runtime import Holdfast
from tests.evals.judged import BASE, TOOLS, agent, evaluator
from tests.runs import ended, opened, submit
from tests.waiting import until

GATES = ("polite", "short", "shaped", "looked", "way", "cheap", "own", "friendly")
EVALUATORS = [
    evaluator("short", "{kind: cel, config: {expression: 'size(output) < 24'}}"),
    evaluator("shaped", "{kind: regex, config: {pattern: '^[A-Z]'}}"),
    evaluator("looked", "{kind: tool_called, config: {tool: look}}"),
    evaluator("way", "{kind: trajectory, config: {calls: [look], match: exact}}"),
    evaluator("cheap", "{kind: cost, config: {maxUsd: 0.00002, zeroUsd: 0.0001}}"),
]
INPUTS = (
    "hello {}",
    "be rude {}",
    "look {}",
    "raise {}",
    "beyond {}",
    "a much longer question number {}",
    "nonsense {}",
)


def workspace(folder: Path) -> Path:
    def gates(mode: str, more: str = "") -> str:
        return "[" + ", ".join(f"{{evaluator: {name}, mode: {mode}, minScore: 0.5{more}}}" for name in GATES) + "]"

    root = folder / "workspace"
    root.mkdir(parents=True)
    # A gate that asks keeps the answer, whatever the verdict; nobody needs to answer for the verdicts to be there.
    documents = [
        agent("shadowed", gates("shadow")),
        agent("blocked", gates("blocking", ", onFail: ask")),
        agent("plain", "[]"),
        agent("clerk", "[]"),
    ]
    (root / "workspace.yaml").write_text(BASE + "".join([*EVALUATORS, *documents]))
    (root / "tools.py").write_text(TOOLS)
    return root


async def events_of(holdfast: Holdfast, run: Run) -> list[Event]:
    return await holdfast.store.reader.events("default", run.thread_id, 0, 1000)


def told(events: list[Event], run: Run) -> list[tuple[str, Any]]:
    """What the run's events say, without what differs between any two runs."""
    own = (
        "messageId",
        "requestHash",
        "durationMs",
        "firstTokenMs",
        "executor",
        "callId",
        "toolCalls",
        "agent",
        "messages",
    )
    return [
        (event.type, {key: value for key, value in event.payload.items() if key not in own and key != "event"})
        for event in events
        if event.run_id == run.id
    ]


def verdicts(events: list[Event]) -> dict[str, tuple[Any, ...]]:
    return {
        event.payload["gate"]: tuple(event.payload.get(name) for name in ("score", "passed", "error", "reason"))
        for event in events
        if event.type == "runtime.gate.evaluated"
    }


async def compare(holdfast: Holdfast, count: int) -> None:
    for start in range(0, count, 50):
        texts = [INPUTS[number % len(INPUTS)].format(number) for number in range(start, min(start + 50, count))]
        shadowed, blocked, plain = [
            [await submit(holdfast, name, text) for text in texts] for name in ("shadowed", "blocked", "plain")
        ]
        for one, two, three in zip(shadowed, blocked, plain, strict=True):
            await ended(holdfast, one)
            await ended(holdfast, three)
            found: dict[str, dict[str, tuple[Any, ...]]] = {}

            async def complete(run: Run, name: str, found: dict[str, Any] = found) -> bool:
                found[name] = verdicts(await events_of(holdfast, run))
                return len(found[name]) == len(GATES)

            async with asyncio.timeout(60):
                while not (await complete(one, "shadow") and await complete(two, "blocking")):  # noqa: ASYNC110
                    await asyncio.sleep(0.01)  # verdicts come after the run, in their own time
            assert found["shadow"] == found["blocking"]
            with_gates, without = await events_of(holdfast, one), await events_of(holdfast, three)
            assert told(with_gates, one) == told(without, three)
            assert sum(event.type == "runtime.gate.evaluated" for event in with_gates) == len(GATES)
            assert all(event.run_id is None for event in with_gates if event.type == "runtime.gate.evaluated")
        for run in blocked:
            if (await holdfast.store.reader.run("default", run.id)).status == "waiting":  # type: ignore[union-attr]
                await holdfast.lifecycle.cancel(LOCAL, run.id)
    await until(lambda: holdfast.executor.running == 0, 30)


@pytest.mark.requirement("HK-33", "HK-M")
async def test_shadow_verdicts_are_those_of_blocking_gates(settings: Settings, tmp_path: Path) -> None:
    async with opened(settings, workspace(tmp_path)) as holdfast:
        await compare(holdfast, 14)


@pytest.mark.faults
@pytest.mark.timeout(3600)
@pytest.mark.requirement("HK-M")
async def test_a_thousand_shadow_runs_have_the_verdicts_of_blocking_ones(settings: Settings, tmp_path: Path) -> None:
    async with opened(settings, workspace(tmp_path)) as holdfast:
        await compare(holdfast, 1000)
