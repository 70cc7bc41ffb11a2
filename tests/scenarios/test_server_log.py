"""What operators see of runs and requests: lines of the server's log, and metrics."""

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests.clients import submit
from tests.server import ServerProcess


@pytest.fixture(scope="module")
def logged(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    server = ServerProcess.start(tmp_path_factory.mktemp("logged"), variables={"HOLDFAST_ACCESS_LOG": "true"})
    try:
        yield server
    finally:
        if server.is_running:
            server.stop()


@pytest.fixture
async def client(logged: ServerProcess) -> AsyncIterator[httpx2.AsyncClient]:
    async with httpx2.AsyncClient(base_url=logged.url, timeout=60) as client:
        yield client


def lines(server: ServerProcess, **wanted: Any) -> list[dict[str, Any]]:
    written = server.errors().splitlines(keepends=True)
    entries = [json.loads(line) for line in written if line.startswith("{") and line.endswith("\n")]
    return [entry for entry in entries if all(entry.get(name) == value for name, value in wanted.items())]


async def line(server: ServerProcess, **wanted: Any) -> dict[str, Any]:
    """The only line with these values, as soon as it is there."""
    async with asyncio.timeout(30):
        while not (found := lines(server, **wanted)):  # noqa: ASYNC110  a file has no event
            await asyncio.sleep(0.01)
    assert len(found) == 1, found
    return found[0]


async def metrics(client: httpx2.AsyncClient) -> dict[str, float]:
    rows = (await client.get("/metrics")).text.splitlines()
    return {name: float(value) for name, value in (row.rsplit(" ", 1) for row in rows if not row.startswith("#"))}


@pytest.mark.requirement("G13")
async def test_a_run_is_one_line_at_its_start_and_one_at_its_end(
    logged: ServerProcess, client: httpx2.AsyncClient
) -> None:
    run = await submit(client, "assistant", "a word that must stay out of the log", wait=20)
    ids = {"run": run["id"], "thread": run["threadId"], "tenant": "default", "agent": "assistant"}
    await line(logged, event="run.started", **ids)
    ended = await line(logged, event="run.ended", **ids)
    assert ended["status"] == "completed" and ended["level"] == "info"
    assert ended["seconds"] >= ended["worked_seconds"] >= 0
    assert (ended["input_tokens"], ended["output_tokens"]) == (
        run["usage"]["inputTokens"], run["usage"]["outputTokens"],
    )  # fmt: skip
    assert "stay out of the log" not in logged.errors()


async def test_a_failed_run_says_its_code(logged: ServerProcess, client: httpx2.AsyncClient) -> None:
    run = await submit(client, "assistant", "fail please", wait=20)
    ended = await line(logged, event="run.ended", run=run["id"])
    assert (ended["status"], ended["code"]) == ("failed", "PROVIDER_ERROR")


async def test_requests_are_logged_and_counted_by_route(logged: ServerProcess, client: httpx2.AsyncClient) -> None:
    await client.get("/api/runs/run_that_is_not_there")
    await client.get("/api/runs/another?secret=in-the-query")
    entry = await line(logged, event="http.request", path="/api/runs/run_that_is_not_there")
    assert (entry["status"], entry["method"], entry["route"]) == (404, "GET", "/api/runs/{run_id}")
    await client.get("/no/such/place")
    async with client.stream(
        "POST", "/v1/chat/completions",
        json={"model": "assistant", "stream": True, "messages": [{"role": "user", "content": "Hi"}]},
    ) as answer:  # fmt: skip
        await answer.aread()
    found = await metrics(client)
    for method, route, status in (
        ("GET", "/api/runs/{run_id}", 404), ("GET", "(none)", 404), ("POST", "/v1/chat/completions", 200),
    ):  # fmt: skip
        assert found[f'holdfast_http_requests_total{{method="{method}",route="{route}",status="{status}"}}'] >= 1
    assert not any("that_is_not_there" in name or "such" in name for name in found)
    assert "in-the-query" not in logged.errors()


async def test_open_approvals_are_counted_also_after_a_restart(tmp_path: Path) -> None:
    gauge = 'holdfast_interrupts_open{kind="approval"}'
    server = await asyncio.to_thread(ServerProcess.start, tmp_path)
    async with httpx2.AsyncClient(base_url=server.url, timeout=60) as client:
        run = await submit(client, "assistant", "publish it", wait=20)
        assert run["status"] == "waiting"
        waits = await line(server, event="run.waiting", run=run["id"])
        assert (waits["kind"], waits["agent"]) == ("approval", "assistant")
        assert (await metrics(client))[gauge] == 1
        assert lines(server, event="http.request") == [], "requests are logged at debug only"
    await asyncio.to_thread(server.stop)
    server = await asyncio.to_thread(ServerProcess.start, tmp_path)
    try:
        async with httpx2.AsyncClient(base_url=server.url, timeout=60) as client:
            found = await metrics(client)
            assert found[gauge] == 1 and found["holdfast_model_calls_limit"] == 256
            await client.post(f"/api/interrupts/{waits['interrupt']}/answer", json={"decision": "deny"})
            ended = await line(server, event="run.ended", run=run["id"])
            assert ended["agent"] == "assistant" and ended["status"] == "completed"
    finally:
        await asyncio.to_thread(server.stop)
