"""`kill -9` of the real server at the events of recall, learning and forgetting: nothing double, nothing lost."""

import asyncio
import contextlib
from collections import Counter
from pathlib import Path
from typing import Any, Final

import httpx2
import pytest

from app.core.settings import Settings
from app.events.catalog import memory as facts
from app.events.catalog.interrupt import InterruptRaised
from app.memory.contract import RecordFilter
from app.store.memory import MemoryTable
from app.wiring.store import open_store
from tests.faults.doomed import Point, server
from tests.faults.test_run_kills import end_leases
from tests.memory.test_embeddings import embedding_server
from tests.memory.workspaces import agent, memory, model, rule, write
from tests.store_equals_replay import assert_tables_equal_replay

POINTS: Final = [
    (side, type_)
    for type_ in (
        # Of a recall, all in one commit on the run's thread.
        facts.MemoryLifecycle.type,
        facts.MemoryEmbeddingCompleted.type,
        facts.MemoryRecallCompleted.type,
        # Of what is learned, first on the thread of the memory, in one commit.
        facts.MemoryRecordStored.type,
        facts.MemoryRecordChanged.type,
        facts.MemoryRecordSuperseded.type,
        InterruptRaised.type,
        # Then on the run's thread, in another.
        facts.MemoryPluginStarted.type,
        facts.MemoryCandidateSubmitted.type,
        facts.MemoryApprovalRequested.type,
        facts.MemoryPluginCompleted.type,
    )
    for side in ("before", "after")
]
QUICK: Final = [
    ("after", facts.MemoryRecallCompleted.type),
    ("after", facts.MemoryRecordStored.type),
    ("before", facts.MemoryCandidateSubmitted.type),
]


def _workspace(folder: Path, url: str) -> Path:
    rules = rule('{system: "colour is blue"}', '{text: "It is blue."}')
    words = "---\napiVersion: holdfast/v1\nkind: Model\nmetadata: {name: words}\n"
    words += f"spec: {{provider: openai, model: small, baseUrl: '{url}'}}\n"
    return write(
        folder,
        model(rules),
        words,
        memory("facts", "{type: semantic, kind: vector, embedding: words}"),
        memory("episodes", "{type: episodic, read: [beforeFinalize]}"),
        agent("clerk", "{model: script, memory: [facts, episodes]}"),
    )


@pytest.mark.requirement("SH-17", "G5")
@pytest.mark.parametrize("full", [False, pytest.param(True, marks=pytest.mark.faults)], ids=["quick", "all"])
async def test_a_server_killed_at_any_event_of_recall_and_learning_stores_everything_once(
    settings: Settings, tmp_path: Path, full: bool
) -> None:
    points = POINTS if full else QUICK[:: 2 if settings.is_postgres else 1]
    # The first run has nothing to merge with and nothing to supersede.
    points = [("after", facts.MemoryRecallCompleted.type), *points] if full else points
    runs: list[str] = []
    async with embedding_server() as embeddings:
        workspace = _workspace(tmp_path / "workspace", embeddings.url)
        for number, (side, type_) in enumerate(points):
            word = f"doomed-{number}-"
            async with server(settings, workspace, Point(side, type_, word)) as doomed:  # type: ignore[arg-type]  # one of two
                async with httpx2.AsyncClient(base_url=doomed.url, timeout=30) as client:
                    for earlier in runs[-1:]:
                        assert (await _ended(client, earlier))["status"] == "completed"
                    runs.append(await _submitted(client, f"My colour is blue. My lucky number is {word}x."))
                await doomed.died()
            await end_leases(settings)
        async with server(settings, workspace) as alive, httpx2.AsyncClient(base_url=alive.url, timeout=30) as client:
            for number, run_id in enumerate(runs):
                await _assert_all_happened_once(client, run_id, first=number == 0)
    async with open_store(settings) as store:
        await assert_tables_equal_replay(store)
        table = MemoryTable(store.database)
        counts = {
            status: len(await table.records("default", RecordFilter(status=status), 0, 1000))
            for status in ("accepted", "proposed", "superseded")
        }
        # One record of the colour, merged into by the later runs, the last number, and one episode of each run.
        assert counts == {"accepted": 2, "proposed": len(runs), "superseded": len(runs) - 1}
        (colour, _) = await table.records("default", RecordFilter(status="accepted"), 0, 10)
        assert len(colour.sources) == min(20, len(runs))


async def _submitted(client: httpx2.AsyncClient, text: str) -> str:
    """Tried again while a loaded machine makes the server wait too long for its database."""
    async with asyncio.timeout(60):
        while True:
            body = {"agent": "clerk", "input": text}
            answer = await client.post("/api/runs", json=body, headers={"idempotency-key": text})
            if answer.status_code != 503:
                run_id: str = answer.json()["id"]
                return run_id


async def _ended(client: httpx2.AsyncClient, run_id: str) -> dict[str, Any]:
    async with asyncio.timeout(60):
        while True:
            run: dict[str, Any] = (await client.get(f"/api/runs/{run_id}")).json()
            if run.get("status") in ("completed", "failed", "cancelled"):
                return run
            await asyncio.sleep(0.05)


async def _assert_all_happened_once(client: httpx2.AsyncClient, run_id: str, *, first: bool) -> None:
    run = await _ended(client, run_id)
    # The first run knows nothing yet; each later one is given what an earlier one learned.
    assert (run["status"], run["output"]) == ("completed", "I do not know." if first else "It is blue.")
    events = (await client.get(f"/api/runs/{run_id}/events?limit=1000")).json()["items"]
    assert _hooks(events) == ["read-before-plan", "read-before-finalize", "write-after-run"]
    counted = Counter(event["type"] for event in events)
    assert counted[facts.MemoryCandidateSubmitted.type] == 3 and counted[facts.MemoryApprovalRequested.type] == 1
    assert counted[facts.MemoryPluginStarted.type] == counted[facts.MemoryPluginCompleted.type] == 1
    assert counted[facts.MemoryPluginFailed.type] == 0


def _hooks(events: list[dict[str, Any]]) -> list[str]:
    return [event["payload"]["hook"] for event in events if event["type"] == facts.MemoryLifecycle.type]


@pytest.mark.parametrize("side", ["before", "after"])
async def test_a_forget_that_was_cut_off_is_either_complete_or_did_not_begin(
    settings: Settings, tmp_path: Path, side: Any
) -> None:
    workspace = _workspace(tmp_path / "workspace", "http://127.0.0.1:9")  # found by words alone
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
