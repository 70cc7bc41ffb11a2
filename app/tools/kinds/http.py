"""HTTP requests from a template, to the hosts the tool declares, through the pinned client.

Arguments fill places in path, query, headers and body, each quoted for where it stands; they never choose the
host. Secrets stand in the template's own text and are scrubbed from the answer.
"""

import asyncio
from collections.abc import Mapping
from dataclasses import field
from typing import Any, Final, Literal
from urllib.parse import quote, urlencode, urlsplit

from app.core import json
from app.core.errors import Failure
from app.core.json import JsonObject
from app.core.value import value
from app.outside.addresses import AddressPolicy, normal_host
from app.outside.http import Deadlines, HttpClient, OutgoingRequest, OutsideError, Reply
from app.tools.contract import NO_NETWORK, BytesResult, JsonResult, Result, TextResult, ToolContext, ToolDefinition
from app.tools.declared import define, plain
from app.tools.guard import ToolInvalid
from app.tools.kind import ToolDeps, ToolKind
from app.tools.rendering import Rendering, RenderingError, Secret
from app.workspace.compiled import CompiledTool, CompiledWorkspace
from app.workspace.templates import Template

_MAX_REDIRECTS: Final = 3
_NET_SECONDS: Final = 1.0
_TEXTUAL: Final = ("text/", "application/json", "application/xml", "application/problem+json")


@value(frozen=True, slots=True)
class HttpRequest:
    """The template of one request. `json` wins over `text`; without both and with `send_arguments` the body
    is the arguments themselves."""

    url: Template
    method: str = "GET"
    headers: Mapping[str, Template] = field(default_factory=dict)
    query: Mapping[str, Template] = field(default_factory=dict)
    json: Any = None
    """A JSON value in which each text is a Template."""
    text: Template | None = None
    send_arguments: bool = False
    hosts: frozenset[str] = frozenset()
    within: frozenset[str] = frozenset()
    """When set, the hosts that any tool of the workspace may reach; the tool's own only narrow them."""
    private: frozenset[str] = frozenset()
    result: Literal["json", "text", "response"] = "json"
    ok_status: frozenset[int] = frozenset()


class HttpTool:
    def __init__(
        self,
        definition: ToolDefinition,
        request: HttpRequest,
        client: HttpClient,
        secret: Secret = lambda _: None,
    ) -> None:
        self.definition = definition
        self._request, self._client, self._secret = request, client, secret
        start = request.url.literals[0]
        if request.url.places and not start.startswith("${env:") and "/" not in start.partition("://")[2]:
            raise ToolInvalid(definition.name, "an argument must not choose the host of the URL")

    async def invoke(self, arguments: JsonObject, ctx: ToolContext) -> Result | Failure:
        if not ctx.limits.network:
            return NO_NETWORK
        rendering = Rendering(arguments, self._secret)
        try:
            outgoing = self._outgoing(rendering, arguments, ctx)
        except RenderingError as error:
            return error.failure
        try:
            async with await self._client.send(outgoing) as reply:
                return self._result(reply, await reply.read(), rendering)
        except OutsideError as error:
            if error.code == "OUTSIDE_TOO_LARGE":
                return Failure("OUTPUT_TOO_LARGE", f"The answer is larger than {ctx.max_output_bytes} bytes.")
            return Failure(error.code, rendering.secrets.text(error.failure.message), error.failure.retryable)

    def _outgoing(self, rendering: Rendering, arguments: JsonObject, ctx: ToolContext) -> OutgoingRequest:
        request = self._request
        url = rendering.text(request.url, _path_step)
        pairs = [(name, rendering.value(template)) for name, template in request.query.items()]
        if pairs:
            texts = [(n, v if isinstance(v, str) else json.dumps(v).decode()) for n, v in pairs]
            url += ("&" if "?" in url else "?") + urlencode(texts)
        headers = {name: _header(rendering.text(template)) for name, template in request.headers.items()}
        body, mime = self._body(rendering, arguments)
        if mime is not None:
            headers.setdefault("Content-Type", mime)
        if ctx.idempotency_key is not None:
            headers["Idempotency-Key"] = ctx.idempotency_key
        hosts = request.hosts or frozenset({_host(url)})
        if request.within:
            # Also where a redirect leads.
            hosts = frozenset(host for host in hosts if _listed(host, request.within))
        if request.within and not _listed(_host(url), request.within):
            message = "The workspace does not allow calls to this host; `outgoing.hosts` of the Runtime lists those."
            raise RenderingError(Failure("ADDRESS_REFUSED", message))
        # The call's own time limit comes first and says TOOL_TIMEOUT; this one is the net under it.
        left = max(0.0, ctx.deadline - asyncio.get_running_loop().time()) + _NET_SECONDS
        return OutgoingRequest(
            request.method,
            url,
            headers,
            body,
            AddressPolicy(request.private, hosts, proxied=bool(request.within)),
            Deadlines(connect=min(10.0, left), idle=left, total=left),
            ctx.max_output_bytes,
            _MAX_REDIRECTS,
        )

    def _body(self, rendering: Rendering, arguments: JsonObject) -> tuple[bytes | None, str | None]:
        request = self._request
        if request.json is not None:
            return json.dumps(_filled(request.json, rendering)), "application/json"
        if request.text is not None:
            return rendering.text(request.text).encode(), "text/plain; charset=utf-8"
        return (json.dumps(arguments), "application/json") if request.send_arguments else (None, None)

    def _result(self, reply: Reply, body: bytes, rendering: Rendering) -> Result | Failure:
        expected = self._request.ok_status
        good = reply.status in expected if expected else 200 <= reply.status < 300
        textual = not body or reply.content_type.startswith(_TEXTUAL) or reply.content_type.endswith("+json")
        secrets = rendering.secrets
        text = secrets.text(body.decode(errors="replace")) if textual else ""
        if self._request.result == "response":
            answer: dict[str, Any] = {"status": reply.status, "contentType": reply.content_type, "body": text}
            return JsonResult(answer)
        if not good:
            retryable = reply.status in (408, 425, 429) or reply.status >= 500
            return Failure("TOOL_FAILED", f"The server answered {reply.status}: {text[:500]}", retryable)
        if self._request.result == "text":
            return TextResult(text) if textual else BytesResult(secrets.data(body), reply.content_type)
        if not textual:
            return BytesResult(secrets.data(body), reply.content_type)
        try:
            return JsonResult(secrets.value(json.loads_strict(body)) if body else None)
        except json.JsonError:
            return Failure("TOOL_FAILED", "The server's answer is not JSON.")


