"""Routes that the framework takes apart when they are first called, not when the server starts.

At the start only the address and the methods are needed. What an endpoint takes is worked out at its first request, or
soon after the start (`build_routes`). What it answers is documentation only (routes write their bytes themselves), so
it is left to the OpenAPI document.
"""

from collections.abc import Callable, Iterable
from typing import Any

from fastapi.routing import APIRoute
from starlette.routing import BaseRoute, compile_path, get_name


class DeferredRoute(APIRoute):
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
        self.path_regex, self.path_format, self.param_convertors = compile_path(path)
        self.tags = options.get("tags") or []
        self.openapi_extra = options.get("openapi_extra")
        self.include_in_schema = options.get("include_in_schema", True)

    def __getattr__(self, name: str) -> Any:
        """Only what `__init__` has not set comes here: the first request, or whoever asks for more, builds the rest."""
        if name.startswith("_") or self._built:
            raise AttributeError(name)
        self.build()
        return getattr(self, name)

    def build(self) -> None:
        """May happen twice at once, in two threads: both make the same."""
        if not self._built:
            serving = self._options | {"response_model": None, "responses": None}
            super().__init__(self.path, self.endpoint, **serving, **self._identity())
            self._built = True

    def described(self) -> APIRoute:
        """A route of the framework with everything that this one documents."""
        return APIRoute(self.path, self.endpoint, **self._options, **self._identity())

    def _identity(self) -> dict[str, Any]:
        return {"methods": self.methods, "name": self.name, "operation_id": self.operation_id}


def build_routes(routes: Iterable[BaseRoute]) -> None:
    """All of them, in a thread once the server is ready: so that the first request need not wait for it."""
    for route in routes:
        if isinstance(route, DeferredRoute):
            route.build()
