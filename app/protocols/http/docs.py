"""/openapi.json and /docs: the description of the interface, for programs and for people.

The page is made here, without a script and without anything from outside, so that it also works where there is no
network, and no other host learns who reads it.
"""

from base64 import b64encode
from collections.abc import Callable
from functools import cache
from hashlib import sha256
from html import escape
from typing import Any, Final

from fastapi import APIRouter, Response

from app.core import json
from app.protocols.http.caller import Caller
from app.protocols.http.deferred_route import DeferredRoute
from app.protocols.http.documents import Document

_METHODS: Final = ("get", "post", "put", "patch", "delete")
_REF: Final = "#/components/schemas/"
_SHARED: Final = "#/components/responses/"
_STYLE: Final = """
body{font:15px/1.5 system-ui,sans-serif;max-width:62rem;margin:2rem auto;padding:0 1rem;color:#1c2330;background:#fff}
h2{margin-top:2.5rem;border-bottom:1px solid #d5dae3}code,pre{font:13px/1.45 ui-monospace,monospace}
pre{background:#f4f6f9;padding:.7rem;overflow:auto}table{border-collapse:collapse;width:100%}
td,th{border-bottom:1px solid #e4e8ee;padding:.3rem .5rem;text-align:left;vertical-align:top}
summary{cursor:pointer;padding:.35rem 0}details details{margin-left:1rem}.method{display:inline-block;width:4.2rem;
font-weight:600}a{color:#1b5fbf}
@media(prefers-color-scheme:dark){body{color:#dde3ec;background:#12161d}pre{background:#1b212b}td,th,h2{border-color:#333b48}
a{color:#7fb2ff}}
"""
_STYLE_HASH: Final = b64encode(sha256(_STYLE.encode()).digest()).decode()
_HEADERS: Final = {
    "content-security-policy": f"default-src 'none'; style-src 'sha256-{_STYLE_HASH}'; frame-ancestors 'none'",
    "x-content-type-options": "nosniff",
    "referrer-policy": "no-referrer",
}


def routes(describe: Callable[[], Document]) -> APIRouter:
    """`describe` is asked when the first reader comes: only then every route is there."""
    router = APIRouter(route_class=DeferredRoute, include_in_schema=False)
    document = cache(lambda: json.dumps(describe()))
    # From the text: describing every route again would take a second.
    page = cache(lambda: render(json.loads(document())).encode())

    @router.get("/openapi.json")
    async def openapi(_caller: Caller) -> Response:
        return Response(document(), media_type="application/json")

    @router.get("/docs")
    async def docs(_caller: Caller) -> Response:
        return Response(page(), headers=_HEADERS, media_type="text/html")

    return router


def render(document: Document) -> str:
    info = document["info"]
    groups: dict[str, list[str]] = {}
    shared = document["components"].get("responses", {})
    for path, item in document["paths"].items():
        for method in _METHODS:
            if method in item:
                operation = item[method]
                tag = (operation.get("tags") or ["other"])[0]
                groups.setdefault(tag, []).append(_operation(method, path, operation, shared))
    sections = "".join(f"<h2>{escape(tag)}</h2>{''.join(found)}" for tag, found in groups.items())
    schemas = "".join(_schema(name, schema) for name, schema in document["components"]["schemas"].items())
    return (
        "<!doctype html><html lang=en><meta charset=utf-8><meta name=viewport content='width=device-width'>"
        f"<title>{escape(info['title'])}</title><style>{_STYLE}</style>"
        f"<h1>{escape(info['title'])} {escape(info['version'])}</h1><p>{escape(info.get('summary', ''))} "
        "The same for programs: <a href=/openapi.json>/openapi.json</a>.</p>"
        f"{sections}<h2>schemas</h2>{schemas}</html>"
    )


def _operation(method: str, path: str, operation: dict[str, Any], shared: dict[str, Any]) -> str:
    parts = [f"<p>{escape(operation['description'])}</p>"] if operation.get("description") else []
    if operation.get("parameters"):
        parts.append(_table(("parameter", "in", "type", "meaning"), map(_parameter, operation["parameters"])))
    for media_type, content in operation.get("requestBody", {}).get("content", {}).items():
        parts.append(f"<p>Body, <code>{escape(media_type)}</code>: {_type(content.get('schema', {}))}</p>")
    answers = [
        (status, shared[answer["$ref"].removeprefix(_SHARED)] if "$ref" in answer else answer)
        for status, answer in operation["responses"].items()
    ]
    parts.append(_table(("status", "answer", "meaning"), map(_answer, answers)))
    return (
        f"<details><summary><span class=method>{method.upper()}</span><code>{escape(path)}</code> "
        f"{escape(operation.get('summary', ''))}</summary>{''.join(parts)}</details>"
    )


def _parameter(parameter: dict[str, Any]) -> tuple[str, ...]:
    name = escape(parameter["name"]) + ("" if parameter.get("required") else " (optional)")
    return (
        f"<code>{name}</code>",
        parameter["in"],
        _type(parameter["schema"]),
        escape(parameter.get("description", "")),
    )


def _answer(item: tuple[str, dict[str, Any]]) -> tuple[str, ...]:
    status, answer = item
    content = "<br>".join(
        f"{_type(made.get('schema', {}))}" if media_type == "application/json" else f"<code>{escape(media_type)}</code>"
        for media_type, made in answer.get("content", {}).items()
    )
    return (status, content, "<br>".join(map(escape, answer.get("description", "").splitlines())))


def _table(heads: tuple[str, ...], rows: Any) -> str:
    head = "".join(f"<th>{name}" for name in heads)
    return f"<table><tr>{head}" + "".join("<tr>" + "".join(f"<td>{c}" for c in row) for row in rows) + "</table>"


def _schema(name: str, schema: dict[str, Any]) -> str:
    text = escape(json.pretty(schema).decode())
    return f"<details id='{escape(name)}'><summary><code>{escape(name)}</code></summary><pre>{text}</pre></details>"


def _type(schema: dict[str, Any]) -> str:
    """A type in few words; a schema of ours as a link to it."""
    if "$ref" in schema:
        name = escape(schema["$ref"].removeprefix(_REF))
        return f"<a href='#{name}'>{name}</a>"
    if "anyOf" in schema:
        return " or ".join(map(_type, schema["anyOf"]))
    if "enum" in schema:
        return " ".join(f"<code>{escape(str(value))}</code>" for value in schema["enum"])
    if "const" in schema:
        return f"<code>{escape(str(schema['const']))}</code>"
    kind = schema.get("type", "anything")
    return f"list of {_type(schema.get('items', {}))}" if kind == "array" else escape(str(kind))
