"""The Runtime's own limits take effect below the server's settings, and follow a reloaded workspace."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from app.core.settings import Settings
from tests.scenarios.test_control import Patient
from tests.server import InProcessServer, in_process

RUNTIME = "apiVersion: holdfast/v1\nkind: Runtime\nmetadata: {name: limits}\nspec:\n  defaultAgent: echo\n"
AGENTS = "".join(
    f"apiVersion: holdfast/v1\nkind: Agent\nmetadata: {{name: {name}}}\nspec: {{backend: echo}}\n---\n"
    for name in ("echo", "other")
)


class Limited:
    """A server whose workspace's Runtime can be rewritten."""

    def __init__(self, server: InProcessServer, client: httpx2.AsyncClient, folder: Path, patient: Patient) -> None:
        self.server, self.client, self.folder, self.patient = server, client, folder, patient

    async def set(self, *lines: str) -> None:
        (self.folder / "runtime.yaml").write_text(RUNTIME + "".join(f"  {line}\n" for line in lines))
        answer = await self.client.post("/api/workspace/reload")
        assert answer.status_code == 200, answer.text

    async def run(self, agent: str = "echo", **more: object) -> httpx2.Response:
        return await self.client.post("/api/runs", json={"agent": agent, "input": "x"} | more)

    async def begun(self) -> str:
        return await asyncio.wait_for(self.patient.begun.get(), 30)

    async def finish(self) -> None:
        """Every run ends, those that wait as well."""
        self.patient.go_on.set()
        async with asyncio.timeout(30):
            while self.server.holdfast.executor.waiting or self.server.holdfast.executor.running:
                await self.server.holdfast.executor.idle()
                await asyncio.sleep(0)
        self.patient.go_on.clear()
        while not self.patient.begun.empty():
            self.patient.begun.get_nowait()


@contextlib.asynccontextmanager
async def _limited(settings: Settings, folder: Path, **ceilings: object) -> AsyncIterator[Limited]:
    (folder / "runtime.yaml").write_text(RUNTIME)
    (folder / "agents.yaml").write_text(AGENTS)
    patient = Patient()
    async with (
        in_process(settings.model_copy(update={"workspace": folder, **ceilings}), {"echo": patient}) as server,
        httpx2.AsyncClient(base_url=server.url, timeout=60) as client,
    ):
        made = Limited(server, client, folder, patient)
        yield made
        await made.finish()


@pytest.fixture
async def limited(settings: Settings, tmp_path: Path) -> AsyncIterator[Limited]:
    async with _limited(settings, tmp_path, drain_seconds=20) as made:
        yield made


@pytest.fixture
async def slow(settings: Settings, tmp_path: Path) -> AsyncIterator[Limited]:
    """Four runs a minute; on Postgres all servers of the database count together, so only one test can use it."""
    async with _limited(settings, tmp_path, max_runs_per_minute_per_tenant=4) as made:
        yield made


@pytest.mark.requirement("OS-I3")
async def test_runs_per_minute_are_refused_with_the_time_to_wait(slow: Limited) -> None:
    await slow.set("budgets: {tenant: {runsPerMinute: 2}}")
    key = {"Idempotency-Key": "the-first"}
    body = {"agent": "echo", "input": "x"}
    first = await slow.client.post("/api/runs", json=body, headers=key)
    # The same request again starts nothing, so it does not count.
    repeated = await slow.client.post("/api/runs", json=body, headers=key)
    assert repeated.json()["id"] == first.json()["id"]
    assert (await slow.run()).status_code == 202
    refused = await slow.run()
    assert (refused.status_code, refused.json()["error"]["code"]) == (429, "RUNS_PER_MINUTE")
    assert 1 <= int(refused.headers["retry-after"]) <= 30
    over_openai = await slow.client.post(
        "/v1/chat/completions", json={"model": "echo", "messages": [{"role": "user", "content": "x"}]}
    )
    assert (over_openai.status_code, over_openai.json()["error"]["code"]) == (429, "runs_per_minute")
    asked = {"assistant_id": "echo", "input": {"messages": "x"}}
    over_langgraph = await slow.client.post("/langgraph/runs/wait", json=asked)
    assert (over_langgraph.status_code, over_langgraph.json()["code"]) == (429, "RUNS_PER_MINUTE")
    later = await slow.run()
    for told in (over_openai, over_langgraph):  # the time grows shorter, and all are told the same
        assert int(later.headers["retry-after"]) <= int(told.headers["retry-after"]) <= 30
    await _is_told_by_others(slow)
    await slow.set("budgets: {tenant: {runsPerMinute: 1000}}")  # above the server's own, which counts then
    assert [(await slow.run()).status_code for _ in range(3)] == [202, 202, 429]


