"""What an agent with a blocking gate streams: nothing before the verdict, over every kind of stream."""

from collections.abc import AsyncIterator
from pathlib import Path

import httpx2
import pytest
from websockets.asyncio.client import connect

from app.core.settings import Settings
from tests.clients import receive, submit
from tests.evals.judged import agent, write
from tests.server import InProcessServer, in_process


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[InProcessServer]:
    gates = "[{evaluator: polite, mode: blocking}]"
    root = write(tmp_path, agent("clerk", gates), agent("parrot", gates, "  backend: echo\n"))
    async with in_process(Settings(data_dir=tmp_path / "data", workspace=root)) as started:
        yield started


@pytest.mark.requirement("HK-23")
async def test_openai_stream_gets_the_whole_answer_or_none(server: InProcessServer) -> None:
    async with httpx2.AsyncClient(base_url=server.url, timeout=30) as client:
        for text, said in (("hello", True), ("be rude", False)):
            body = {"model": "clerk", "stream": True, "messages": [{"role": "user", "content": text}]}
            async with client.stream("POST", "/v1/chat/completions", json=body) as answer:
                got = (await answer.aread()).decode()
            assert "fool" not in got
            assert ("Yes, please: hello" in got) is said
            assert ("gate_not_passed" in got) is not said
        plain = await client.post("/v1/chat/completions", json=body | {"stream": False})
        assert plain.status_code >= 400 and "fool" not in plain.text
        responses = {"model": "clerk", "stream": True, "input": "be rude"}
        async with client.stream("POST", "/v1/responses", json=responses) as answer:
            assert "fool" not in (await answer.aread()).decode()


@pytest.mark.requirement("HK-23")
async def test_server_sent_events_and_views_never_show_a_refused_answer(server: InProcessServer) -> None:
    async with httpx2.AsyncClient(base_url=server.url, timeout=30) as client:
        run = await submit(client, "clerk", "be rude", wait=25)
        assert run["status"] == "failed" and run["error"]["code"] == "GATE_NOT_PASSED"
        for path in ("stream", "events", "trace", "snapshot", "journal", "audit"):
            answer = await client.get(f"/api/runs/{run['id']}/{path}")
            assert answer.status_code == 200 and "fool" not in answer.text, path
        for path in ("messages", "transcript"):
            answer = await client.get(f"/api/threads/{run['threadId']}/{path}")
            assert answer.status_code == 200 and "fool" not in answer.text, path


@pytest.mark.requirement("HK-23")
async def test_websocket_shows_the_answer_after_the_verdict_and_not_before(server: InProcessServer) -> None:
    async with connect(server.stream_url) as socket, httpx2.AsyncClient(base_url=server.url) as client:
        assert (await receive(socket))["type"] == "ready"
        for name, text in (("clerk", "be rude"), ("clerk", "hello"), ("parrot", "yes please, hello")):
            run = await submit(client, name, text, wait=25)
            decided = False
            while True:
                frame = await receive(socket)
                if frame.get("threadId") != run["threadId"]:
                    continue
                if frame.get("type") == "runtime.gate.evaluated":
                    decided = True
                shown = str(frame)
                assert "fool" not in shown
                if not decided and frame.get("type") != "runtime.request.queued":
                    assert "please: hello" not in shown
                if frame.get("type") in ("runtime.request.completed", "runtime.request.failed"):
                    break
            assert decided
