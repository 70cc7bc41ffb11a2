"""The way to the routes that are asked most: found by method and path, past the framework's layers.

For routes without parameters that read their own body and answer their own failures. Leaves to the framework: all
others. An error that nobody expected is answered by the handler that the framework would call.
"""

from collections.abc import Awaitable, Callable, Iterable
from typing import Final, cast

from fastapi import FastAPI
from fastapi.routing import APIRoute
from starlette.requests import Request
from starlette.responses import Response
from starlette.types import ASGIApp, Receive, Scope, Send

Apology = Callable[[Request, Exception], Awaitable[Response]]

_METHOD: Final = "POST"


class Shortcut:
    def __init__(self, app: FastAPI, routes: Iterable[APIRoute]) -> None:
        self.app: ASGIApp = app
        self._apologise = cast("Apology", app.exception_handlers[Exception])
        self._routes: dict[str, ASGIApp] = {route.path: self._straight(route) for route in routes}

    def __call__(self, scope: Scope, receive: Receive, send: Send) -> Awaitable[None]:
        """Awaited by the gate: one layer less for every time that a request is woken."""
        way = self.app
        if scope["type"] == "http" and scope["method"] == _METHOD:
            way = self._routes.get(scope["path"], self.app)
        return way(scope, receive, send)

    def _straight(self, route: APIRoute) -> ASGIApp:
        handle = route.get_route_handler()

        async def serve(scope: Scope, receive: Receive, send: Send) -> None:
            # What the framework would have noted, and the permission is looked up by.
            scope["app"], scope["route"], scope["path_params"] = self.app, route, {}
            request = Request(scope, receive, send)
            try:
                response = await handle(request)
            except Exception as error:
                # As the framework would: an answer, and what was raised goes on into the server's log.
                await (await self._apologise(request, error))(scope, receive, send)
                raise
            await response(scope, receive, send)

        return serve