async def _is_told_by_others(slow: Limited) -> None:
    """In the words of A2A, by both bindings and in a stream's stead, and of MCP."""
    said = {"message": {"messageId": "m1", "role": "ROLE_USER", "parts": [{"text": "x"}]}}
    for method in ("SendMessage", "SendStreamingMessage"):
        rpc = {"jsonrpc": "2.0", "id": 7, "method": method, "params": said}
        answer = await slow.client.post("/a2a/echo", json=rpc)
        error = answer.json()["error"]
        assert (answer.status_code, answer.json()["id"], error["code"]) == (429, 7, -32000)
        _says_when(answer, error["data"])
    for path in ("/a2a/echo/message:send", "/a2a/echo/message:stream"):
        answer = await slow.client.post(path, json=said)
        error = answer.json()["error"]
        assert (answer.status_code, error["status"]) == (429, "RESOURCE_EXHAUSTED")
        _says_when(answer, error["details"])
    meta = {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
    }
    call = {"name": "agent_echo", "arguments": {"message": "x"}, "_meta": meta}
    rpc = {"jsonrpc": "2.0", "id": 8, "method": "tools/call", "params": call}
    headers = {"mcp-protocol-version": "2026-07-28", "mcp-method": "tools/call", "mcp-name": "agent_echo"}
    accepts = {"accept": "application/json, text/event-stream"}
    answer = await slow.client.post("/mcp", json=rpc, headers=headers | accepts)
    assert answer.status_code == 429, answer.text
    assert answer.headers["retry-after"] == str(answer.json()["error"]["data"]["retryAfter"])


def _says_when(answer: httpx2.Response, details: list[dict[str, Any]]) -> None:
    info, retry = details
    assert info["metadata"]["code"] == "RUNS_PER_MINUTE"
    assert retry["@type"].endswith("google.rpc.RetryInfo")
    assert retry["retryDelay"] == answer.headers["retry-after"] + "s" and 1 <= int(answer.headers["retry-after"]) <= 30


@pytest.mark.requirement("OS-I3")
@pytest.mark.parametrize(
    ("line", "free"),
    [("concurrency: {runs: 1}", None), ("concurrency: {perTenant: 1}", None), ("concurrency: {perAgent: 1}", "other")],
    ids=["runs", "per-tenant", "per-agent"],
)
async def test_only_so_many_runs_work_at_once(limited: Limited, line: str, free: str | None) -> None:
    await limited.set(line)
    first, second = (await limited.run()).json(), (await limited.run()).json()
    assert await limited.begun() == first["id"]
    if free is not None:
        third = (await limited.run(free)).json()
        assert await limited.begun() == third["id"]
    waiting = (await limited.client.get(f"/api/runs/{second['id']}")).json()
    assert waiting["status"] == "queued"
    await limited.set("concurrency: {runs: 10}")  # more room from now on, without a restart
    assert await limited.begun() == second["id"]


@pytest.mark.requirement("OS-I3")
async def test_a_thread_takes_as_many_runs_as_the_workspace_says(limited: Limited) -> None:
    await limited.set("concurrency: {queuePerThread: 2}")
    first = (await limited.run()).json()
    thread = {"threadId": first["threadId"]}
    assert (await limited.run(**thread)).status_code == 202
    refused = await limited.run(**thread)
    assert (refused.status_code, refused.json()["error"]["code"]) == (429, "QUEUE_FULL")
    await limited.set("concurrency: {queuePerThread: 1000}")
    assert (await limited.run(**thread)).status_code == 202


@pytest.mark.requirement("OS-I3")
async def test_the_time_to_drain_is_the_smaller_one(limited: Limited) -> None:
    effective = limited.server.holdfast.effective
    assert effective.drain_seconds == 20
    await limited.set("drainSeconds: 7")
    assert effective.drain_seconds == 7
    await limited.set("drainSeconds: 70")
    assert effective.drain_seconds == 20


async def test_a_single_agent_answers_without_being_named(limited: Limited) -> None:
    (limited.folder / "agents.yaml").write_text(AGENTS.partition("---")[0])
    (limited.folder / "runtime.yaml").write_text(RUNTIME.replace("  defaultAgent: echo\n", "  {}\n"))
    assert (await limited.client.post("/api/workspace/reload")).json()["defaultAgent"] == "echo"
    limited.patient.go_on.set()
    answer = await limited.client.post("/api/runs", params={"wait": 20}, json={"input": "x"})
    assert (answer.json()["agent"], answer.json()["status"]) == ("echo", "completed")
