"""Routes that the framework takes apart when they are first called, not when the server starts.

At the start only the address and the methods are needed. Its pattern is compiled for the first request whose address
begins as the route's does; for all others a comparison of text is enough, which is also quicker. What an endpoint takes
is worked out at its first request: that takes a fraction of a millisecond, and for all the routes together, most of
which a server is never asked for, 4 MB. What it answers is documentation only (routes write their bytes themselves), so
it is left to the OpenAPI document.
"""

import sys
from collections.abc import Callable
from typing import Any, Final

from fastapi._compat import shared
from fastapi.routing import APIRoute
from starlette.routing import Match, compile_path, get_name
from starlette.types import Scope

from app.protocols.http.late_shapes import with_shapes

_OF_PATH: Final = frozenset({"path_regex", "path_format", "param_convertors"})


def _ask_only_if_loaded() -> None:
    """The framework imports `pydantic.v1` (10 ms, 2 MB) to ask whether a parameter is a model of it. It cannot be one
    while nobody else has imported that. A version of the framework without this function asks in its own way."""
    ask: Callable[[Any], bool] | None = getattr(shared, "is_pydantic_v1_model_class", None)
    if ask is not None:
        shared.is_pydantic_v1_model_class = lambda cls: "pydantic.v1" in sys.modules and ask(cls)


_ask_only_if_loaded()


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
