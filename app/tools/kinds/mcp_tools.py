"""Tools of MCP servers, through the official client: pooled sessions, deadlines, schema pins.

What a server offers is fixed when its tools are taken up: by the pin in the workspace, else by what was seen
then. Before each call the offer is compared; a tool that changed is blocked. Servers get no way to ask the
model or the user anything. The connections themselves stand in `mcp_sessions`.
"""

import asyncio
import base64
import hashlib
from collections.abc import Mapping
from dataclasses import field, replace
from typing import TYPE_CHECKING, Any, Final

from app.core import json, tracing
from app.core.errors import Failure
from app.core.json import JsonObject
from app.core.value import value
from app.tools.complaints import error_text
from app.tools.contract import NO_NETWORK, BytesResult, JsonResult, Result, TextResult, ToolContext, ToolDefinition
from app.tools.declared import define
from app.tools.guard import ToolInvalid
from app.tools.kinds.mcp_endpoint import McpEndpoint
from app.tools.kinds.mcp_sessions import McpSession, SessionLost, Sessions
from app.tools.rendering import SecretRedaction
from app.workspace.compiled import CompiledTool, CompiledWorkspace, Named
from app.workspace.specs.tool import McpServerSpec

if TYPE_CHECKING:  # the package is imported when a server is first used
    import mcp_types

_MAX_PAGES: Final = 100  # a listing that never ends must not hold a call
_UNKNOWN_OUTCOME: Final = "the MCP server was lost during the call; whether it acted is not known"


@value(frozen=True, slots=True)
class Offer:
    """A tool as a server describes it. The hash covers all that a model or the guard gets to see."""

    name: str
    description: str
    input: Mapping[str, Any]
    output: Mapping[str, Any] | None
    hash: str


class McpServer:
    """One server's tools. `pins` maps a tool's name there to the hash it must have."""

    def __init__(
        self,
        sessions: Sessions,
        *,
        allow: frozenset[str] = frozenset(),
        pins: Mapping[str, str] | None = None,
    ) -> None:
        self._sessions, self._allow = sessions, allow
        self._pins = dict(pins or {})

    async def offers(self) -> list[Offer] | Failure:
        """What the server offers now, as far as it is allowed."""
        try:
            async with self._sessions.session(await self._sessions.listing_tenant()) as session:
                offers = await _listed(session)
        except SessionLost as lost:
            return lost.failure
        return [offer for offer in offers if not self._allow or offer.name in self._allow]

    async def take_up(self, prefix: str = "", **fields: Any) -> "list[McpTool] | Failure":
        """All allowed offers as tools; a pinned one whose hash differs is blocked when it is called."""
        offers = await self.offers()
        if isinstance(offers, Failure):
            return offers
        return [self.tool(offer, prefix + offer.name, **fields) for offer in offers]

    def tool(self, offer: Offer, name: str, **fields: Any) -> "McpTool":
        """`fields` are those of ToolDefinition that the workspace sets: effect, timeout, approval, rules."""
        if self._allow and offer.name not in self._allow:
            raise ToolInvalid(name, f"the MCP server's tool {offer.name!r} is not among the allowed ones")
        expected = self._pins.setdefault(offer.name, offer.hash)
        definition = ToolDefinition(
            name=name,
            description=offer.description,
            input=offer.input,
            output=offer.output,
            closed=False,
            pin=expected,
        )
        return McpTool(replace(definition, **fields), offer.name, expected, self._sessions)


@value(frozen=True, slots=True)
class McpTool:
    definition: ToolDefinition
    remote: str
    pin: str | None
    """The hash that the server's offer must have; None when none was known: then the first that is seen counts."""
    sessions: Sessions = field(repr=False)
    seen: dict[str, str] = field(default_factory=dict, repr=False)

    async def invoke(self, arguments: JsonObject, ctx: ToolContext) -> Result | Failure:
        if not ctx.limits.network and self.sessions.server.url is not None:
            return NO_NETWORK
        if not ctx.limits.writes and ctx.effect != "readonly":
            # What a server of its own writes cannot be narrowed call by call.
            return Failure("SESSION_CONTROL_DENIED", "The session's filesystemSandbox is read-only.")
        try:
            return await self._once(arguments, ctx)
        except SessionLost as lost:
            # Whoever answers with too much will do so again.
            if not lost.during_call or lost.failure.code in ("OUTPUT_TOO_LARGE", "MCP_LOGIN_REQUIRED"):
                return lost.failure
            if ctx.effect == "unsafe":
                return Failure("TOOL_FAILED", _UNKNOWN_OUTCOME)
        # What is readonly or has a key may be repeated, once, on a new session.
        try:
            return await self._once(arguments, ctx)
        except SessionLost as lost:
            return lost.failure

    async def _once(self, arguments: JsonObject, ctx: ToolContext) -> Result | Failure:
        async with self.sessions.session(ctx.tenant) as session:
            changed = await self._changed(session)
            if changed is not None:
                return changed
            left = max(0.05, ctx.deadline - asyncio.get_running_loop().time())
            # Not the tenant: its name is on no wire.
            meta: JsonObject = {
                "runId": ctx.run_id,
                "callId": ctx.call_id,
                "secondsLeft": round(left, 3),
                **tracing.outgoing(),
            }
            if ctx.idempotency_key is not None:
                meta["idempotencyKey"] = ctx.idempotency_key

            async def progress(done: float, total: float | None, message: str | None) -> None:
                ctx.progress(done / total if total else None, self.sessions.secrets.text(message or ""))

            async def call(client: Any) -> Any:
                return await client.call_tool(self.remote, arguments, left, progress, meta=meta)

            answer = await session.call(call, during_call=True)
        return answer if isinstance(answer, Failure) else _result(answer, self.sessions.secrets)

    async def _changed(self, session: McpSession) -> Failure | None:
        for offer in await _listed(session):
            if offer.name == self.remote:
                if offer.hash == (self.pin or self.seen.setdefault(self.remote, offer.hash)):
                    return None
                message = f"The MCP server changed {self.remote!r} since it was approved."
                return Failure("TOOL_SCHEMA_CHANGED", message)
        return Failure("TOOL_UNAVAILABLE", f"The MCP server no longer offers {self.remote!r}.")


