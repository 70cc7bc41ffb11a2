"""UI events over HTTP: the same log in the standard's words, live and stored, resumed at every cut."""

import asyncio
from typing import Any

import httpx2
import pytest
from websockets.asyncio.client import connect

from app.views.ui.projection import project
from tests import sse
from tests.clients import reached, receive, submit
from tests.server import ServerProcess
from tests.ui_events import assert_valid


async def ui_events(client: httpx2.AsyncClient, path: str, limit: int = 1000) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    after: str | None = "0"
    while after is not None:
        page = (await client.get(f"{path}/ui/events", params={"after": after, "limit": limit})).json()
        found += page["items"]
        after = page["nextCursor"]
    return found


async def native_events(client: httpx2.AsyncClient, path: str) -> list[dict[str, Any]]:
    events: list[dict[str, Any]] = (await client.get(f"{path}/events", params={"limit": 1000})).json()["items"]
    return events


@pytest.mark.requirement("LC-1", "LC-2")
async def test_a_thread_has_one_valid_ui_event_for_each_event_and_a_run_too(client: httpx2.AsyncClient) -> None:
    run = await submit(client, "assistant", "please calculate", wait=20)
    thread, own = f"/api/threads/{run['threadId']}", f"/api/runs/{run['id']}"
    events, stored = await ui_events(client, thread), await native_events(client, thread)
    assert [(one["id"], one["sequence"]) for one in events] == [(one["id"], one["seq"]) for one in stored]
    assert_valid(events)
    of_run, stored_run = await ui_events(client, own), await native_events(client, own)
    assert [(one["id"], one["sequence"]) for one in of_run] == [(one["id"], one["runSeq"]) for one in stored_run]
    assert_valid(of_run)
    classes = [one["eventClass"] for one in events]
    for name in ("session.created", "turn.submitted", "turn.started", "model.requested", "tool.started", "tool.result"):
        assert name in classes
    assert classes[-1] == "turn.completed"


@pytest.mark.requirement("LC-1", "PX-1")
async def test_a_ui_stream_is_the_stored_list_from_every_cursor(client: httpx2.AsyncClient) -> None:
    run = await submit(client, "assistant", "please calculate", wait=20)
    path = f"/api/runs/{run['id']}"
    expected = await ui_events(client, path)
    seqs = [one["seq"] for one in await native_events(client, path)]
    for index, after in enumerate([0, *seqs]):
        *frames, end = await sse.read(client, f"{path}/ui/stream?after={after}")
        assert [frame.data for frame in frames] == expected[index:]
        assert [(frame.id, frame.event) for frame in frames] == [
            (seq, one["eventClass"]) for seq, one in zip(seqs[index:], expected[index:], strict=True)
        ]
        assert end.event == "end"


@pytest.mark.requirement("LC-1")
async def test_a_ui_stream_of_a_thread_goes_on_live(client: httpx2.AsyncClient) -> None:
    first = await submit(client, "echo", "one two", wait=20)
    path = f"/api/threads/{first['threadId']}"
    known = await ui_events(client, path)
    async with asyncio.timeout(30), client.stream("GET", f"{path}/ui/stream") as answer:
        frames = sse.frames(answer)
        seen = [(await anext(frames)).data for _ in known]
        assert seen == known
        await submit(client, "echo", "three", threadId=first["threadId"])
        while seen[-1]["eventClass"] != "turn.completed" or seen[-1]["sequence"] == known[-1]["sequence"]:
            seen.append((await anext(frames)).data)
    assert seen == await ui_events(client, path)


