"""Routes that are served past the framework's layers, because they are called most: declared so by `@straight`.

Such a route takes the request and the caller, has no parameters, reads its own body and answers its own failures.
`straight_handlers` checks that when the server starts. Leaves to others: finding the route (`edge.shortcut`).
"""

from collections.abc import Awaitable, Callable, Iterable
from typing import Any, Final, TypeVar

from fastapi import Request, Response
from fastapi.params import Depends
from fastapi.routing import APIRoute
from starlette.routing import BaseRoute

from app.core.principal import Principal
from app.protocols.auth.permissions import needs_of, parameters_of
from app.protocols.http.caller import authorise, permitted
from app.protocols.http.deferred_route import DeferredRoute

Handler = Callable[[Request], Awaitable[Response]]
StraightEndpoint = TypeVar("StraightEndpoint", bound=Callable[[Request, Principal], Awaitable[Response]])

METHOD: Final = "POST"
_MARK: Final = "holdfast_straight"


def straight(endpoint: StraightEndpoint) -> StraightEndpoint:
    """Declares an endpoint of the form `(request, caller)`; stands below `@router.post(...)` of a `StraightRoute`."""
    setattr(endpoint, _MARK, True)
    return endpoint


class StraightRoute(DeferredRoute):
    """A class of routes that answers its failures itself, so that its endpoints may be `straight`."""

    def answering(self, handle: Handler) -> Handler:
        """The handler with every failure answered."""
        raise NotImplementedError

    def get_route_handler(self) -> Callable[[Request], Any]:
        return self.answering(super().get_route_handler())

    def straight_handler(self) -> Handler:
        endpoint, needs = self.endpoint, needs_of(self)
        return self.answering(lambda request: endpoint(request, permitted(request, needs, {})))


def straight_handlers(routes: Iterable[BaseRoute]) -> dict[str, Handler]:
    """Path to handler of the routes that were declared straight; raises for one that cannot be."""
    found: dict[str, Handler] = {}
    for route in routes:
        if isinstance(route, APIRoute) and getattr(route.endpoint, _MARK, False):
            if not isinstance(route, StraightRoute) or (problem := _problem(route)) is not None:
                reason = "its class does not answer failures" if not isinstance(route, StraightRoute) else problem
                raise RuntimeError(f"{route.path} is declared straight, but {reason}")
            found[route.path] = route.straight_handler()
    return found


def _problem(route: StraightRoute) -> str | None:
    if route.methods != {METHOD}:
        return f"its method is not {METHOD}"
    asked: list[object] = []
    for _, annotation, notes in parameters_of(route.endpoint):
        if len(notes) == 1 and isinstance(notes[0], Depends):
            asked.append(notes[0].dependency)
        elif notes or annotation is not Request:
            return "it has parameters that only the framework reads"
    if "{" in route.path:
        return "it has parameters that only the framework reads"
    if asked != [authorise]:
        return "it depends on something else than its caller"
    if needs_of(route) is None:
        return "it has no permission"
    return None
