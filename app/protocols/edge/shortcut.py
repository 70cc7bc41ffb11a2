"""The way to the routes that are called most: found by their path, past the framework's layers.

Leaves to the framework: all other routes; to `http.straight`: which routes these are, and that they are fit for it.
"""

from collections.abc import Awaitable, Mapping

from starlette.requests import Request
from starlette.types import ASGIApp, Receive, Scope, Send

from app.protocols.edge.request_meter import ROUTE
from app.protocols.http.errors import unexpected
from app.protocols.http.straight import METHOD, Handler


class Shortcut:
    def __init__(self, app: ASGIApp, straight: Mapping[str, Handler]) -> None:
        self.app = app
        self._routes: dict[str, ASGIApp] = {path: _app(path, handle) for path, handle in straight.items()}

    def __call__(self, scope: Scope, receive: Receive, send: Send) -> Awaitable[None]:
        """Awaited by the gate: one layer less for every time that a request is woken."""
        app = self.app
        if scope["type"] == "http" and scope["method"] == METHOD:
            app = self._routes.get(scope["path"], app)
        return app(scope, receive, send)


def _app(path: str, handle: Handler) -> ASGIApp:
    async def serve(scope: Scope, receive: Receive, send: Send) -> None:
        scope[ROUTE] = path
        try:
            response = await handle(Request(scope, receive, send))
        except Exception:
            # As through the framework: an answer, and the exception goes on into the server's log.
            await unexpected(path)(scope, receive, send)
            raise
        await response(scope, receive, send)

    return serve