@pytest.mark.requirement("LC-4", "LC-5")
async def test_the_state_is_the_projection_and_a_pending_action_ends_only_by_its_answer(
    client: httpx2.AsyncClient,
) -> None:
    run = await submit(client, "assistant", "publish it now", wait=20)
    path = f"/api/runs/{run['id']}"
    waiting = (await client.get(f"{path}/ui/state")).json()
    assert waiting == project(await ui_events(client, path))
    assert waiting["runtime"]["status"] == "waiting" and waiting["runtime"]["activeTurnId"] == run["id"]
    (action,) = waiting["readModel"]["pendingActions"]
    assert action["actionId"] == run["waitingOn"][0]
    assert [control["decision"] for control in action["actions"]] == ["approve", "deny"]
    await client.post(f"/api/interrupts/{run['waitingOn'][0]}/answer", json={"decision": "approve"})
    await reached(client, run["id"])
    ended = (await client.get(f"{path}/ui/state")).json()
    assert ended["runtime"]["status"] == "completed" and ended["readModel"]["pendingActions"] == []
    texts = [part["text"] for part in ended["messages"] if part["type"] == "text"]
    assert texts[0] == "publish it now" and texts[-1] == "It has been published."
    lane = (await client.get(f"{path}/ui/state/toolCalls")).json()
    assert lane["value"] == ended["toolCalls"] and lane["value"]["completedCallIds"]
    assert (await client.get(f"{path}/ui/state/nothing")).status_code == 400


@pytest.mark.requirement("LC-3")
async def test_foreign_events_are_checked_and_projected(client: httpx2.AsyncClient) -> None:
    run = await submit(client, "assistant", "please calculate", wait=20)
    events = await ui_events(client, f"/api/runs/{run['id']}")
    whole = (await client.post("/api/ui/validate", json={"events": events})).json()
    assert whole == {"valid": True, "issues": [], "violations": []}
    torn = [*events[:2], events[3] | {"payload": {"apiKey": "x"}}]
    found = (await client.post("/api/ui/validate", json={"events": torn})).json()
    assert not found["valid"]
    assert {(issue["code"], issue["path"]) for issue in found["issues"]} == {
        ("sequence_gap", "$.events[2].sequence"),
        ("secret_leak_risk", "$.events[2].payload.apiKey"),
    }
    projected = await client.post("/api/ui/project", json={"events": events})
    assert projected.json() == project(events)
    assert (await client.post("/api/ui/validate", json={"events": {}})).status_code == 400
    assert (await client.post("/api/ui/project", json={"events": [[[1]], None, {"id": 3}]})).status_code == 200


@pytest.mark.requirement("LC-4")
async def test_the_runtime_says_what_it_can_do(client: httpx2.AsyncClient) -> None:
    manifest = (await client.get("/api/ui/capabilities")).json()
    assert manifest["schemaVersion"] == "lime-runtime-event/v0.1"
    assert {"runtime.events", "human.actions"} <= {one["id"] for one in manifest["capabilities"]}
    assert all(set(one) == {"id", "status", "scope", "title"} for one in manifest["capabilities"])


@pytest.mark.requirement("LC-1")
async def test_a_socket_sends_ui_events_from_any_cursor(client: httpx2.AsyncClient, server: ServerProcess) -> None:
    run = await submit(client, "assistant", "please calculate", wait=20)
    path, thread = f"/api/threads/{run['threadId']}", run["threadId"]
    expected = await ui_events(client, path)
    for after in (0, len(expected) // 2, len(expected) - 1):
        query = f"?dialect=lime&threadId={thread}&afterSeq={after}"
        async with connect(f"{server.stream_url}{query}") as socket:
            assert (await receive(socket))["type"] == "ready"
            frames = [await receive(socket) for _ in expected[after:]]
        assert [(frame["type"], frame["seq"]) for frame in frames] == [
            (one["eventClass"], one["sequence"]) for one in expected[after:]
        ]
        extra = {"type", "seq", "part", "last"}
        assert [{key: frame[key] for key in frame.keys() - extra} for frame in frames] == expected[after:]
    async with connect(f"{server.stream_url}?dialect=lime&types=tool.*&threadId={thread}&afterSeq=0") as socket:
        assert (await receive(socket))["type"] == "ready"
        assert (await receive(socket))["type"].startswith("tool.")
    async with connect(f"{server.stream_url}?dialect=klingon") as socket:
        assert [(await receive(socket))["type"] for _ in range(2)] == ["ready", "error"]
