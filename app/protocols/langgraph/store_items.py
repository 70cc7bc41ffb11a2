"""LangGraph's store on our memory: items by namespace and key, found by fields or by words.

Leaves to others: keeping them (`runtime.intake.memory_items`) and the policy of the memory.
"""

from typing import Annotated, Any, Final

from fastapi import APIRouter, Query, Request, Response

from app.core.clock import iso
from app.core.errors import Failure
from app.core.json import JsonObject
from app.protocols.context import ServerContext
from app.protocols.http.caller import Caller
from app.protocols.http.errors import HttpProblem
from app.protocols.langgraph import fields
from app.protocols.langgraph.errors import Declined
from app.runtime.intake.memory_items import MAX_DEPTH, MemoryItem, NewItem

MAX_KEY: Final = 500
MAX_QUERY: Final = 8000
_MAX_MINUTES: Final = 100 * 366 * 1440
_OPERATORS: Final = {
    "$eq": lambda held, wanted: held == wanted,
    "$ne": lambda held, wanted: held != wanted,
    "$gt": lambda held, wanted: held > wanted,
    "$gte": lambda held, wanted: held >= wanted,
    "$lt": lambda held, wanted: held < wanted,
    "$lte": lambda held, wanted: held <= wanted,
}


def add_store(router: APIRouter, server: ServerContext) -> None:
    @router.put("/store/items", status_code=204, summary="Store an item", openapi_extra=_PUT)
    async def put_item(request: Request, caller: Caller) -> Response:
        """The policy of the memory decides: what a person is asked about is there once it was accepted."""
        body = await fields.read_object(request)
        if not isinstance(body.get("value"), dict):
            raise Declined("value must be an object.")
        if not body.get("namespace"):
            raise Declined(f"namespace must be a list of 1 to {MAX_DEPTH} labels.")
        new = NewItem(_namespace(body, "namespace"), _key(body), body["value"], _indexed(body), _expiry(server, body))
        _ok(await server.memory.items.put(caller, new))
        return Response(status_code=204)

    @router.get("/store/items", summary="One item, or null")
    async def get_item(
        caller: Caller,
        key: Annotated[str, Query(min_length=1, max_length=MAX_KEY)],
        namespace: Annotated[str, Query(max_length=4000)] = "",
    ) -> Response:
        labels = tuple(namespace.split(".")) if namespace else ()
        found = _ok(await server.memory.items.get(caller, labels, key, server.clock.now_ms()))
        return fields.reply(None if found is None else _shown(found))

    @router.delete("/store/items", status_code=204, summary="Delete an item", openapi_extra=_DELETE)
    async def delete_item(request: Request, caller: Caller) -> Response:
        body = await fields.read_object(request)
        _ok(await server.memory.items.delete(caller, _namespace(body, "namespace"), _key(body)))
        return Response(status_code=204)

    @router.post("/store/items/search", summary="Find items", openapi_extra=_SEARCH)
    async def search_items(request: Request, caller: Caller) -> Response:
        body = await fields.read_object(request)
        limit = fields.whole(body, "limit", 10, fields.MAX_LIMIT)
        offset = fields.whole(body, "offset", 0, fields.MAX_OFFSET)
        prefix, wanted = _namespace(body, "namespace_prefix"), fields.mapping(body, "filter")
        _refuse_unknown_operators(wanted)
        query, now = fields.text(body, "query", longest=MAX_QUERY), server.clock.now_ms()
        if query is None:
            found = _ok(await server.memory.items.all(caller, prefix, now))
        else:
            most = fields.MAX_LIMIT if wanted else min(fields.MAX_LIMIT, offset + limit)
            found = _ok(await server.memory.items.search(caller, prefix, query, max(1, most), now))
        fitting = [item for item in found if _fits(item, wanted)]
        return fields.reply({"items": [_shown(item) for item in fitting[offset : offset + limit]]})

    @router.post("/store/namespaces", summary="The namespaces that have items", openapi_extra=_NAMESPACES)
    async def list_namespaces(request: Request, caller: Caller) -> Response:
        body = await fields.read_object(request)
        prefix, suffix = _namespace(body, "prefix"), _namespace(body, "suffix")
        depth = fields.whole(body, "max_depth", MAX_DEPTH, MAX_DEPTH, least=1)
        limit = fields.whole(body, "limit", 100, fields.MAX_LIMIT)
        offset = fields.whole(body, "offset", 0, fields.MAX_OFFSET)
        found = [
            one
            for one in await server.memory.items.namespaces(caller)
            if _matches(one[: len(prefix)], prefix) and (not suffix or _matches(one[-len(suffix) :], suffix))
        ]
        shown = list(dict.fromkeys(one[:depth] for one in found))
        return fields.reply({"namespaces": [list(one) for one in shown[offset : offset + limit]]})


