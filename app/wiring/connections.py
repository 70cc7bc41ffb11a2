"""Tries the hosts that a workspace names, without cost and without effect, over the way that the server itself takes.

A provider is asked for its list of models, an MCP server for its list of tools, an HTTP host for its root by HEAD.
All at once, each within its time. Messages name hosts and causes, never a key, a path or an answer. Leaves to the
command line: printing.
"""

import asyncio
import ssl
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

from yarl import URL

from app.core import json
from app.core.errors import Failure, HoldfastError
from app.core.settings import Settings
from app.core.value import value
from app.models.model_list import LISTS
from app.outside.addresses import AddressPolicy, normal_host
from app.outside.http import Deadlines, HttpClient, OutgoingRequest
from app.outside.proxies import OutgoingProxies, ProxyInvalid
from app.outside.routes import route
from app.tools.grants import GrantVault
from app.wiring.kinds import http_client, mcp_tools
from app.wiring.upkeep import stored_grants
from app.workspace.compiled import CompiledWorkspace
from app.workspace.secrets import resolve_env
from app.workspace.specs.model import ModelSpec

SECONDS: Final = 10.0
"""For one attempt."""
TOTAL_SECONDS: Final = 60.0
AT_ONCE: Final = 16
_MCP: Final = "MCP server"
_MAX_LIST: Final = 8 * 1024 * 1024  # bytes


@value(frozen=True, slots=True)
class ConnectionAttempt:
    """What came of one attempt; `message` is the cause if it is not `ok`."""

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
    """Why a host cannot be used."""


Try = Callable[[], Awaitable[str]]
"""What was found; raises what went wrong."""


async def try_connections(
    workspace: CompiledWorkspace, settings: Settings, environ: Mapping[str, str]
) -> list[ConnectionAttempt]:
    """Everything outside that the workspace uses."""
    client = http_client(settings, environ)
    tries = list(_tries(workspace, environ, client, await stored_grants(settings, workspace)))
    gate = asyncio.Semaphore(AT_ONCE)
    ends = asyncio.get_running_loop().time() + TOTAL_SECONDS
    found: list[ConnectionAttempt] = []
    try:
        # MCP servers last: loading their client keeps the loop busy, and the others would run out of time meanwhile.
        for of_mcp in (False, True):
            group = [each for each in tries if (each[0] == _MCP) == of_mcp]
            found += await asyncio.gather(*(_attempt(kind, name, each, gate, ends) for kind, name, each in group))
        return found
    finally:
        await client.close()


async def _attempt(kind: str, name: str, each: Try, gate: asyncio.Semaphore, ends: float) -> ConnectionAttempt:
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
        return ConnectionAttempt(kind, name, ok, message, time.monotonic() - began)


def _tries(
    workspace: CompiledWorkspace, environ: Mapping[str, str], client: HttpClient, grants: GrantVault | None
) -> Iterator[tuple[str, str, Try]]:
    for name, model in sorted(workspace.models.items()):
        if model.spec.provider in LISTS:
            yield "model", name, _Provider(model.spec, environ, client)
    for name in sorted(workspace.mcp_servers):
        yield _MCP, name, _McpServer(workspace, name, client, grants)
    for name, tool in sorted(workspace.tools.items()):
        if tool.spec.http is not None:
            yield "HTTP tool", name, _HttpHost(workspace, name, environ, client)


@value(frozen=True, slots=True)
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
        policy = AddressPolicy(frozenset({host}), frozenset({host}), proxied=True)
        headers = {**listing.headers(key), **headers}
        asked = OutgoingRequest("GET", base + listing.path, headers, None, policy, _deadlines(), _MAX_LIST)
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
        model = self.spec.model.removeprefix("models/")
        if model in names or f"{model}:latest" in names:
            return f"{host} offers {self.spec.model}"
        return f"{host} answers with {len(names)} models; {self.spec.model} is not one of them, check `model`"


@value(frozen=True, slots=True)
class _McpServer:
    workspace: CompiledWorkspace
    name: str
    client: HttpClient
    grants: GrantVault | None

    async def __call__(self) -> str:
        offered = await mcp_tools(self.workspace, self.name, self.client, self.grants)
        if isinstance(offered, Failure):
            raise Unreachable(offered.message)
        needed = {
            tool.spec.mcp.tool or name
            for name, tool in self.workspace.tools.items()
            if tool.spec.mcp is not None and tool.spec.mcp.server == self.name
        }
        missing = sorted(needed - set(offered))
        if missing:
            raise Unreachable(f"it does not offer: {', '.join(missing)}")
        return f"offers {len(offered)} tools"


