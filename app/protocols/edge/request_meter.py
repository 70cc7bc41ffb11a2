"""Counts and logs HTTP requests when their answer begins: by route template, method and status.

Nothing happens per part of an answer. A request that matched no route counts as `(none)`, so strangers cannot multiply
the labels; a log line has the path without its query. Leaves to others: rendering (`core.metrics`, `core.logs`).
"""

from collections.abc import Callable
from time import monotonic
from typing import Final

import structlog
from starlette.types import Scope

from app.core.metrics import MAX_CHILDREN, Counter, Histogram, Metrics
from app.core.recent import RecentDict

Observe = Callable[[Scope, float, int], None]
"""(scope, when the request arrived, status)."""

ROUTE: Final = "holdfast.route"
"""The key of the path of a route that was not found by the framework, which notes its own."""
_NO_ROUTE: Final = "(none)"
_METHODS: Final = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
_MAX_PATH: Final = 200
_SECONDS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)


def unobserved(scope: Scope, began: float, status: int) -> None:
    """For a gate whose requests nobody counts."""


log = structlog.get_logger("holdfast.http")


class RequestMeter:
    def __init__(self, metrics: Metrics, *, access_log: bool, log_level: str) -> None:
        self._write = log.info if access_log else log.debug if log_level == "debug" else None
        self._requests = metrics.counter("http_requests", "Requests answered.", "method", "route", "status")
        self._seconds = metrics.histogram(
            "http_request_seconds", "From a request's arrival to the begin of its answer.", _SECONDS, "route"
        )
        self._counted = RecentDict[tuple[str, str, int], tuple[Counter, Histogram]](MAX_CHILDREN)
        """What a request with such an answer counts in."""

    def __call__(self, scope: Scope, began: float, status: int) -> None:
        found: str | None = scope.get(ROUTE) or getattr(scope.get("route"), "path", None)
        route = found or _NO_ROUTE
        method = scope["method"] if scope["method"] in _METHODS else "(other)"
        seconds = monotonic() - began
        counted = self._counted.get((method, route, status)) or self._counters_of(method, route, status)
        counted[0].value += 1
        counted[1].observe(seconds)
        if self._write is not None:
            path, ms = scope["path"][:_MAX_PATH], round(seconds * 1000, 1)
            self._write("http.request", method=method, path=path, route=route, status=status, ms=ms)

    def _counters_of(self, method: str, route: str, status: int) -> tuple[Counter, Histogram]:
        found = self._requests.of(method, route, str(status)), self._seconds.of(route)
        self._counted.put((method, route, status), found)
        return found