async def _listed(session: McpSession) -> list[Offer]:
    offers: list[Offer] = []
    cursor: str | None = None
    for _ in range(_MAX_PAGES):

        async def page(client: Any, after: str | None = cursor) -> Any:
            return await client.list_tools(cursor=after, cache_mode="bypass")

        listing = await session.call(page)
        if isinstance(listing, Failure):
            raise SessionLost(listing)
        offers += [_offer(tool) for tool in listing.tools]
        cursor = listing.next_cursor
        if cursor is None:
            break
    return offers


def _offer(tool: "mcp_types.Tool") -> Offer:
    described = {
        "description": tool.description or "",
        "input": tool.input_schema,
        "output": tool.output_schema,
    }
    return Offer(
        tool.name,
        tool.description or "",
        tool.input_schema,
        tool.output_schema,
        hashlib.sha256(json.canonical(described)).hexdigest(),
    )


def _result(answer: "mcp_types.CallToolResult", secrets: SecretRedaction) -> Result | Failure:
    texts = [secrets.text(block.text) for block in answer.content if block.type == "text"]
    if answer.is_error:
        return Failure("TOOL_FAILED", error_text("\n".join(texts), 2000) or "the MCP server reported an error")
    if answer.structured_content is not None:
        return JsonResult(secrets.value(answer.structured_content))
    if len(texts) == len(answer.content):
        return TextResult("\n".join(texts))
    if len(answer.content) == 1 and (block := answer.content[0]).type in ("image", "audio"):
        return BytesResult(secrets.data(base64.b64decode(block.data)), block.mime_type)
    blocks = [block.model_dump(mode="json", by_alias=True, exclude_none=True) for block in answer.content]
    return JsonResult(secrets.value(blocks))


async def offers_of(workspace: CompiledWorkspace, sessions: Mapping[str, Sessions]) -> dict[str, list[Offer] | Failure]:
    """What the servers offer that any tool of the workspace names, asked all at once: each within its own time."""
    named = {tool.spec.mcp.server for tool in workspace.tools.values() if tool.spec.mcp is not None}
    named |= {one.mcp for agent in workspace.agents.values() for one in agent.mcp_selections}
    used = sorted(named)
    names = [name for name in used if name in sessions]
    servers = [
        McpServer(sessions[name], allow=frozenset(workspace.mcp_servers[name].spec.tools.allow)) for name in names
    ]
    return dict(zip(names, await asyncio.gather(*(server.offers() for server in servers)), strict=True))


def make_mcp(
    declared: CompiledTool,
    workspace: CompiledWorkspace,
    sessions: Mapping[str, Sessions],
    offered: Mapping[str, list[Offer] | Failure],
) -> McpTool | Failure:
    """`sessions` are those of the workspace's servers, by name, `offered` is what they offer now (`offers_of`). The
    pins stand in the McpServer document.

    Of a server that cannot be reached a tool is made all the same if its document says what it takes: it is offered,
    and its calls fail until the server is back. Else the answer is TOOL_UNAVAILABLE, and the tool is left out.
    """
    spec = declared.spec.mcp
    if spec is None or spec.server not in sessions or spec.server not in offered:
        return Failure("TOOL_INVALID", f"{declared.name}: its MCP server does not exist")
    tools = workspace.mcp_servers[spec.server].spec.tools
    # What was seen first counts until the server ends, also when its tools are made again after an outage.
    pins = {**sessions[spec.server].first_seen, **tools.pins}
    server = McpServer(sessions[spec.server], allow=frozenset(tools.allow), pins=pins)
    remote = spec.tool or declared.name
    offers = offered[spec.server]
    if isinstance(offers, Failure):
        if offers.code not in ("TOOL_UNAVAILABLE", "MCP_LOGIN_REQUIRED") or declared.spec.input is None:
            return offers
        return McpTool(define(declared), remote, tools.pins.get(remote), sessions[spec.server])
    for offer in offers:
        if offer.name == remote:
            if declared.name not in workspace.tools:
                sessions[spec.server].first_seen.setdefault(remote, offer.hash)
            made = server.tool(offer, declared.name)
            return replace(made, definition=define(declared, made.definition))
    return Failure("TOOL_UNAVAILABLE", f"{declared.name}: the MCP server {spec.server} offers no {remote!r}")


def server_of(
    named: Named[McpServerSpec], private: frozenset[str] = frozenset(), hosts: frozenset[str] = frozenset()
) -> McpEndpoint:
    """`private` and `hosts` as the Runtime's `outgoing` lists them."""
    spec = named.spec
    return McpEndpoint(
        named.name,
        spec.command,
        spec.url,
        dict(spec.env),
        dict(spec.headers),
        private,
        float(spec.connect_seconds),
        float(spec.call_seconds),
        spec.sessions,
        spec.shared,
        only=hosts or None,
        protocol=spec.mcp_protocol_version,
        oauth=spec.oauth,
    )
