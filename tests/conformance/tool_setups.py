"""One setup per kind of tool: the kind as it ships, and a real peer that does what a test asks of it.

A peer that works on holds a connection to the `Presence` of the test, so that the end of the work can be seen
from outside in the same way for a function, a server and a program.
"""

import asyncio
import os
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from aiohttp import web

from app.core.errors import Failure
from app.core.json import JsonObject
from app.outside.http import HttpClient
from app.tools.contract import BytesResult, Result, Tool, ToolContext, ToolDefinition
from app.tools.functions import as_result
from app.tools.kinds.builtin import BuiltinTool
from app.tools.kinds.http import HttpRequest, HttpTool
from app.tools.kinds.mcp_endpoint import McpEndpoint
from app.tools.kinds.mcp_sessions import Sessions
from app.tools.kinds.mcp_tools import McpServer
from app.tools.kinds.python import PythonTool
from app.tools.kinds.subprocess import CommandTemplate, SubprocessTool
from app.workspace.templates import Template, tolerant_template

KINDS: Final = ("python", "http", "mcp", "builtin", "subprocess")
SECRET: Final = 'sk-"quoted"-secret-123'  # is spelt differently within JSON, and must not be seen there either
PICTURE: Final = b"\x89PNG\x00"
ROOT: Final = Path(__file__).parents[2]
PROGRAM: Final = ROOT / "tests/tools/servers/program.py"

_ANY: Final = {"type": "object", "additionalProperties": True}
_TEXTUAL: Final = frozenset({"text", "large"})
Make = Callable[[str, ToolDefinition], Tool]


def template(text: str) -> Template:
    return tolerant_template(text, ("args",))


@dataclass(frozen=True)
class ToolSetup:
    kind: str
    make: Make
    warm: Callable[[], Any] | None = None

    async def tool(self, do: str, **fields: Any) -> Tool:
        """A tool of this kind, called with `{"do": do}`; its peer is up when this returns."""
        if self.warm is not None:
            await self.warm()
        return self.make(
            do, replace(ToolDefinition("act", input=_ANY, effect="readonly", timeout_seconds=20), **fields)
        )


