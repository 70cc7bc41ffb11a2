"""The way to the routes that are asked most: found by method and path, past the framework's layers.

For routes without parameters that read their own body and answer their own failures. Leaves to the framework: all
others, and what becomes of an error that nobody expected.
"""

from collections.abc import Iterable
from typing import Final

from fastapi import FastAPI
from fastapi.routing import APIRoute
from starlette.middleware.errors import ServerErrorMiddleware
from starlette.requests import Request
from starlette.types import ASGIApp, Receive, Scope, Send

_METHOD: Final = "POST"


class Shortcut:
    def __init__(self, app: FastAPI, routes: Iterable[APIRoute]) -> None:
        self.app = app
        handlers = app.exception_handlers
        unexpected = handlers.get(500) or handlers.get(Exception)
        self._routes: dict[str, ASGIApp] = {
            route.path: ServerErrorMiddleware(self._straight(route), handler=unexpected) for route in routes
        }

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["method"] == _METHOD:
            await self._routes.get(scope["path"], self.app)(scope, receive, send)
        else:
            await self.app(scope, receive, send)

    def _straight(self, route: APIRoute) -> ASGIApp:
        handle = route.get_route_handler()

        async def serve(scope: Scope, receive: Receive, send: Send) -> None:
            # What the framework would have noted, and the permission is looked up by.
            scope["app"], scope["route"], scope["path_params"] = self.app, route, {}
            response = await handle(Request(scope, receive, send))
            await response(scope, receive, send)

        return serve
