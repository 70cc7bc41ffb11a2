"""`kill -9` of the real server at the events of recall, learning and forgetting: nothing double, nothing lost."""

import contextlib
from pathlib import Path
from typing import Any, Final

import httpx2
import pytest

from app.core.settings import Settings
from app.events.catalog import memory as facts
from app.memory.contract import RecordFilter
from app.store.memory import MemoryTable
from app.wiring.store import open_store
from tests.clients import reached
from tests.faults.doomed import Point, server
from tests.faults.test_run_kills import end_leases
from tests.memory.workspaces import agent, memory, model, rule, write
from tests.store_equals_replay import assert_tables_equal_replay

POINTS: Final = [
    (side, type_)
    for type_ in (
        facts.MemoryRecallCompleted.type,
        facts.MemoryRecordStored.type,
        facts.MemoryCandidateSubmitted.type,
    )
    for side in ("before", "after")
]
QUICK: Final = [POINTS[1], POINTS[3], POINTS[4]]


def _workspace(folder: Path) -> Path:
    rules = rule('{system: "colour is blue"}', '{text: "It is blue."}')
    return write(
        folder,
        model(rules),
        memory("facts", "{type: semantic}"),
        memory("episodes", "{type: episodic, read: [beforeFinalize]}"),
        agent("clerk", "{model: script, memory: [facts, episodes]}"),
    )


@pytest.mark.requirement("SH-17", "G5")
@pytest.mark.parametrize("full", [False, pytest.param(True, marks=pytest.mark.faults)], ids=["quick", "all"])
async def test_a_server_killed_while_a_run_recalls_or_learns_stores_everything_once(
    settings: Settings, tmp_path: Path, full: bool
) -> None:
    workspace = _workspace(tmp_path / "workspace")
    points = POINTS if full else QUICK[:: 2 if settings.is_postgres else 1]
    runs: list[str] = []
    for number, (side, type_) in enumerate(points):
        word = f"doomed-{number}-"
        async with server(settings, workspace, Point(side, type_, word)) as doomed:  # type: ignore[arg-type]  # one of two
            async with httpx2.AsyncClient(base_url=doomed.url, timeout=30) as client:
                for earlier in runs:
                    assert (await reached(client, earlier))["status"] == "completed"
                body = {"agent": "clerk", "input": f"My colour is blue. I have the number {word}x."}
                runs.append((await client.post("/api/runs", json=body)).json()["id"])
            await doomed.died()
        await end_leases(settings)
    async with server(settings, workspace) as alive, httpx2.AsyncClient(base_url=alive.url, timeout=30) as client:
        for number, run_id in enumerate(runs):
            run = await reached(client, run_id)
            # The first run knows nothing yet; each later one is given what an earlier one learned.
            assert (run["status"], run["output"]) == ("completed", "It is blue." if number else "I do not know.")
            events = (await client.get(f"/api/runs/{run_id}/events?limit=1000")).json()["items"]
            assert _hooks(events) == ["read-before-plan", "read-before-finalize", "write-after-run"]
            submitted = [e["payload"] for e in events if e["type"] == facts.MemoryCandidateSubmitted.type]
            assert len(submitted) == 3
    async with open_store(settings) as store:
        await assert_tables_equal_replay(store)
        table = MemoryTable(store.database)
        accepted = await table.records("default", RecordFilter(status="accepted"), 0, 1000)
        proposed = await table.records("default", RecordFilter(status="proposed"), 0, 1000)
        # One record of the colour, merged into by the later runs, one number and one episode of each run.
        assert len(accepted) == 1 + len(runs) and len(proposed) == len(runs)


def _hooks(events: list[dict[str, Any]]) -> list[str]:
    return [event["payload"]["hook"] for event in events if event["type"] == facts.MemoryLifecycle.type]


@pytest.mark.parametrize("side", ["before", "after"])
async def test_a_forget_that_was_cut_off_is_either_complete_or_did_not_begin(
    settings: Settings, tmp_path: Path, side: Any
) -> None:
    workspace = _workspace(tmp_path / "workspace")
    text = "My unmistakable secretive word is xylophoneism."
    async with server(settings, workspace) as first, httpx2.AsyncClient(base_url=first.url, timeout=30) as client:
        body = {"memory": "facts", "agent": "clerk", "text": text}
        record = (await client.post("/api/memory/records", json=body)).json()["record"]["id"]
    point = Point(side, facts.MemoryRecordForgotten.type, record)
    async with server(settings, workspace, point) as doomed:
        async with httpx2.AsyncClient(base_url=doomed.url, timeout=30) as client:
            with contextlib.suppress(httpx2.HTTPError):
                await client.delete(f"/api/memory/records/{record}")
        await doomed.died()
    await end_leases(settings)
    async with server(settings, workspace) as alive, httpx2.AsyncClient(base_url=alive.url, timeout=30) as client:
        shown = (await client.get(f"/api/memory/records/{record}")).json()
        search = {"memory": "facts", "agent": "clerk", "query": "xylophoneism"}
        found = (await client.post("/api/memory/search", json=search)).json()["items"]
        if side == "before":
            assert (shown["status"], shown["text"], len(found)) == ("accepted", text, 1)
        else:
            assert (shown["status"], shown["text"], found) == ("forgotten", "[FORGOTTEN]", [])
    async with open_store(settings) as store:
        await assert_tables_equal_replay(store)
