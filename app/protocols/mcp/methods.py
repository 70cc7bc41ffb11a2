"""The methods of the MCP server, each with the scope that it needs, and what it answers.

Leaves to others: the transport (`routes`), and `tools/call`, whose answer may be a stream (`calls`).
"""

from collections.abc import Awaitable, Callable
from typing import Final

from app import __version__
from app.core.json import JsonObject
from app.core.principal import Principal
from app.core.value import value
from app.protocols.auth.permissions import ANYBODY
from app.protocols.context import ServerContext
from app.protocols.dialects.jsonrpc import INVALID_PARAMS, METHOD_NOT_FOUND, RpcError, RpcMessage
from app.protocols.mcp import prompts, resources, tasks
from app.protocols.mcp.calls import require
from app.protocols.mcp.offer import offered
from app.protocols.mcp.terms import HANDSHAKES, NEWEST_HANDSHAKE, SUPPORTED, TASKS, ClientTerms

TOOLS_PAGE: Final = 200
_INSTRUCTIONS: Final = (
    "Each tool named agent_* or workflow_* starts a run on this server and answers with its output. To continue a "
    "conversation, pass the threadId of an earlier result. Runs are stored: read holdfast://runs/{runId}."
)
_SERVER: Final = {"name": "holdfast", "title": "Holdfast", "version": __version__}


@value(frozen=True, slots=True)
class McpRequest:
    """One request: who asks, and on which terms."""

    server: ServerContext
    caller: Principal
    message: RpcMessage
    terms: ClientTerms


Handler = Callable[[McpRequest], Awaitable[JsonObject]]


async def answer(asked: McpRequest) -> JsonObject:
    """The result of any method but `tools/call`; RpcError for a method that the client's revision does not have."""
    found = METHODS.get(asked.message.method or "")
    if found is None or found.only not in (None, asked.terms.stateless):
        raise RpcError(METHOD_NOT_FOUND, "There is no such method.")
    if found.scope != ANYBODY:
        require(asked.caller, found.scope)
    result = await found.handle(asked)
    if asked.terms.stateless:
        result = {"resultType": "complete", **result}
        if found.cacheable:
            result |= {"ttlMs": 0, "cacheScope": "private"}
    return result


@value(frozen=True, slots=True)
class McpMethod:
    scope: str
    handle: Handler
    only: bool | None = None
    """Whether only stateless clients have it, or only those with a handshake; None for both."""
    cacheable: bool = False


async def _initialize(asked: McpRequest) -> JsonObject:
    wanted = asked.message.params.get("protocolVersion")
    if not isinstance(wanted, str):
        raise RpcError(INVALID_PARAMS, "initialize must say which protocolVersion the client speaks.")
    return {
        "protocolVersion": wanted if wanted in HANDSHAKES else NEWEST_HANDSHAKE,
        "capabilities": _capabilities(),
        "serverInfo": _SERVER,
        "instructions": _INSTRUCTIONS,
    }


async def _discover(_asked: McpRequest) -> JsonObject:
    capabilities = _capabilities() | {"extensions": {TASKS: {}}}
    return {
        "supportedVersions": SUPPORTED,
        "capabilities": capabilities,
        "serverInfo": _SERVER,
        "instructions": _INSTRUCTIONS,
        "_meta": {"io.modelcontextprotocol/serverInfo": _SERVER},
    }


def _capabilities() -> JsonObject:
    return {"tools": {}, "resources": {}, "prompts": {}}


async def _ping(_asked: McpRequest) -> JsonObject:
    return {}


async def _tools(asked: McpRequest) -> JsonObject:
    after = asked.message.params.get("cursor")
    if after is not None and not isinstance(after, str):
        raise RpcError(INVALID_PARAMS, "The cursor is none of this list's.")
    found = [one for one in (await offered(asked.server)).values() if one.name > (after or "")]
    shown = [one.described() for one in found[:TOOLS_PAGE]]
    return {"tools": shown} | ({"nextCursor": found[TOOLS_PAGE - 1].name} if len(found) > TOOLS_PAGE else {})


async def _resources(asked: McpRequest) -> JsonObject:
    return await resources.list_resources(asked.server, asked.caller, asked.message)


async def _templates(_asked: McpRequest) -> JsonObject:
    return {"resourceTemplates": resources.TEMPLATES}


async def _read(asked: McpRequest) -> JsonObject:
    return await resources.read_resource(asked.server, asked.caller, asked.message, stateless=asked.terms.stateless)


async def _prompts(asked: McpRequest) -> JsonObject:
    return prompts.list_prompts(asked.server, asked.message)


async def _prompt(asked: McpRequest) -> JsonObject:
    return prompts.get_prompt(asked.server, asked.message)


async def _get_task(asked: McpRequest) -> JsonObject:
    return await tasks.get_task(asked.server, asked.caller, asked.message, asked.terms)


async def _update_task(asked: McpRequest) -> JsonObject:
    return await tasks.update_task(asked.server, asked.caller, asked.message, asked.terms)


async def _cancel_task(asked: McpRequest) -> JsonObject:
    return await tasks.cancel_task(asked.server, asked.caller, asked.message, asked.terms)


METHODS: Final[dict[str, McpMethod]] = {
    "initialize": McpMethod(ANYBODY, _initialize, only=False),
    "ping": McpMethod(ANYBODY, _ping, only=False),
    "server/discover": McpMethod(ANYBODY, _discover, only=True, cacheable=True),
    "tools/list": McpMethod("workspace:read", _tools, cacheable=True),
    "resources/list": McpMethod(ANYBODY, _resources, cacheable=True),
    "resources/templates/list": McpMethod(ANYBODY, _templates, cacheable=True),
    "resources/read": McpMethod(ANYBODY, _read, cacheable=True),
    "prompts/list": McpMethod("workspace:read", _prompts, cacheable=True),
    "prompts/get": McpMethod("workspace:read", _prompt),
    "tasks/get": McpMethod("runs:read", _get_task, only=True),
    "tasks/update": McpMethod("interrupts:answer", _update_task, only=True),
    "tasks/cancel": McpMethod("runs:write", _cancel_task, only=True),
}
"""`resources/*` asks for the scope of each kind of resource itself."""
