"""Bodies made to cost much: refused with a short answer, whichever interface they are sent to."""

import json
import threading
from typing import Any

import httpx2
import pytest
from websockets.asyncio.client import connect

from app.protocols.http.body import LARGE_BYTES, off_loop
from tests.server import ServerProcess

JSON = {"content-type": "application/json"}
ZEROS = b"[" + b"0," * 499_999 + b"0]"
CHAT = {"model": "echo", "messages": [{"role": "user", "content": "hi"}]}


def _error(answer: httpx2.Response) -> Any:
    body = answer.json()
    return body.get("error", body)


@pytest.mark.requirement("S10")
@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/api/runs", b'{"agent":"echo","input":' + ZEROS + b"}"),
        ("/api/runs", b'{"agent":"echo","input":"x","metadata":{"a":' + ZEROS + b"}}"),
        ("/v1/chat/completions", b'{"model":"echo","messages":' + ZEROS + b"}"),
        ("/v1/responses", b'{"model":"echo","input":' + ZEROS + b"}"),
        ("/api/sessions", b'{"settings":{"a":' + ZEROS[:900_000] + b"0]}}"),
    ],
)
async def test_half_a_million_values_get_a_short_answer(client: httpx2.AsyncClient, path: str, body: bytes) -> None:
    answer = await client.post(path, content=body, headers=JSON)
    assert answer.status_code == 400
    assert len(answer.content) < 1000
    assert "more than 100000 values" in _error(answer)["message"]


@pytest.mark.requirement("S10")
@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/api/runs", {"agent": "echo", "input": [0] * 50_000}),
        ("/api/runs", {"agent": "echo", "input": [{"type": "text"}] * 9_000}),
        ("/api/runs", {"agent": "echo", "input": "x", **{f"field{n}": n for n in range(20_000)}}),
        ("/api/runs", {"agent": "echo", "input": "x", "limits": {f"field{n}": n for n in range(20_000)}}),
        ("/api/runs", {"agent": "echo", "input": "x", "limits": {f"field{n}": n for n in range(500)}}),
        ("/api/runs", {"agent": "echo", "input": "x", "metadata": {f"key{n}": n for n in range(20_000)}}),
        ("/api/runs", {"agent": "echo", "input": "x", "metadata": {"key": "x" * 20_000}}),
        ("/api/runs", {"agent": "echo", "input": "x", "labels": {f"key{n}": "" for n in range(20_000)}}),
        ("/api/runs", {"agent": "echo", "input": "x", "labels": {"key": "x" * 201}}),
        ("/api/threads", {"metadata": {f"key{n}": n for n in range(20_000)}}),
        ("/v1/chat/completions", CHAT | {"metadata": {f"key{n}": n for n in range(20_000)}}),
        ("/v1/chat/completions", CHAT | {"messages": [0] * 50_000}),
        ("/v1/chat/completions", CHAT | {"tools": [0] * 50_000}),
        ("/v1/responses", {"model": "echo", "input": "x", "metadata": {f"key{n}": n for n in range(20_000)}}),
        ("/api/tool-input/none/decision", {"decision": "accept", "answers": {f"key{n}": n for n in range(20_000)}}),
    ],
)
async def test_no_answer_lists_more_than_twenty_issues(
    client: httpx2.AsyncClient, path: str, body: dict[str, Any]
) -> None:
    answer = await client.post(path, content=json.dumps(body).encode(), headers=JSON)
    assert answer.status_code == 400, answer.text[:300]
    assert len(answer.content) < 4000
    assert len(_error(answer).get("issues", [])) <= 20


@pytest.mark.parametrize("path", ["/api/runs", "/v1/chat/completions"])
async def test_more_text_than_any_model_reads_is_refused(client: httpx2.AsyncClient, path: str) -> None:
    text = "word, " * 800_000
    body = (
        {"agent": "echo", "input": text}
        if path == "/api/runs"
        else CHAT | {"messages": [{"role": "user", "content": text}]}
    )
    answer = await client.post(path, content=json.dumps(body).encode(), headers=JSON)
    assert answer.status_code == 413
    assert _error(answer)["code"].upper() == "BODY_TOO_LARGE"


async def test_a_text_full_of_commas_is_taken(client: httpx2.AsyncClient) -> None:
    text = ",[{" * 40_000  # one word: the agent repeats each in an event of its own
    answer = await client.post("/api/runs?wait=20", json={"agent": "echo", "input": text})
    assert (answer.status_code, answer.json()["input"]["$blob"]["size"]) == (200, len(text))


async def test_a_huge_command_is_answered_as_invalid_and_the_socket_lives(server: ServerProcess) -> None:
    async with connect(server.stream_url, max_size=None) as socket:
        await socket.recv()
        await socket.send(b'{"type":"ping","x":' + ZEROS[:500_000] + b"0]}")
        assert "error" in json.loads(await socket.recv())["type"]
        await socket.send('{"type":"ping"}')
        assert json.loads(await socket.recv())["type"] == "pong"


async def test_a_large_body_is_read_in_a_thread_and_a_small_one_at_once() -> None:
    here = threading.current_thread()
    assert await off_loop(LARGE_BYTES, threading.current_thread) is here
    assert await off_loop(LARGE_BYTES + 1, threading.current_thread) is not here
