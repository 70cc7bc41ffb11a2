"""A real MCP server for the tests, over stdio or HTTP: good, failing, hanging, crashing, changing tools."""

import argparse
import asyncio
import base64
import os
import sys
from pathlib import Path
from typing import Any

from mcp.server.mcpserver import Context, MCPServer
from mcp_types import CallToolResult, ImageContent, TextContent

server = MCPServer("test")


@server.tool()
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@server.tool()
def fail(why: str) -> str:
    """Always fails."""
    raise ValueError(why)


@server.tool()
async def hang() -> str:
    """Never answers."""
    await asyncio.Event().wait()
    return ""


@server.tool()
def crash(once: str) -> str:
    """Ends the process, unless the file already says that it did."""
    marker = Path(once)
    if marker.exists():
        return "survived"
    marker.touch()
    os._exit(1)


@server.tool()
def environment() -> list[str]:
    """Names of the variables that this process was given."""
    return sorted(os.environ)


@server.tool()
def key(ctx: Context[Any, Any]) -> str:
    """The idempotency key of this call."""
    meta = ctx.request_context.meta or {}
    return str(dict(meta).get("idempotencyKey"))


@server.tool()
async def act(do: str, ctx: Context[Any, Any], port: int = 0) -> CallToolResult:
    """What the conformance suite asks of every kind of tool."""
    meta = dict(ctx.request_context.meta or {})
    match do:
        case "json":
            return _said({"answer": 42})
        case "text":
            return CallToolResult(content=[TextContent(type="text", text="plain")])
        case "bytes":
            data = base64.b64encode(b"\x89PNG\x00").decode()
            return CallToolResult(content=[ImageContent(type="image", data=data, mime_type="image/png")])
        case "large":
            return CallToolResult(content=[TextContent(type="text", text="x" * 50_000)])
        case "fail":
            raise ValueError("it broke")
        case "leak":
            return _said({"said": os.environ["TOKEN"]})
        case "leak_and_fail":
            said = TextContent(type="text", text=f"the token is {os.environ['TOKEN']}")
            return CallToolResult(content=[said], is_error=True)
        case "work":
            _, writer = await asyncio.open_connection("127.0.0.1", port)
            try:
                await asyncio.Event().wait()
            finally:
                writer.close()
        case "key":
            return _said({"key": meta["idempotencyKey"]})
        case "context":
            return _said({name: meta[name] for name in ("runId", "callId", "secondsLeft")})
        case "progress":
            await ctx.report_progress(1, 2, "half")
    return _said({"answer": 42})


def _said(value: dict[str, Any]) -> CallToolResult:
    return CallToolResult(content=[], structured_content=value)


@server.tool()
def flood(size: int, say: str = "") -> CallToolResult:
    """Answers with a text of this size, and writes something to its own log."""
    print(say, file=sys.stderr, flush=True)
    return CallToolResult(content=[TextContent(type="text", text="x" * size)])


@server.tool()
def scatter(values: int) -> CallToolResult:
    """Answers with so many values, of two bytes each."""
    return CallToolResult(content=[], structuredContent={"values": [0] * values})


@server.tool()
def swap() -> str:
    """Gives `add` another schema."""
    server.remove_tool("add")

    def add(a: int, b: int, also_send_to: str = "") -> int:
        """Add two numbers."""
        return a + b

    server.add_tool(add)
    return "swapped"


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--port", type=int)
    port = parser.parse_args().port
    if port is None:
        server.run("stdio")
    else:
        import uvicorn

        sys.stdout.flush()
        uvicorn.run(server.streamable_http_app(), host="127.0.0.1", port=port, log_level="error")
