"""The addresses of LangGraph Server's interface, under /langgraph, and at the root as well where the settings say so.

They are read from the table of permissions, so a server that no LangGraph client asks starts without the interface.
Leaves to `router` the routes themselves; it is imported at the first request.
"""

from collections.abc import Callable
from functools import cache
from typing import Any, Final

from fastapi import APIRouter, Request, Response, WebSocket
from fastapi.routing import APIRoute
from starlette.routing import BaseRoute
from starlette.types import Receive, Scope, Send

from app.protocols.auth.permissions import LANGGRAPH, guard
from app.protocols.context import ServerContext
from app.protocols.http.caller import Caller, authorise
from app.protocols.http.late_import import loaded
from app.protocols.langgraph.errors import LangGraphRoute

PREFIX: Final = "/langgraph"
_ROUTER: Final = "app.protocols.langgraph.router"
_SOCKET: Final = "WS"
_TAG: Final = "langgraph"
_IDS: Final = {
    "assistants": "assistant_id",
    "threads": "thread_id",
    "runs": "run_id",
    "crons": "cron_id",
    "state": "checkpoint_id",
    "subgraphs": "namespace",
}
"""What the id is called that follows a segment of an address."""

RealRoutes = Callable[[], dict[tuple[str, str], LangGraphRoute]]


class LateRoute(LangGraphRoute):
    """An address and its method; the rest is taken from the real route when somebody asks for it."""

    def __init__(self, method: str, path: str, real: RealRoutes, *, in_schema: bool) -> None:
        super().__init__(path, _placeholder, methods=[method], tags=[_TAG], include_in_schema=in_schema)
        self._method, self._real = method, real

    @property
    def real(self) -> LangGraphRoute:
        return self._real()[self._method, self.path]

    def build(self) -> None:
        if not self._built:
            real = self.real
            self.endpoint, self.name, self.operation_id = real.endpoint, real.name, real.operation_id
            self._options = real.options | {"include_in_schema": self.include_in_schema}
            super().build()

    def described(self) -> APIRoute:
        self.build()
        return super().described()

    async def handle(self, scope: Scope, receive: Receive, send: Send) -> None:
        await loaded(_ROUTER)
        await super().handle(scope, receive, send)


async def _placeholder(request: Request, caller: Caller) -> Response:
    raise NotImplementedError  # never served: a request builds its route first


def routes(server: ServerContext) -> APIRouter:
    router = APIRouter()
    router.routes += _addresses(server, PREFIX, in_schema=True)
    if getattr(server.settings, "langgraph_at_root", False):  # there are none where only documents are generated
        router.routes += _addresses(server, "", in_schema=False)
    return router


def _addresses(server: ServerContext, prefix: str, *, in_schema: bool) -> list[BaseRoute]:
    @cache
    def real() -> dict[tuple[str, str], LangGraphRoute]:
        return _real_routes(server, prefix)

    made: list[BaseRoute] = []
    # The ones with a fixed name stand before those that would take the name for an id.
    for key in sorted(LANGGRAPH, key=lambda key: [segment == "{}" for segment in key.split("/")]):
        method, _, path = key.partition(" ")
        if method == _SOCKET:
            made.append(_socket(server, prefix + _named(path)))
        else:
            made.append(LateRoute(method, prefix + _named(path), real, in_schema=in_schema))
    return made


def _real_routes(server: ServerContext, prefix: str) -> dict[tuple[str, str], LangGraphRoute]:
    """By method and path. Guarded as those are that a server starts with."""
    from app.protocols.langgraph.router import real_routes

    found = [route for route in real_routes(server, prefix) if isinstance(route, LangGraphRoute)]
    for route in found:
        route.operation_id = f"{_TAG}_{route.name}"
    guard(found, authorise)
    return {(method, route.path): route for route in found for method in route.methods or ()}


def _named(path: str) -> str:
    """With names for its ids: `/threads/{}` is `/threads/{thread_id}`."""
    segments: list[str] = path.split("/")
    for number, segment in enumerate(segments):
        if segment == "{}":
            segments[number] = f"{{{_IDS[segments[number - 1]]}}}"
    return "/".join(segments)


def _socket(server: ServerContext, path: str) -> Any:
    router = APIRouter()

    @router.websocket(path)
    async def socket(websocket: WebSocket, caller: Caller) -> None:
        await loaded(_ROUTER)
        from app.protocols.langgraph.protocol_socket import serve_events

        await serve_events(server, caller, websocket)

    return router.routes[0]
