"""Long responses: taken up after every number, cut at random, and across a server that was killed."""

import asyncio
import random
from pathlib import Path
from typing import Any, Final

import httpx2
import pytest

from app.core import json
from tests.openai.test_responses import frames
from tests.server import ServerProcess

WORDS: Final = 995
"""With what stands around them, a thousand events."""
LONG: Final = 2000
"""Words that take a server seconds: it is killed long before the last, also by a client that stalls."""
_ENDS: Final = ("response.completed", "response.failed", "response.incomplete")


async def _first_after(port: int, path: str, number: int) -> dict[str, Any]:
    """The first frame after that number, by a bare socket: a thousand of these are to be quick."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        query = f"stream=true&starting_after={number}"
        writer.write(f"GET {path}?{query} HTTP/1.1\r\nhost: localhost\r\n\r\n".encode())
        assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 200")
        await reader.readuntil(b"data: ")
        frame: dict[str, Any] = json.loads(await reader.readuntil(b"\n"))
        return frame
    finally:
        writer.transport.abort()


async def _ask(api: httpx2.AsyncClient, words: int) -> str:
    body = {"model": "echo", "input": " ".join(map(str, range(words))), "background": True}
    response_id: str = (await api.post("/v1/responses", json=body)).json()["id"]
    return f"/v1/responses/{response_id}"


async def _follow(
    api: httpx2.AsyncClient, path: str, got: list[dict[str, Any]], most: int, cuts: random.Random
) -> None:
    """Goes on after what it has, cut off again and again, until it has that many or the end."""
    while len(got) < most and (not got or got[-1]["type"] not in _ENDS):
        left = min(cuts.randint(1, 150), most - len(got))
        params = {"stream": "true", "starting_after": str(got[-1]["sequence_number"] if got else -1)}
        async with api.stream("GET", path, params=params) as answer:
            async for line in answer.aiter_lines():
                if line.startswith("data: "):
                    got.append(json.loads(line.removeprefix("data: ")))
                    left -= 1
                if left == 0:
                    break


@pytest.mark.requirement("PX-5", "PX-1", "G2")
async def test_a_thousand_events_cut_at_random_and_taken_up_after_every_number(
    server: ServerProcess, api: httpx2.AsyncClient
) -> None:
    path = await _ask(api, WORDS)
    got: list[dict[str, Any]] = []
    await _follow(api, path, got, 10 * WORDS, random.Random(11))  # a fixed course
    run_id = path.removeprefix("/v1/responses/resp_").removesuffix("_0")
    assert (await api.get(f"/api/runs/{run_id}")).json()["lastSeq"] >= 1000
    whole = await frames(api, path.rpartition("/")[2])
    assert [frame["sequence_number"] for frame in whole] == list(range(len(whole)))
    assert got == whole
    port, todo = int(server.url.rsplit(":", 1)[1]), iter(range(-1, len(whole) - 1))

    async def take() -> None:
        for number in todo:
            assert await _first_after(port, path, number) == whole[number + 1], number

    async with asyncio.TaskGroup() as group:
        for _ in range(4):
            group.create_task(take())
    assert await frames(api, path.rpartition("/")[2], len(whole) - 1) == []


@pytest.mark.requirement("PX-5", "PX-1", "G2", "G6")
async def test_a_response_goes_on_where_it_was_when_its_server_was_killed(tmp_path: Path) -> None:
    cuts = random.Random(5)
    got: list[dict[str, Any]] = []
    server = await asyncio.to_thread(ServerProcess.start, tmp_path)
    try:
        async with httpx2.AsyncClient(base_url=server.url, timeout=30, verify=False) as api:
            path = await _ask(api, LONG)
            await _follow(api, path, got, 150, cuts)
        await asyncio.to_thread(server.kill)
        server = await asyncio.to_thread(ServerProcess.start, tmp_path)
        async with httpx2.AsyncClient(base_url=server.url, timeout=30, verify=False) as api:
            await _follow(api, path, got, 10_000, cuts)
            whole = await frames(api, path.rpartition("/")[2])
    finally:
        await asyncio.to_thread(server.stop)
    assert [frame["sequence_number"] for frame in whole] == list(range(len(whole)))
    assert got == whole
    # What was cut off by the crash is no part of the answer.
    cut, answer = whole[-1]["response"]["output"]
    assert (cut["status"], cut["content"], answer["status"]) == ("incomplete", [], "completed")
    assert answer["content"][0]["text"] == " ".join(map(str, range(LONG)))
