"""The routes that end work: they have bounds of their own, so that a busy or overloaded caller can still cancel.

Found among the routes themselves, never by how an address ends: an id may end in anything. Leaves to others: what a
refusal looks like (the gate).
"""

import re
from collections.abc import Iterable
from typing import Final

from fastapi.routing import APIRoute
from starlette.routing import BaseRoute

from app.core.clock import Clock
from app.protocols.edge.limits import InFlight, Rates

CANCELS: Final = frozenset(
    {
        "/api/runs/{run_id}/cancel",
        "/v1/responses/{response_id}/cancel",
        "/api/sessions/{session_id}/interrupt",
        "/langgraph/threads/{thread_id}/runs/{run_id}/cancel",
        "/langgraph/runs/cancel",
    }
)
_AT_ROOT: Final = frozenset(path.removeprefix("/langgraph") for path in CANCELS if path.startswith("/langgraph"))
"""Of the LangGraph interface, where the settings have it at the root as well."""


class Cancels:
    """`rates` and `in_flight` are as large as those of all other requests, and apart from them."""

    def __init__(self, routes: Iterable[BaseRoute], rates: Rates, in_flight: InFlight) -> None:
        self.rates, self.in_flight = rates, in_flight
        found = [route for route in routes if isinstance(route, APIRoute) and route.path in CANCELS | _AT_ROOT]
        assert {route.path for route in found} >= CANCELS, "a route that cancels was renamed"
        self._paths: tuple[tuple[set[str], re.Pattern[str]], ...] = tuple(
            (set(route.methods or ()), route.path_regex) for route in found
        )

    def matches(self, method: str, path: str) -> bool:
        if not path.endswith(("/cancel", "/interrupt")):
            return False  # most requests, at once
        return any(method in methods and regex.match(path) for methods, regex in self._paths)


def cancels_of(routes: Iterable[BaseRoute], per_second: int, most: int, per_tenant: int, clock: Clock) -> Cancels:
    return Cancels(routes, Rates(per_second, clock), InFlight(most, per_tenant))