@value(frozen=True, slots=True)
class _HttpHost:
    workspace: CompiledWorkspace
    name: str
    environ: Mapping[str, str]
    client: HttpClient

    async def __call__(self) -> str:
        literal = self.workspace.tools[self.name].templates["http.url"].literals[0]
        parts = urlsplit(_resolved(literal, self.environ))
        outgoing = self.workspace.runtime.outgoing
        listed = frozenset(outgoing.hosts) or None
        policy = AddressPolicy(frozenset(outgoing.private), listed, proxied=listed is not None)
        origin = f"{parts.scheme}://{parts.netloc}/"
        async with await self.client.send(OutgoingRequest("HEAD", origin, {}, None, policy, _deadlines())) as reply:
            return f"{parts.hostname} answers (HTTP {reply.status})"


async def try_outgoing(
    workspace: CompiledWorkspace, settings: Settings, environ: Mapping[str, str]
) -> list[ConnectionAttempt]:
    """The proxy and the CA file, as far as they are configured, and through them the hosts of models and MCP servers.

    Each host is sent one HEAD without a credential; any answer of the host itself means that the way is open.
    """
    found = [] if settings.ca_file is None else [_try_ca_file(settings.ca_file)]
    try:
        proxies = OutgoingProxies.from_environment(environ)
    except ProxyInvalid as error:
        return [*found, ConnectionAttempt("proxy", "variables", False, error.failure.message)]
    if settings.ca_file is None and proxies.http is None and proxies.https is None:
        return []
    if not all(attempt.ok for attempt in found):
        return found
    client, gate = http_client(settings, environ), asyncio.Semaphore(AT_ONCE)
    ends = asyncio.get_running_loop().time() + TOTAL_SECONDS
    try:
        origins = sorted(set(_origins(workspace, environ)))
        tries = [("host", origin, _Origin(origin, proxies, client)) for origin in origins]
        found += await asyncio.gather(*(_attempt(kind, name, each, gate, ends) for kind, name, each in tries))
    finally:
        await client.close()
    if not origins:
        message = "it is not used: no model and no MCP server of the workspace is reached by HTTP"
        found.append(ConnectionAttempt("proxy", "variables", True, message))
    return found


def _try_ca_file(path: Path) -> ConnectionAttempt:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    try:
        context.load_verify_locations(path)
    except (ssl.SSLError, OSError) as error:
        why = "is not a PEM file of certificates" if isinstance(error, ssl.SSLError) else "cannot be read"
        return ConnectionAttempt("CA file", str(path), False, f"it {why}; correct HOLDFAST_CA_FILE")
    return ConnectionAttempt("CA file", str(path), True, f"holds {context.cert_store_stats()['x509_ca']} authorities")


def _origins(workspace: CompiledWorkspace, environ: Mapping[str, str]) -> Iterator[str]:
    """Of models and MCP servers; a URL with a variable that is not set is reported where providers are checked."""
    urls = [
        model.spec.base_url or LISTS[model.spec.provider].default_url
        for model in workspace.models.values()
        if model.spec.provider in LISTS
    ]
    urls += [server.spec.url for server in workspace.mcp_servers.values() if server.spec.url is not None]
    for text in urls:
        url = resolve_env(text, environ)
        if isinstance(url, str):
            parts = urlsplit(url)
            yield f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}/"


@value(frozen=True, slots=True)
class _Origin:
    url: str
    proxies: OutgoingProxies
    client: HttpClient

    async def __call__(self) -> str:
        host = normal_host(urlsplit(self.url).hostname or "")
        policy = AddressPolicy(frozenset({host}), frozenset({host}), proxied=True)
        proxy = self.proxies.of(URL(self.url)) if route(self.url, policy).proxied else None
        way = "directly" if proxy is None else f"through the proxy {proxy.host}:{proxy.port}"
        try:
            async with await self.client.send(
                OutgoingRequest("HEAD", self.url, {}, None, policy, _deadlines())
            ) as reply:
                status = reply.status
        except HoldfastError as error:
            if error.code == "REDIRECT_REFUSED":
                return f"answers {way} with a redirect"
            raise Unreachable(f"{way}: {error.failure.message}") from error
        if status == 407:
            raise Unreachable(f"{way}: the proxy refuses its user name or password (HTTP 407)")
        if status in (502, 503, 504) and proxy is not None:
            raise Unreachable(f"{way}: the proxy or the host answers HTTP {status}")
        return f"answers {way} (HTTP {status})"


def _deadlines() -> Deadlines:
    return Deadlines(SECONDS, SECONDS, SECONDS)


def _resolved(text: str, environ: Mapping[str, str]) -> str:
    value = resolve_env(text, environ)
    if isinstance(value, Failure):
        raise Unreachable(f"{value.message}. {value.remedy}")
    return value
