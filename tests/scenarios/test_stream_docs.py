"""The examples of docs/stream.md, said to a real server and compared with what it answers."""

import asyncio
import re
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

import httpx2
import pytest
from websockets.asyncio.client import connect

from app.core import json
from tests.server import ServerProcess

PAGE = (Path(__file__).parents[2] / "docs/stream.md").read_text()
LISTENING, COMMANDS, FRAMES, BACK, DROPPED = re.findall(r"```text\n(.*?)```", PAGE, re.DOTALL)


def lines_of(block: str, mark: str) -> list[str]:
    return [line.removeprefix(mark) for line in block.splitlines() if line.startswith(mark)]


def like(example: str) -> "re.Pattern[str]":
    """An example as a pattern: `...` stands for what differs from run to run."""
    return re.compile(re.escape(example).replace(re.escape("..."), ".+?"))


async def _next(socket: Any) -> str:
    return str(await asyncio.wait_for(socket.recv(), 30))


@pytest.mark.requirement("CM-1")
async def test_the_first_example_is_how_a_socket_begins(server: ServerProcess) -> None:
    query = lines_of(LISTENING, "-> GET /api/stream")[0]
    async with connect(server.stream_url + query) as socket:
        assert await _next(socket) == lines_of(LISTENING, "<- ")[0]


@pytest.mark.requirement("CM-1")
async def test_every_command_of_the_page_is_one(server: ServerProcess) -> None:
    async with connect(server.stream_url) as socket:
        await _next(socket)
        for command in lines_of(COMMANDS, "-> "):
            await socket.send(command)
        assert await _next(socket) == lines_of(COMMANDS, "<- ")[0]


@pytest.mark.requirement("CM-1", "PX-1")
async def test_the_frames_of_the_page_are_those_of_an_echo(server: ServerProcess, client: httpx2.AsyncClient) -> None:
    body = {"agent": "echo", "input": "hello world", "threadId": "thr_plans", "createThread": True}
    run = (await client.post("/api/runs", params={"wait": 30}, json=body)).json()
    assert run["status"] == "completed"
    async with connect(f"{server.stream_url}?threadId=thr_plans&afterSeq=0") as socket:
        await _next(socket)
        received = [await _next(socket)]
        while '"text":"world"' not in received[-1]:
            received.append(await _next(socket))
        seq = json.loads(received[-1])["seq"]
        frames = [received[-1], await _next(socket), await _next(socket)]
    for example, frame in zip(lines_of(FRAMES, "<- "), frames, strict=True):
        assert like(example.replace('"seq":4', f'"seq":{seq}')).fullmatch(frame), frame
    asked = parse_qs(lines_of(BACK, "-> GET /api/stream?")[0])
    query = f"?threadId={asked['threadId'][0]}&afterSeq={seq}&afterPart={asked['afterPart'][0]}"
    async with connect(server.stream_url + query) as socket:
        for example in lines_of(BACK, "<- "):
            assert like(example.replace('"seq":4', f'"seq":{seq}')).fullmatch(await _next(socket))


async def test_the_description_of_the_stream_is_served(client: httpx2.AsyncClient) -> None:
    served = (await client.get("/asyncapi.json")).json()
    assert served["channels"]["stream"]["address"] == "/api/stream"
    checked_in = json.loads((Path(__file__).parents[2] / "openapi/asyncapi.json").read_bytes())
    assert served == checked_in
