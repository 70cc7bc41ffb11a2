"""Runs with guardrails and gates whose server dies: verdicts are recorded once, and nothing leaves after all.

A run is cut off after every single event of its log and resumed by another server, and real servers are killed around
the commits of verdicts.
"""

import asyncio
import contextlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal

import httpx2
import pytest

from app.core.settings import Settings
from app.events.catalog import request
from app.events.catalog.model import ModelRequested
from app.events.envelope import Event
from app.views.run import Run
from tests.clients import reached
from tests.cut_runs import left_behind, seen_through
from tests.faults.conftest import Report
from tests.faults.doomed import Point, server
from tests.faults.test_run_kills import end_leases
from tests.runs import opened, payloads, submit
from tests.scenarios.guarded import agent, document, make_guarded_workspace

MAIL: Final = "bob@example.com"
FINDER: Final = """
def find(name: str) -> dict:
    return {"at": "PLACE", "mail": "bob@example.com"}
"""


def _scripted(name: str, *rules: dict[str, Any], text: str) -> str:
    script = {"rules": list(rules), "default": {"text": text, "chunkSize": 6}}
    spec = {"provider": "scripted", "model": name, "capabilities": {"tools": True}, "script": script}
    return document("Model", name, spec)


def _gated(name: str, gate: dict[str, Any]) -> str:
    gates = [{"evaluator": "polite", "mode": "blocking", **gate}]
    return document("Agent", name, {"model": "fickle", "guardrails": {"output": ["no_pii"]}, "gates": gates})


_CALL: Final = {"toolCalls": [{"name": "find", "args": {"name": "{{ input }}"}}]}
_INPUT: Final = {"type": "object", "required": ["name"], "properties": {"name": {"type": "string"}}}
MORE: Final = (
    document("Tool", "find", {"kind": "python", "entry": "finder:find", "effect": "readonly", "input": _INPUT})
    + _scripted("finder", {"match": {"turn": 1}, "reply": _CALL}, text=f"found {{{{ toolResult }}}}, not {MAIL}")
    + _scripted(
        "fickle",
        {"match": {"system": "not accepted"}, "reply": {"text": f"please write to {MAIL}"}},
        text=f"no, ask {MAIL}",
    )
    + _scripted("spare", text=f"yes please, {MAIL}")
    + document("Evaluator", "polite", {"kind": "contains", "config": {"texts": ["please"]}})
    + agent(
        "everything",
        "finder",
        ("find",),
        input=["no_pii", "fair"],
        output=["no_pii", "codename"],
        toolArguments=["no_pii", "loud"],
        toolResults=["no_pii", "loud"],
    )
    + agent("held", output=["fair", "no_pii", "places"])
    + agent(
        "asking",
        "finder",
        ("find",),
        input=["ask_pii"],
        output=["ask_pii"],
        toolArguments=["ask_pii"],
        toolResults=["ask_pii"],
    )
    + _gated("retries", {"onFail": "retry"})
    + _gated("falls_back", {"onFail": "fallback", "fallbackModel": "spare"})
    + _gated("fails", {})
)


@dataclass(frozen=True, slots=True)
class Life:
    """A run, how it ends, and how often a person is asked."""

    agent: str
    text: str
    output: str | None
    code: str | None = None
    asked: int = 0


FOUND: Final = '{"at":"PLACE","mail":"[REDACTED:email]"}'
LIVES: Final = (
    Life("everything", f"ask {MAIL}", f"found {FOUND}, not [REDACTED:email]"),
    Life("held", f"from PLACE write {MAIL}", "from [REDACTED:place] write [REDACTED:email]"),
    Life("asking", f"ask {MAIL}", f'found {{"at":"PLACE","mail":"{MAIL}"}}, not {MAIL}', asked=5),
    Life("blocks", f"my address is {MAIL}", None, "GUARDRAIL_DENIED"),
    Life("replies", "who wins the election now", "Let us talk about the weather."),
    Life("retries", "x", "please write to [REDACTED:email]"),
    Life("falls_back", "x", "yes please, [REDACTED:email]"),
    Life("fails", "x", None, "GATE_NOT_PASSED"),
)


def _workspace(folder: Path) -> Path:
    root = make_guarded_workspace(folder, MORE)
    (root / "finder.py").write_text(FINDER)
    return root


def _verdicts(events: Sequence[Event]) -> Counter[tuple[Any, ...]]:
    return Counter(
        (one["guardrail"], one["stage"], one["action"], one.get("blocked"))
        for one in payloads(events, "guardrail.triggered")
    )


def _asked_with(life: Life) -> set[str]:
    """Events that contain what was asked: without rules for the input, the model's prompt does."""
    return {request.RequestQueued.type} | ({ModelRequested.type} if life.agent != "everything" else set())


def _assert_ends_as(life: Life, events: Sequence[Event], where: str) -> None:
    end = events[-1].payload
    assert end.get("output") == life.output, (where, end)
    assert (end["error"]["code"] if "error" in end else None) == life.code, where
    verdicts = Counter((one["guardrail"], one.get("key")) for one in payloads(events, "guardrail.triggered"))
    assert all(count == 1 for count in verdicts.values()), f"{where}: recorded twice: {verdicts}"
    gates = Counter((one["gate"], one["attempt"]) for one in payloads(events, "gate.evaluated"))
    assert all(count == 1 for count in gates.values()), f"{where}: judged twice: {gates}"
    assert len(payloads(events, "interrupt.raised")) == life.asked, where
    stored = [event for event in events if event.type not in _asked_with(life)]
    if not life.asked:
        assert MAIL not in str([event.payload for event in stored]), f"{where}: it left"
        return
    # What a person is asked about leaves only after the answer.
    for number, event in enumerate(stored):
        if event.type == "runtime.adapter.event" and MAIL in str(event.payload):
            before = stored[:number]
            assert len(payloads(before, "interrupt.resolved")) == len(payloads(before, "interrupt.raised")) > 0, where


