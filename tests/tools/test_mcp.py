"""Real MCP servers, over stdio and over HTTP: list, call, error, hang, crash and restart, a swapped schema."""

import asyncio
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from app.core.errors import Failure
from app.outside.http import HttpClient
from app.tools.contract import ToolOutcome, ToolRequest
from app.tools.gateway import Gateway
from app.tools.kinds.mcp_endpoint import McpEndpoint
from app.tools.kinds.mcp_sessions import Sessions
from app.tools.kinds.mcp_tools import McpServer, McpTool
from app.tools.registry import Registry
from tests.postgres import free_port
from tests.tools.recording import Recording, scope

ROOT = Path(__file__).parents[2]
COMMAND = (sys.executable, "-m", "tests.tools.servers.mcp_server")


@asynccontextmanager
async def connected(transport: str, **fields: Any) -> AsyncIterator[Sessions]:
    client = HttpClient()
    async with asyncio.timeout(60), _server(transport) as place:
        # A program of Python may need long to start on a busy machine.
        sessions = Sessions(McpEndpoint("test", **place, **({"connect_seconds": 60.0} | fields)), client)
        try:
            yield sessions
        finally:
            await sessions.close()
            await client.close()


@asynccontextmanager
async def _server(transport: str) -> AsyncIterator[dict[str, Any]]:
    if transport == "stdio":
        yield {"command": COMMAND, "env": {"PYTHONPATH": str(ROOT)}}
        return
    port = free_port()
    process = await asyncio.create_subprocess_exec(*COMMAND, "--port", str(port), cwd=ROOT)
    try:
        for _ in range(3000):
            try:
                _, writer = await asyncio.open_connection("127.0.0.1", port)
                writer.close()
                break
            except OSError:
                await asyncio.sleep(0.02)
        yield {"url": f"http://127.0.0.1:{port}/mcp", "private": frozenset({"127.0.0.1"})}
    finally:
        process.kill()
        await process.wait()


async def tools_of(server: McpServer, **fields: Any) -> dict[str, McpTool]:
    tools = await server.take_up(**fields)
    assert not isinstance(tools, Failure), tools
    return {tool.remote: tool for tool in tools}


async def call(tools: dict[str, McpTool], name: str, arguments: dict[str, Any]) -> ToolOutcome:
    gateway = Gateway(Registry(tools.values()), cancel_grace=0.5)
    return await gateway.call(ToolRequest("call_1", name, arguments), scope(*tools), Recording().ports())


@pytest.mark.requirement("HK-19", "S12")
@pytest.mark.parametrize("transport", ["stdio", "http"])
async def test_tools_are_listed_called_guarded_and_blocked_once_their_schema_changes(transport: str) -> None:
    async with connected(transport) as sessions:
        tools = await tools_of(McpServer(sessions), effect="keyed", timeout_seconds=15)
        assert {"add", "fail", "hang"} <= set(tools)
        assert (await call(tools, "add", {"a": 1, "b": 2})).output == {"result": 3}
        refused = await call(tools, "add", {"a": "one", "b": 2})
        assert refused.error is not None
        assert refused.error.code == "INVALID_ARGUMENTS"
        failed = await call(tools, "fail", {"why": "because"})
        assert failed.error is not None
        assert failed.error.code == "TOOL_FAILED"
        key = await call(tools, "key", {})
        assert isinstance(key.output, dict)
        assert str(key.output["result"]).startswith("hf-")
        assert (await call(tools, "swap", {})).ok
        blocked = await call(tools, "add", {"a": 1, "b": 2})
        assert blocked.error is not None
        assert blocked.error.code == "TOOL_SCHEMA_CHANGED"


@pytest.mark.requirement("HK-19", "G4")
async def test_after_a_crash_the_server_restarts_and_only_what_may_be_repeated_is_repeated(tmp_path: Path) -> None:
    async with connected("stdio") as sessions:
        server = McpServer(sessions)
        repeatable = await tools_of(server, effect="readonly", timeout_seconds=15)
        assert (await call(repeatable, "crash", {"once": str(tmp_path / "first")})).output == {"result": "survived"}
        careful = await tools_of(server, effect="unsafe", timeout_seconds=15)
        outcome = await call(careful, "crash", {"once": str(tmp_path / "second")})
        assert outcome.error is not None
        assert outcome.error.code == "TOOL_FAILED"
        assert "not known" in outcome.error.message


