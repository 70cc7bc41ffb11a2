"""Routes that the framework takes apart when they are first called, not when the server starts.

At the start only the address and the methods are needed. Its pattern is compiled for the first request whose address
begins as the route's does; for all others a comparison of text is enough, which is also quicker. What an endpoint takes
is worked out at its first request, or soon after the start (`build_routes`). What it answers is documentation only
(routes write their bytes themselves), so it is left to the OpenAPI document.
"""

from collections.abc import Callable, Iterable
from typing import Any, Final

from fastapi.routing import APIRoute
from starlette.routing import BaseRoute, Match, compile_path, get_name
from starlette.types import Scope

from app.protocols.http.late_shapes import with_shapes

_OF_PATH: Final = frozenset({"path_regex", "path_format", "param_convertors"})


class DeferredRoute(APIRoute):
    at_first_use = False
    """Whether it is left alone until its first request: it would import what most servers never need."""

    def __init__(
        self,
        path: str,
        endpoint: Callable[..., Any],
        *,
        methods: set[str] | list[str] | None = None,
        name: str | None = None,
        operation_id: str | None = None,
        **options: Any,
    ) -> None:
        self._options, self._built = options, False
        self.path, self.endpoint, self.operation_id = path, endpoint, operation_id
        self.name = name or get_name(endpoint)
        self.methods = {method.upper() for method in methods or ("GET",)}
        self._beginning = path.partition("{")[0]
        self.tags = options.get("tags") or []
        self.openapi_extra = options.get("openapi_extra")
        self.include_in_schema = options.get("include_in_schema", True)

    def __getattr__(self, name: str) -> Any:
        """Only what `__init__` has not set comes here: the first request, or whoever asks for more, builds the rest."""
        if name.startswith("_") or self._built:
            raise AttributeError(name)
        if name in _OF_PATH:
            self.path_regex, self.path_format, self.param_convertors = compile_path(self.path)
        else:
            self.build()
        return getattr(self, name)

    def matches(self, scope: Scope) -> tuple[Match, Scope]:
        if not scope["path"].startswith(self._beginning) and not scope.get("root_path"):
            return Match.NONE, {}
        return super().matches(scope)

    def build(self) -> None:
        """May happen twice at once, in two threads: both make the same."""
        if not self._built:
            serving = self._options | {"response_model": None, "responses": None}
            super().__init__(self.path, self.endpoint, **serving, **self._identity())
            self._built = True

    def described(self) -> APIRoute:
        """A route of the framework with everything that this one documents."""
        return APIRoute(self.path, self.endpoint, **with_shapes(self._options), **self._identity())

    @property
    def options(self) -> dict[str, Any]:
        """What it was declared with, besides its address."""
        return self._options

    def _identity(self) -> dict[str, Any]:
        return {"methods": self.methods, "name": self.name, "operation_id": self.operation_id}


def build_routes(routes: Iterable[BaseRoute]) -> None:
    """In a thread once the server is ready, so that the first request need not wait for it; but for those that are left
    to their first use."""
    for route in routes:
        if isinstance(route, DeferredRoute) and not route.at_first_use:
            route.build()
