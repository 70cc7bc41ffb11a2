"""A client of one MCP server, by its program or by its address, through our own transports.

Leaves to others: how long it lives (`mcp_sessions`), and tokens (`mcp_tokens`).
"""

import asyncio
import importlib
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Any, Final

from app.outside.addresses import AddressPolicy
from app.outside.http import HttpClient
from app.outside.httpx_transport import PinnedTransport
from app.tools.kinds.mcp_endpoint import McpEndpoint
from app.tools.kinds.mcp_faults import ConnectionNotes
from app.tools.kinds.mcp_stdio import stdio_transport
from app.tools.rendering import Rendering
from app.workspace.templates import tolerant_template

if TYPE_CHECKING:
    import httpx2

_SSE_IDLE: Final = 300.0


async def connect(
    stack: AsyncExitStack,
    server: McpEndpoint,
    http: HttpClient,
    rendering: Rendering,
    notes: ConnectionNotes,
    auth: "httpx2.Auth | None",
) -> Any:
    """Entered into the stack, and initialized."""
    await asyncio.to_thread(_import_client)
    from mcp import Client
    from mcp.client.streamable_http import streamable_http_client

    transport: Any
    if server.url is None:
        env = {name: rendering.text(tolerant_template(value, ())) for name, value in server.env.items()}
        transport = stdio_transport(
            server.name, server.command, env, too_large=notes.note_too_large, secrets=rendering.secrets
        )
    else:
        client = await stack.enter_async_context(_http_client(server, http, rendering, notes, auth))
        url = rendering.text(tolerant_template(server.url, ()))
        transport = streamable_http_client(url, http_client=client)
    return await stack.enter_async_context(Client(transport, read_timeout_seconds=server.call_seconds, cache=None))


def _http_client(
    server: McpEndpoint,
    http: HttpClient,
    rendering: Rendering,
    notes: ConnectionNotes,
    auth: "httpx2.Auth | None",
) -> "httpx2.AsyncClient":
    import httpx2

    async def look(response: httpx2.Response) -> None:
        if auth is None or response.status_code != 401:  # with tokens a 401 is an occasion to renew them
            notes.note_answer(response.status_code, response.headers.get("content-type", ""))

    policy = AddressPolicy(server.private, server.only, proxied=True)
    return httpx2.AsyncClient(
        transport=PinnedTransport(http, policy, too_large=notes.note_too_large),
        headers={name: rendering.text(tolerant_template(value, ())) for name, value in server.headers.items()},
        timeout=httpx2.Timeout(server.connect_seconds, read=_SSE_IDLE),
        auth=auth,
        event_hooks={"response": [look]},
        trust_env=False,
    )


def _import_client() -> None:
    """The packages are large: imported on the loop they would hold up everybody else, for seconds on a busy machine."""
    for name in (
        "httpx2",
        "mcp",
        "mcp_types",
        "mcp.client.stdio",
        "mcp.client.streamable_http",
        "mcp.shared.exceptions",
    ):
        importlib.import_module(name)
