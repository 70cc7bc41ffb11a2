"""Reads bodies of LangGraph's clients field by field: lenient about what is unknown, strict about what is used.

Errors name the field, never its value. Leaves to others: what the fields mean.
"""

from collections.abc import Collection
from typing import Any, Final

from fastapi import Request, Response

from app.core import json
from app.core.json import JsonObject
from app.protocols.http.body import off_loop, parsed, read_body
from app.protocols.http.request_fields import wrong_metadata
from app.protocols.langgraph.errors import Declined

MAX_BODY_BYTES: Final = 32 * 1024 * 1024
MAX_LIMIT: Final = 1000
MAX_OFFSET: Final = 1_000_000


async def read_object(request: Request) -> JsonObject:
    """The body; none at all is an empty object."""
    body = await read_any(request)
    if not isinstance(body, dict):
        raise Declined("The body must be an object.")
    return body


async def read_any(request: Request) -> Any:
    raw = await read_body(request, MAX_BODY_BYTES)
    return await off_loop(len(raw), lambda: parsed(raw)) if raw.strip() else {}


def text(body: JsonObject, name: str, *, longest: int = 200) -> str | None:
    given = body.get(name)
    if given is None:
        return None
    if not isinstance(given, str) or not 0 < len(given) <= longest:
        raise Declined(f"{name} must be a text of 1 to {longest} characters.")
    return given


def flag(body: JsonObject, name: str) -> bool:
    given = body.get(name)
    if given is None:
        return False
    if not isinstance(given, bool):
        raise Declined(f"{name} must be true or false.")
    return given


def choice(body: JsonObject, name: str, allowed: Collection[str], default: str) -> str:
    given = body.get(name)
    if given is None:
        return default
    if not isinstance(given, str) or given not in allowed:
        raise Declined(f"{name} must be one of {', '.join(sorted(allowed))}.")
    return given


def whole(body: JsonObject, name: str, default: int, most: int, *, least: int = 0) -> int:
    given = body.get(name)
    if given is None:
        return default
    if not isinstance(given, int) or isinstance(given, bool) or not least <= given <= most:
        raise Declined(f"{name} must be a whole number from {least} to {most}.")
    return given


def mapping(body: JsonObject, name: str) -> JsonObject:
    given = body.get(name)
    if given is None:
        return {}
    if not isinstance(given, dict):
        raise Declined(f"{name} must be an object.")
    return given


def metadata(body: JsonObject) -> JsonObject:
    given = mapping(body, "metadata")
    if (wrong := wrong_metadata(given)) is not None:
        raise Declined(f"metadata {wrong}.")
    return given


def texts(body: JsonObject, name: str, *, most: int = 1000) -> list[str] | None:
    given = body.get(name)
    if given is None:
        return None
    if not isinstance(given, list) or len(given) > most or not all(isinstance(one, str) for one in given):
        raise Declined(f"{name} must be a list of at most {most} texts.")
    return given


def contains(held: Any, wanted: Any) -> bool:
    """Whether all that is wanted is there: objects are compared key by key."""
    if isinstance(wanted, dict):
        return isinstance(held, dict) and all(contains(held.get(name), value) for name, value in wanted.items())
    return bool(held == wanted)


def selected(shown: JsonObject, select: Collection[str] | None) -> JsonObject:
    return shown if not select else {name: value for name, value in shown.items() if name in select}


def reply(value: Any, headers: dict[str, str] | None = None, status: int = 200) -> Response:
    return Response(json.dumps(value), status, headers, "application/json")


def takes(*required: str, **properties: JsonObject) -> JsonObject:
    """A body for the OpenAPI document; clients may send more than is listed."""
    schema: JsonObject = {"type": "object", "properties": properties, "additionalProperties": True}
    if required:
        schema["required"] = list(required)
    return {"requestBody": {"required": bool(required), "content": {"application/json": {"schema": schema}}}}


_PROBLEM: Final = {
    "type": "object",
    "required": ["detail"],
    "properties": {"detail": {"type": "string"}, "code": {"type": "string"}},
}
REFUSALS: Final[dict[int | str, dict[str, Any]]] = {
    status: {"description": description, "content": {"application/json": {"schema": _PROBLEM}}}
    for status, description in {
        404: "There is no such assistant, thread, run, checkpoint or item.",
        409: "The thread is busy, or exists already.",
        413: "The body is too large.",
        422: "The request cannot be served as it is.",
        429: "A limit is used up.",
        503: "Not now.",
    }.items()
}
STRING: Final[JsonObject] = {"type": "string"}
OBJECT: Final[JsonObject] = {"type": "object"}
FLAG: Final[JsonObject] = {"type": "boolean"}
NUMBER: Final[JsonObject] = {"type": "integer"}
STRINGS: Final[JsonObject] = {"type": "array", "items": STRING}
ANYTHING: Final[JsonObject] = {}