@pytest.mark.requirement("HK-19", "S12", "G21")
async def test_pins_and_scope_hold_the_environment_is_scrubbed_and_a_hang_ends(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("API_TOKEN", "secret")
    async with connected("stdio") as sessions:
        allowed = frozenset({"add", "environment", "hang"})
        server = McpServer(sessions, allow=allowed, pins={"add": "0" * 64})
        tools = await tools_of(server, effect="readonly")
        assert set(tools) == allowed
        outcome = await call(tools, "add", {"a": 1, "b": 2})
        assert outcome.error is not None
        assert outcome.error.code == "TOOL_SCHEMA_CHANGED"
        given = await call(tools, "environment", {})
        assert given.ok
        assert "API_TOKEN" not in str(given.output)
        hurried = await tools_of(server, effect="readonly", timeout_seconds=0.5)
        outcome = await call(hurried, "hang", {})
        assert outcome.error is not None
        assert outcome.error.code == "TOOL_TIMEOUT"


@pytest.mark.requirement("HK-19", "S12")
@pytest.mark.parametrize("transport", ["stdio", "http"])
@pytest.mark.parametrize(("tool", "arguments"), [("flood", {"size": 50_000_000}), ("scatter", {"values": 200_000})])
async def test_a_server_that_answers_with_far_too_much_is_ended_and_the_next_call_works(
    transport: str, tool: str, arguments: dict[str, Any]
) -> None:
    async with connected(transport) as sessions:
        tools = await tools_of(McpServer(sessions), effect="readonly", timeout_seconds=30)
        outcome = await call(tools, tool, arguments)
        assert outcome.error is not None
        assert outcome.error.code == "OUTPUT_TOO_LARGE"
        assert "16,777,216 bytes or 100,000 values" in outcome.error.message
        assert (await call(tools, "add", {"a": 1, "b": 2})).output == {"result": 3}


@pytest.mark.requirement("HK-19", "S12")
@pytest.mark.parametrize("said", ["'x' * 20_000_000", "'[' + '0,' * 200_000 + '0]'"], ids=["bytes", "values"])
async def test_a_server_that_says_far_too_much_when_it_is_connected_is_refused_at_once(said: str) -> None:
    client = HttpClient()
    program = f"print({said}, flush=True); input(); input()"
    sessions = Sessions(McpEndpoint("test", (sys.executable, "-c", program), connect_seconds=30), client)
    async with asyncio.timeout(30):
        offers = await McpServer(sessions).offers()
    assert isinstance(offers, Failure) and offers.code == "OUTPUT_TOO_LARGE"
    await sessions.close()
    await client.close()


@pytest.mark.requirement("G21")
async def test_the_end_of_a_servers_own_log_is_in_ours_without_secrets_when_it_breaks(tmp_path: Path) -> None:
    log, secret = Recording(), "sk-secret-123"
    client = HttpClient()
    env = {"PYTHONPATH": str(ROOT), "TOKEN": "${env:TOKEN}"}
    endpoint = McpEndpoint("test", COMMAND, env=env, connect_seconds=60, sessions=1)
    sessions = Sessions(endpoint, client, {"TOKEN": secret}.get)
    tools = await tools_of(McpServer(sessions), effect="unsafe", timeout_seconds=15)
    gateway = Gateway(Registry(tools.values()))
    with capture_logs() as seen:
        for name, arguments in (
            ("flood", {"size": 1, "say": f"about to fail with {secret}"}),
            ("crash", {"once": str(tmp_path / "crashed")}),
        ):
            await gateway.call(ToolRequest("call_1", name, arguments), scope(*tools), log.ports())
        await sessions.close()
        await client.close()
    [entry] = [entry for entry in seen if entry["event"] == "an MCP server ended"]
    assert (entry["server"], entry["status"], entry["log_level"]) == ("test", 1, "warning")
    assert entry["said"].endswith("about to fail with [REDACTED:secret]")
    assert "about to fail" not in str([event.to_json() for event in log.events if event.type.endswith("resulted")])


@pytest.mark.requirement("HK-19")
async def test_a_server_that_cannot_be_started_or_never_answers_is_unavailable() -> None:
    client = HttpClient()
    for command in (("no-such-program-4715",), (sys.executable, "-c", "import time; time.sleep(60)")):
        sessions = Sessions(McpEndpoint("test", command=command, connect_seconds=0.5), client)
        offers = await McpServer(sessions).offers()
        assert isinstance(offers, Failure)
        assert offers.code == "TOOL_UNAVAILABLE"
        await sessions.close()
    await client.close()


@pytest.mark.requirement("S11")
async def test_an_mcp_server_at_a_private_address_is_refused_unless_allowed_by_name() -> None:
    asked = asyncio.Event()
    listener = await asyncio.start_server(lambda _r, _w: asked.set(), "127.0.0.1", 0)
    port = listener.sockets[0].getsockname()[1]
    client = HttpClient()
    for host in ("127.0.0.1", "[::ffff:127.0.0.1]", "localhost"):
        sessions = Sessions(McpEndpoint("test", url=f"http://{host}:{port}/mcp", connect_seconds=30), client)
        offers = await McpServer(sessions).offers()
        assert isinstance(offers, Failure)
        assert offers.code == "TOOL_UNAVAILABLE"
        await sessions.close()
    listener.close()
    await client.close()
    assert not asked.is_set()


@pytest.mark.requirement("HK-28")
async def test_a_server_that_speaks_another_version_of_the_protocol_is_not_used() -> None:
    async with connected("stdio", protocol="2024-11-05") as sessions:
        refused = await McpServer(sessions).offers()
        assert isinstance(refused, Failure) and refused.code == "MCP_PROTOCOL_MISMATCH"
        (lacking,) = refused.detail["candidates"]
        assert (lacking["mcpServer"], lacking["lacks"]) == ("test", ["mcpProtocolVersion=2024-11-05"])
        (has,) = lacking["has"]
        assert len(sessions) == 0, "its process is ended"
    async with connected("stdio", protocol=has.partition("=")[2]) as sessions:
        assert "add" in await tools_of(McpServer(sessions))
