"""Clients of the stable-harness event model: the same events with its ids and trace views, on all three ways."""

from pathlib import Path
from typing import Any

import httpx2
import pytest
from websockets.asyncio.client import connect

from app.core import json
from app.core.settings import Settings
from tests.clients import submit
from tests.server import in_process

STABLE = {"dialect": "stable-harness"}


@pytest.mark.requirement("SH-26", "SH-13", "PX-3")
async def test_events_have_the_published_ids_and_categories_as_page_stream_and_frames(
    settings: Settings, tmp_path: Path
) -> None:
    async with in_process(settings) as server, httpx2.AsyncClient(base_url=server.url) as client:
        async with connect(f"{server.stream_url}?dialect=stable-harness") as socket:
            assert json.loads((await socket.recv()).encode())["type"] == "ready"  # type: ignore[union-attr]
            run = await submit(client, "echo", "hello there", wait=30)
            frames: list[dict[str, Any]] = []
            while not frames or frames[-1]["type"] != "runtime.request.completed":
                frames.append(json.loads((await socket.recv()).encode()))  # type: ignore[union-attr]
        page = (await client.get(f"/api/runs/{run['id']}/events", params=STABLE)).json()["items"]
        native = (await client.get(f"/api/runs/{run['id']}/events")).json()["items"]
        assert [event["id"] for event in page] == [event["id"] for event in native]
        for event in page:
            assert (event["requestId"], event["sessionId"], event["agentId"]) == (run["id"], run["threadId"], "echo")
        by_type = {event["type"]: event for event in page}
        assert by_type["runtime.request.completed"]["output"] == "hello there"
        assert by_type["runtime.request.completed"]["trace"] == {
            "view": "runtime.trace.request", "category": "request",
        }  # fmt: skip
        assert by_type["runtime.adapter.event"]["trace"]["category"] == "adapter"
        assert {"threadId": run["threadId"], "part": 0, "last": True}.items() <= frames[-1].items()
        of_run = [frame for frame in frames if frame["requestId"] == run["id"]]
        assert [{k: v for k, v in f.items() if k not in ("threadId", "part", "last")} for f in of_run] == page
        for path in (f"/api/runs/{run['id']}/stream", f"/api/threads/{run['threadId']}/stream"):
            async with client.stream("GET", path, params=STABLE) as answer:
                data = []
                async for line in answer.aiter_lines():
                    if line.startswith("data: "):
                        data.append(json.loads(line.removeprefix("data: ").encode()))
                    if data and data[-1].get("type") == "runtime.request.completed":
                        break
                assert [event for event in data if event["requestId"] == run["id"]] == page
        assert (await client.get(f"/api/runs/{run['id']}/events", params={"dialect": "other"})).status_code == 400
