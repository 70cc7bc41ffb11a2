"""`holdfast check --connect`: tries each place outside that a workspace names, without cost and without effect.

A provider is asked for its list of models, an MCP server for its list of tools, an HTTP host for its root by HEAD.
All at once, each within its time. What is printed names hosts and causes, never a key, a path or an answer.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urlsplit

from app.core import json
from app.core.errors import Failure, HoldfastError
from app.models.listing import LISTS
from app.outside.addresses import AddressPolicy, normal_host
from app.outside.http import Deadlines, HttpClient, Outgoing
from app.wiring.kinds import mcp_tools
from app.workspace.compiled import CompiledWorkspace
from app.workspace.secrets import resolve_env
from app.workspace.specs.model import ModelSpec

SECONDS: Final = 10.0
"""For one place."""
TOTAL_SECONDS: Final = 60.0
AT_ONCE: Final = 16
_MCP: Final = "MCP server"
_MAX_LIST: Final = 8 * 1024 * 1024  # bytes


@dataclass(frozen=True, slots=True)
class Attempt:
    """What came of one place; `message` is the cause if it is not `ok`."""

    kind: str
    name: str
    ok: bool
    message: str
    seconds: float = 0.0

    def as_json(self) -> dict[str, Any]:
        return {"kind": self.kind, "name": self.name, "ok": self.ok, "message": self.message}

    def as_text(self) -> str:
        return f"{'ok' if self.ok else 'failed':7} {self.kind} {self.name}: {self.message} ({self.seconds:.1f} s)"


class Unreachable(Exception):
    """Why a place cannot be used."""


Try = Callable[[], Awaitable[str]]
"""What was found; raises what went wrong."""


async def reach(workspace: CompiledWorkspace, environ: Mapping[str, str]) -> list[Attempt]:
    client = HttpClient()
    places = list(_places(workspace, environ, client))
    gate = asyncio.Semaphore(AT_ONCE)
    ends = asyncio.get_running_loop().time() + TOTAL_SECONDS
    found: list[Attempt] = []
    try:
        # MCP servers last: loading their client keeps the loop busy, and the others would run out of time meanwhile.
        for of_mcp in (False, True):
            group = [place for place in places if (place[0] == _MCP) == of_mcp]
            found += await asyncio.gather(*(_attempt(kind, name, each, gate, ends) for kind, name, each in group))
        return found
    finally:
        await client.close()


async def _attempt(kind: str, name: str, each: Try, gate: asyncio.Semaphore, ends: float) -> Attempt:
    async with gate:
        began = time.monotonic()
        left = min(SECONDS, ends - asyncio.get_running_loop().time())
        try:
            async with asyncio.timeout(max(0.0, left)):
                ok, message = True, await each()
        except TimeoutError:
            ok, message = False, f"no answer within {max(0.0, left):.0f} s"
        except Unreachable as error:
            ok, message = False, str(error)
        except HoldfastError as error:
            ok, message = False, f"{error.failure.message} ({error.code}). {error.remedy}"
        return Attempt(kind, name, ok, message, time.monotonic() - began)


def _places(
    workspace: CompiledWorkspace, environ: Mapping[str, str], client: HttpClient
) -> Iterator[tuple[str, str, Try]]:
    for name, model in sorted(workspace.models.items()):
        if model.spec.provider in LISTS:
            yield "model", name, _Provider(model.spec, environ, client)
    for name in sorted(workspace.mcp_servers):
        yield _MCP, name, _McpServer(workspace, name, client)
    for name, tool in sorted(workspace.tools.items()):
        if tool.spec.http is not None:
            yield "HTTP tool", name, _HttpHost(workspace, name, environ, client)


@dataclass(frozen=True, slots=True)
class _Provider:
    spec: ModelSpec
    environ: Mapping[str, str]
    client: HttpClient

    async def __call__(self) -> str:
        listing = LISTS[self.spec.provider]
        key = None if self.spec.api_key is None else _resolved(self.spec.api_key, self.environ)
        base = _resolved(self.spec.base_url or listing.default_url, self.environ).rstrip("/")
        host = normal_host(urlsplit(base).hostname or "")
        headers = {name: _resolved(value, self.environ) for name, value in self.spec.headers.items()}
        # The workspace wrote this address, so it may be private, as it may when the model is called.
        policy = AddressPolicy(frozenset({host}), frozenset({host}))
        asked = Outgoing("GET", base + listing.path, {**listing.headers(key), **headers}, None, policy, _deadlines(),
                         _MAX_LIST)  # fmt: skip
        async with await self.client.send(asked) as reply:
            if reply.status in (401, 403):
                raise Unreachable(f"{host} refuses the key (HTTP {reply.status}); check the variable of `apiKey`")
            if reply.status == 404:
                return f"{host} answers, and has no list of models"
            if reply.status >= 400:
                raise Unreachable(f"{host} answers with HTTP {reply.status}")
            return self._listed(host, await reply.read())

    def _listed(self, host: str, body: bytes) -> str:
        try:
            names = LISTS[self.spec.provider].names(json.loads(body))
        except (HoldfastError, KeyError, TypeError):
            raise Unreachable(f"{host} answers, but not with a list of models; check `baseUrl`") from None
        wanted = self.spec.model.removeprefix("models/")
        if wanted in names or f"{wanted}:latest" in names:
            return f"{host} offers {self.spec.model}"
        return f"{host} answers with {len(names)} models; {self.spec.model} is not one of them, check `model`"


@dataclass(frozen=True, slots=True)
class _McpServer:
    workspace: CompiledWorkspace
    name: str
    client: HttpClient

    async def __call__(self) -> str:
        offered = await mcp_tools(self.workspace, self.name, self.client)
        if isinstance(offered, Failure):
            raise Unreachable(offered.message)
        wanted = {
            tool.spec.mcp.tool or name
            for name, tool in self.workspace.tools.items()
            if tool.spec.mcp is not None and tool.spec.mcp.server == self.name
        }
        missing = sorted(wanted - set(offered))
        if missing:
            raise Unreachable(f"it does not offer: {', '.join(missing)}")
        return f"offers {len(offered)} tools"


@dataclass(frozen=True, slots=True)
class _HttpHost:
    workspace: CompiledWorkspace
    name: str
    environ: Mapping[str, str]
    client: HttpClient

    async def __call__(self) -> str:
        literal = self.workspace.tools[self.name].templates["http.url"].literals[0]
        parts = urlsplit(_resolved(literal, self.environ))
        policy = AddressPolicy(frozenset(self.workspace.runtime.outgoing.private))
        origin = f"{parts.scheme}://{parts.netloc}/"
        async with await self.client.send(Outgoing("HEAD", origin, {}, None, policy, _deadlines())) as reply:
            return f"{parts.hostname} answers (HTTP {reply.status})"


def _deadlines() -> Deadlines:
    return Deadlines(SECONDS, SECONDS, SECONDS)


def _resolved(text: str, environ: Mapping[str, str]) -> str:
    value = resolve_env(text, environ)
    if isinstance(value, Failure):
        raise Unreachable(f"{value.message}. {value.remedy}")
    return value