class Presence:
    """Sees work begin, and sees it end."""

    def __init__(self) -> None:
        self.started, self.ended = asyncio.Event(), asyncio.Event()
        self.port = 0

    @classmethod
    @asynccontextmanager
    async def watching(cls) -> AsyncIterator["Presence"]:
        presence = cls()
        server = await asyncio.start_server(presence._greet, "127.0.0.1", 0)
        presence.port = server.sockets[0].getsockname()[1]
        async with asyncio.timeout(30), server:
            yield presence

    async def _greet(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.started.set()
        try:
            await reader.read()
        except ConnectionError:
            pass  # killed rather than closed: also an end
        finally:
            self.ended.set()
            writer.close()


@asynccontextmanager
async def open_tool_setup(kind: str) -> AsyncIterator[ToolSetup]:
    async with {
        "python": _python, "http": _http, "mcp": _mcp, "builtin": _builtin, "subprocess": _subprocess,
    }[kind]() as setup:  # fmt: skip
        yield setup


# -- within the process ----------------------------------------------------------------------------


async def _act(do: str, port: int, ctx: ToolContext) -> Any:
    match do:
        case "text":
            return "plain"
        case "bytes":
            return BytesResult(PICTURE, "image/png")
        case "large":
            return "x" * 50_000
        case "fail":
            raise ValueError("it broke")
        case "leak_and_fail":
            raise ValueError(f"the token is {SECRET}")
        case "work":
            await _work(port)
        case "key":
            return {"key": ctx.idempotency_key}
        case "context":
            left = ctx.deadline - asyncio.get_running_loop().time()
            return {"runId": ctx.run_id, "callId": ctx.call_id, "tenant": ctx.tenant, "secondsLeft": left}
        case "progress":
            ctx.progress(0.5, "half")
    return {"answer": 42}


async def _work(port: int) -> None:
    _, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        await asyncio.Event().wait()
    finally:
        writer.close()


@asynccontextmanager
async def _python() -> AsyncIterator[ToolSetup]:
    async def act(do: str, ctx: ToolContext, port: int = 0) -> Any:
        return await _act(do, port, ctx)

    yield ToolSetup("python", lambda _, definition: PythonTool(definition, act))


@asynccontextmanager
async def _builtin() -> AsyncIterator[ToolSetup]:
    async def act(arguments: JsonObject, ctx: ToolContext) -> Result | Failure:
        return as_result(await _act(arguments["do"], arguments.get("port", 0), ctx))

    yield ToolSetup("builtin", lambda _, definition: BuiltinTool(definition, act))


# -- a server --------------------------------------------------------------------------------------


async def _answer(request: web.Request) -> web.Response:
    arguments = await request.json()
    token = request.headers["Authorization"].removeprefix("Bearer ")
    match arguments["do"]:
        case "text":
            return web.Response(text="plain")
        case "bytes":
            return web.Response(body=PICTURE, content_type="image/png")
        case "large":
            return web.Response(text="x" * 50_000)
        case "fail":
            return web.Response(status=500, text="it broke")
        case "leak":
            return web.json_response({"said": token})
        case "leak_and_fail":
            return web.Response(status=403, text=f"the token is {token}")
        case "work":
            await _work(arguments["port"])
        case "key":
            return web.json_response({"key": request.headers["Idempotency-Key"]})
    return web.json_response({"answer": 42})


@asynccontextmanager
async def _http() -> AsyncIterator[ToolSetup]:
    app = web.Application()
    app.router.add_post("/act", _answer)
    runner = web.AppRunner(app, handler_cancellation=True)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    client = HttpClient()

    def make(do: str, definition: ToolDefinition) -> Tool:
        url = f"http://127.0.0.1:{runner.addresses[0][1]}/act"
        request = HttpRequest(
            template(url), "POST", {"Authorization": template("Bearer ${env:TOKEN}")}, send_arguments=True,
            private=frozenset({"127.0.0.1"}), result="text" if do in _TEXTUAL else "json",
        )  # fmt: skip
        return HttpTool(definition, request, client, {"TOKEN": SECRET}.get)

    try:
        yield ToolSetup("http", make)
    finally:
        await client.close()
        await runner.cleanup()


@asynccontextmanager
async def _mcp() -> AsyncIterator[ToolSetup]:
    client = HttpClient()
    command = (sys.executable, "-m", "tests.tools.servers.mcp_server")
    env = {"PYTHONPATH": str(ROOT), "TOKEN": "${env:TOKEN}"}
    # One session, so that a test that broke it makes the next one show that it is replaced.
    endpoint = McpEndpoint("test", command, env=env, connect_seconds=60, sessions=1)  # a busy machine starts it slowly
    sessions = Sessions(endpoint, client, {"TOKEN": SECRET}.get)
    server = McpServer(sessions)
    try:
        offers = await server.offers()
        assert not isinstance(offers, Failure), offers
        [offer] = [offer for offer in offers if offer.name == "act"]

        def make(_do: str, definition: ToolDefinition) -> Tool:
            return replace(server.tool(offer, "act"), definition=definition)

        yield ToolSetup("mcp", make, server.offers)
    finally:
        await sessions.close()
        await client.close()


# -- a program -------------------------------------------------------------------------------------


@asynccontextmanager
async def _subprocess() -> AsyncIterator[ToolSetup]:
    def make(do: str, definition: ToolDefinition) -> Tool:
        argv = tuple(template(word) for word in (os.path.realpath(sys.executable), "-I", "-S", str(PROGRAM)))
        command = CommandTemplate(
            argv, {"TOKEN": template("${env:TOKEN}")}, network=True, read=(PROGRAM,),
            result="text" if do in _TEXTUAL else "json",
        )  # fmt: skip
        return SubprocessTool(definition, command, secret={"TOKEN": SECRET}.get, grace=0.2)

    yield ToolSetup("subprocess", make)