@pytest.mark.requirement("G5", "HK-17", "HK-23", "OS-I1")
@pytest.mark.parametrize("full", [False, pytest.param(True, marks=pytest.mark.faults)], ids=["some", "all"])
async def test_a_guarded_run_killed_after_any_event_ends_as_if_it_had_not_been(
    settings: Settings, tmp_path: Path, full: bool, report: Report
) -> None:
    root = _workspace(tmp_path / "workspace")
    stride = 1 if full else (11 if settings.is_postgres else 5)
    runs: list[tuple[Life, int, Run, Counter[tuple[Any, ...]], int]] = []
    async with opened(settings, root) as holdfast:
        whole = [(life, await seen_through(holdfast, await submit(holdfast, life.agent, life.text))) for life in LIVES]
        await holdfast.executor.drain(0)
        for life, events in whole:
            _assert_ends_as(life, events, f"{life.agent}, not killed")
            started = next(n for n, event in enumerate(events) if event.type == request.RequestStarted.type) + 1
            completed = len(payloads(events, "model.completed"))
            for cut in range(started, len(events), stride):
                run = await left_behind(holdfast, events[:cut])
                runs.append((life, cut, run, _verdicts(events), completed))
    async with opened(settings, root) as holdfast:
        for life, cut, run, verdicts, completed in runs:
            where = f"{life.agent}, killed after event {cut}"
            resumed = await seen_through(holdfast, run)
            _assert_ends_as(life, resumed, where)
            assert len(payloads(resumed, "model.completed")) == completed, f"{where}: a model was asked again"
            # A message that was cut off is another message than the one that takes its place.
            assert set(_verdicts(resumed)) == set(verdicts), where
    report(f"{len(runs)} runs of {len(LIVES)} kinds cut off and resumed, every verdict once, nothing left")


POINTS: Final = [
    (agent_name, text, type_, side)
    for agent_name, text, types in (
        ("everything", f"ask {MAIL}", ("guardrail.triggered", "step.completed", "model.completed", "tool.resulted")),
        ("asking", f"ask {MAIL}", ("guardrail.triggered", "interrupt.raised", "interrupt.resolved")),
        ("blocks", f"my address is {MAIL}", ("guardrail.triggered", "request.failed")),
        ("retries", "x", ("gate.evaluated",)),
        ("falls_back", "x", ("gate.evaluated",)),
    )
    for type_ in types
    for side in ("before", "after")
]
QUICK: Final = [POINTS[0], POINTS[15]]


@pytest.mark.requirement("G5", "HK-17", "HK-23")
@pytest.mark.parametrize("full", [False, pytest.param(True, marks=pytest.mark.faults)], ids=["some", "all"])
async def test_a_server_killed_around_a_verdict_is_followed_by_one_that_keeps_it(
    settings: Settings, tmp_path: Path, full: bool, report: Report
) -> None:
    root = _workspace(tmp_path / "workspace")
    points = POINTS if full else QUICK[:: 2 if settings.is_postgres else 1]
    runs: list[tuple[str, str]] = []
    for number, (name, text, type_, side) in enumerate(points):
        word = f"doomed{number}x"
        at: Literal["before", "after"] = "before" if side == "before" else "after"
        async with server(settings, root, Point(at, f"runtime.{type_}", word)) as doomed:
            with contextlib.suppress(httpx2.HTTPError):
                async with httpx2.AsyncClient(base_url=doomed.url, timeout=30) as client:
                    # Seen through first: a run that is at work when server after server dies would be blamed for it.
                    for _, earlier in runs[-1:]:
                        await _approve_all(client, earlier)
                    answer = await client.post("/api/runs", json={"agent": name, "input": f"{word} {text}"})
                    assert answer.status_code == 202, answer.text
                    runs.append((name, answer.json()["id"]))
                    await _approve_all(client, runs[-1][1])
            await doomed.died()
        await end_leases(settings)
    async with server(settings, root) as alive, httpx2.AsyncClient(base_url=alive.url, timeout=30) as client:
        for name, run_id in runs:
            life = next(one for one in LIVES if one.agent == name)
            over = await _approve_all(client, run_id)
            assert (over["error"] or {}).get("code") == life.code, (name, over)
            events = (await client.get(f"/api/runs/{run_id}/events?limit=1000")).json()["items"]
            verdicts = Counter(
                (event["payload"]["guardrail"], event["payload"]["key"])
                for event in events
                if event["type"] == "runtime.guardrail.triggered"
            )
            assert all(count == 1 for count in verdicts.values()), (name, verdicts)
            if not life.asked:
                stored = [event["payload"] for event in events if event["type"] not in _asked_with(life)]
                assert MAIL not in str(stored), name
    report(f"{len(points)} servers killed around verdicts")


async def _approve_all(client: httpx2.AsyncClient, run_id: str) -> dict[str, Any]:
    while True:
        run = await reached(client, run_id, "waiting", "completed", "failed")
        if run["status"] != "waiting":
            return run
        for interrupt_id in run["waitingOn"]:
            await client.post(f"/api/interrupts/{interrupt_id}/answer", json={"decision": "approve"})
        await _left(client, run_id, run["waitingOn"])


async def _left(client: httpx2.AsyncClient, run_id: str, asked: list[str]) -> None:
    async with asyncio.timeout(30):
        while (await client.get(f"/api/runs/{run_id}")).json().get("waitingOn") == asked:  # noqa: ASYNC110
            await asyncio.sleep(0.02)  # the answer is stored; the run shows it with its next event
