"""A model provider and an MCP server that answer whatever the current case wants, over real HTTP."""

import asyncio
import gzip
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web

from app.core import json

PLAIN_TOOL = {"name": "t0", "description": "d", "inputSchema": {"type": "object"}}
"""Offered in every listing and always the same: a tool that changes is not called any more."""


@dataclass
class Hostile:
    """What it plays next. `answer` is what the model says as bytes of a stream; `tools` what the MCP server offers."""

    url: str = ""
    answer: bytes = b""
    plain: str = '{"v":"x"}'
    encoding: str | None = None
    endless: bool = False
    tools: list[dict[str, Any]] = field(default_factory=list)
    result: dict[str, Any] = field(default_factory=dict)

    async def complete(self, request: web.Request) -> web.StreamResponse:
        body = json.loads(await request.read())
        data = self.answer or _said(self.plain)
        if not body.get("stream"):
            document = {"choices": [{"message": {"content": self.plain}, "finish_reason": "stop"}]}
            return web.json_response(document)
        response = web.StreamResponse(headers={"content-type": "text/event-stream"})
        if self.encoding is not None:
            response.headers["content-encoding"] = self.encoding
            data = gzip.compress(data, 1)
        with suppress(ConnectionError):
            await response.prepare(request)
            await response.write(data)
            while self.endless:
                await response.write(data[:1000] * 20)
                await asyncio.sleep(0)
        return response

    async def mcp(self, request: web.Request) -> web.StreamResponse:
        if request.method != "POST":
            return web.Response(status=405)
        asked = json.loads(await request.read())
        match asked.get("method"):
            case "initialize":
                info = {"name": "hostile", "version": "1"}
                version = asked["params"]["protocolVersion"]
                result: dict[str, Any] = {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": info}
            case "tools/list":
                result = {"tools": [PLAIN_TOOL, *self.tools]}
            case "tools/call":
                result = self.result
            case _:
                return web.Response(status=202)
        return web.Response(
            body=json.dumps({"jsonrpc": "2.0", "id": asked.get("id"), "result": result}),
            content_type="application/json",
        )


def _said(text: str) -> bytes:
    chunks: list[Any] = [
        {"choices": [{"delta": {"content": text}}]},
        {"choices": [{"delta": {}, "finish_reason": "stop"}]},
    ]
    return b"".join(b"data: " + json.dumps(chunk) + b"\n\n" for chunk in chunks) + b"data: [DONE]\n\n"


@asynccontextmanager
async def running() -> AsyncIterator[Hostile]:
    hostile = Hostile()
    app = web.Application(client_max_size=256 * 1024 * 1024)
    app.router.add_post("/v1/chat/completions", hostile.complete)
    app.router.add_route("*", "/mcp", hostile.mcp)
    runner = web.AppRunner(app, shutdown_timeout=0, access_log=None)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    hostile.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    try:
        yield hostile
    finally:
        await runner.cleanup()
