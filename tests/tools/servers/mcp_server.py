"""A real MCP server for the tests, over stdio or HTTP: good, failing, hanging, crashing, changing tools."""

import argparse
import asyncio
import os
import sys
from pathlib import Path
from typing import Any

from mcp.server.mcpserver import Context, MCPServer

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
