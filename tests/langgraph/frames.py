"""Frames of LangGraph streams for tests, with ids of the form `seq.part`."""

from dataclasses import dataclass
from typing import Any

import httpx2

from app.core import json
from tests.sse import blocks


@dataclass(frozen=True, slots=True)
class GraphFrame:
    id: str
    event: str
    data: Any


def parse_frame(block: bytes) -> GraphFrame | None:
    found = dict(line.partition(b": ")[::2] for line in block.split(b"\n"))
    if b"data" not in found:
        return None
    return GraphFrame(found[b"id"].decode(), found[b"event"].decode(), json.loads(found[b"data"]))


async def frames_of(
    client: httpx2.AsyncClient, method: str, path: str, *, body: Any = None, last_id: str | None = None
) -> list[GraphFrame]:
    headers = {} if last_id is None else {"last-event-id": last_id}
    async with client.stream(method, path, json=body, headers=headers) as answer:
        assert answer.status_code == 200, await answer.aread()
        found = [parse_frame(block) async for block in blocks(answer)]
    return [frame for frame in found if frame is not None]


def run_body(text: str, **more: Any) -> dict[str, Any]:
    return {"assistant_id": "helper", "input": {"messages": [{"role": "user", "content": text}]}, **more}


async def new_thread(client: httpx2.AsyncClient) -> str:
    thread_id: str = (await client.post("/threads", json={})).json()["thread_id"]
    return thread_id