def _path_step(value: str) -> str:
    """A value never adds a step, a query or a fragment; and `..` has no spelling that is not a step up."""
    if value in (".", "..", ""):
        raise RenderingError(Failure("INVALID_ARGUMENTS", "An argument is not usable as a part of the URL."))
    return quote(value, safe="")


def _header(value: str) -> str:
    if any(character in value for character in "\r\n\x00"):
        raise RenderingError(Failure("INVALID_ARGUMENTS", "An argument is not usable in a header."))
    return value


def _host(url: str) -> str:
    try:
        parts = urlsplit(url)
        host = normal_host(parts.hostname or "")
        return f"{host}:{parts.port}" if parts.port else host
    except ValueError:
        raise RenderingError(Failure("TOOL_UNAVAILABLE", "The tool's URL is not valid.")) from None


def _listed(host: str, within: frozenset[str]) -> bool:
    name, _, port = host.partition(":")
    return AddressPolicy(only=within).permits(name, int(port) if port.isdigit() else 0)


def _filled(value: Any, rendering: Rendering) -> Any:
    if isinstance(value, Mapping):
        return {key: _filled(item, rendering) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_filled(item, rendering) for item in value]
    return rendering.value(value) if isinstance(value, Template) else value


def make(declared: CompiledTool, workspace: CompiledWorkspace, deps: ToolDeps) -> HttpTool | Failure:
    spec, templates = declared.spec.http, declared.templates
    if spec is None:
        return Failure("TOOL_INVALID", f"{declared.name}: a tool of kind http needs `http`")
    outgoing = workspace.runtime.outgoing
    request = HttpRequest(
        url=templates["http.url"],
        method=spec.method,
        headers={name: templates[f"http.headers.{name}"] for name in spec.headers},
        query={name: templates[f"http.query.{name}"] for name in spec.query},
        json=_templated(plain(spec.json_), "http.json", templates) if spec.body == "json" and spec.json_ else None,
        text=templates.get("http.text") if spec.body == "text" else None,
        send_arguments=spec.body == "json",
        hosts=frozenset(spec.hosts),
        within=frozenset(outgoing.hosts),
        private=frozenset(outgoing.private),
        result=spec.result,
        ok_status=frozenset(spec.ok_status),
    )
    return HttpTool(define(declared), request, deps.client, deps.secret)


def _templated(value: Any, path: str, templates: Mapping[str, Template]) -> Any:
    if isinstance(value, dict):
        return {key: _templated(item, f"{path}.{key}", templates) for key, item in value.items()}
    if isinstance(value, list):
        return [_templated(item, f"{path}.{number}", templates) for number, item in enumerate(value)]
    return templates[path] if isinstance(value, str) else value


KIND: Final = ToolKind(name="http", make=make)