def _matches(labels: tuple[str, ...], wanted: tuple[str, ...]) -> bool:
    """`*` stands for any label."""
    return len(labels) == len(wanted) and all(one in (label, "*") for label, one in zip(labels, wanted, strict=True))


def _ok(answer: Any) -> Any:
    if isinstance(answer, Failure):
        raise HttpProblem(answer)
    return answer


def _namespace(body: JsonObject, name: str) -> tuple[str, ...]:
    given = fields.texts(body, name, most=MAX_DEPTH) or []
    if any("." in label for label in given):
        raise Declined(f"{name}: a label has no periods.")
    return tuple(given)


def _key(body: JsonObject) -> str:
    key = fields.text(body, "key", longest=MAX_KEY)
    if key is None:
        raise Declined("key is required.")
    return key


def _indexed(body: JsonObject) -> list[str] | None:
    return [] if body.get("index") is False else fields.texts(body, "index", most=50)


def _expiry(server: ServerContext, body: JsonObject) -> str | None:
    minutes = body.get("ttl")
    if minutes is None:
        return None
    if not isinstance(minutes, int | float) or isinstance(minutes, bool) or not 0 < minutes <= _MAX_MINUTES:
        raise Declined("ttl must be a number of minutes.")
    return iso(server.clock.now_ms() + round(minutes * 60_000))


def _compares(value: Any) -> bool:
    return isinstance(value, dict) and bool(value) and all(key.startswith("$") for key in value)


def _refuse_unknown_operators(wanted: JsonObject) -> None:
    if any(_compares(value) and not value.keys() <= _OPERATORS.keys() for value in wanted.values()):
        raise Declined(f"filter: there are {', '.join(_OPERATORS)}.")


def _fits(item: MemoryItem, wanted: JsonObject) -> bool:
    for name, value in wanted.items():
        held = item.value.get(name)
        if _compares(value):
            for operator, limit in value.items():
                try:
                    fits = bool(_OPERATORS[operator](held, limit))
                except TypeError:
                    return False
                if not fits:
                    return False
        elif not fields.contains(held, value):
            return False
    return True


def _shown(item: MemoryItem) -> JsonObject:
    shown: JsonObject = {
        "namespace": list(item.namespace),
        "key": item.key,
        "value": dict(item.value),
        "created_at": item.created_at,
        "updated_at": item.updated_at,
    }
    return shown if item.score is None else shown | {"score": item.score}


_LABELS: Final = {"type": "array", "maxItems": MAX_DEPTH, "items": fields.STRING}
_PUT: Final = fields.takes(
    "namespace", "key", "value", namespace=_LABELS, key=fields.STRING, value=fields.OBJECT, ttl={"type": "number"}
)
_DELETE: Final = fields.takes("key", namespace=_LABELS, key=fields.STRING)
_SEARCH: Final = fields.takes(
    namespace_prefix=_LABELS, filter=fields.OBJECT, query=fields.STRING, limit=fields.NUMBER, offset=fields.NUMBER
)
_NAMESPACES: Final = fields.takes(
    prefix=_LABELS, suffix=_LABELS, max_depth=fields.NUMBER, limit=fields.NUMBER, offset=fields.NUMBER
)
