"""Our own routes take what they declare and nothing else: a misspelt parameter is a mistake, not a surprise.

What a route takes is derived from its declaration. Routes of other interfaces
(`/v1`, sessions) stay lenient, because their clients may send more than we know; so does the websocket. Leaves to
others: the fields of a body that a route does read (`body`).
"""

from collections.abc import Iterable
from typing import Final
from urllib.parse import parse_qsl

from fastapi import Request
from fastapi.dependencies.models import Dependant
from starlette.requests import HTTPConnection
from starlette.routing import BaseRoute

from app.core.errors import Failure
from app.core.schemas import Issue
from app.protocols.http.body import parsed, read_body
from app.protocols.http.body_issues import shown, unknown_name
from app.protocols.http.deferred_route import DeferredRoute
from app.protocols.http.errors import MAX_ISSUES, HttpProblem

_MAX_EMPTY_BODY: Final = 1024
"""Bytes of a body that may be an empty object, where no body is needed."""


def mark(routes: Iterable[BaseRoute]) -> None:
    """Notes on every route of ours whether it takes a body, and with that that it is one of ours."""
    for route in routes:
        if type(route) is DeferredRoute:  # those of other interfaces have classes of their own
            takes_body = "requestBody" in (route.openapi_extra or {})
            setattr(route, "holdfast_takes_body", takes_body)  # noqa: B010


async def refuse_undeclared(connection: HTTPConnection) -> None:
    scope = connection.scope
    route = scope.get("route")
    takes_body: bool | None = getattr(route, "holdfast_takes_body", None)
    if route is None or takes_body is None:
        return
    if scope["query_string"]:
        _refuse_unknown_names(scope["query_string"], _query_names(route.dependant))
    if not takes_body and isinstance(connection, Request):
        await _refuse_body(connection)


def _refuse_unknown_names(query: bytes, declared: Iterable[str]) -> None:
    names = {name for name, _ in parse_qsl(query.decode("latin-1"), keep_blank_values=True)}
    known = frozenset(declared)
    if unknown := sorted(names - known):
        issues = [Issue(f"/query/{shown(name)}", unknown_name(name, known)) for name in unknown[:MAX_ISSUES]]
        raise HttpProblem(
            Failure("UNKNOWN_PARAMETER", "The address has a parameter that this call does not take."), issues
        )


async def _refuse_body(request: Request) -> None:
    headers = request.headers
    if headers.get("content-length", "0") == "0" and "transfer-encoding" not in headers:
        return
    raw = await read_body(request, _MAX_EMPTY_BODY)
    if raw.strip() and parsed(raw) != {}:
        raise HttpProblem(Failure("INVALID_REQUEST", "This call takes no body."), [Issue("/", "must be empty")])


def _query_names(dependant: Dependant) -> Iterable[str]:
    yield from (field.alias for field in dependant.query_params)
    for inner in dependant.dependencies:
        yield from _query_names(inner)
