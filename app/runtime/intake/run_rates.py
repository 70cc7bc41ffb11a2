"""How many runs a tenant may start in a minute: a bucket for each, which fills up steadily.

Counted in this process. Leaves to others: what the limit is.
"""

from collections.abc import Callable
from math import ceil
from typing import Final

from cachetools import LRUCache

from app.core.clock import Clock
from app.core.errors import Failure

MAX_TENANTS: Final = 100_000
"""Buckets kept; the one unused for longest goes first, and its tenant begins with a full one."""


class RunRates:
    def __init__(self, per_minute: Callable[[], int | None], clock: Clock) -> None:
        self._per_minute, self._clock = per_minute, clock
        self._left: LRUCache[str, tuple[float, float, int]] = LRUCache(MAX_TENANTS)
        """By tenant: what is left of its bucket, when that was so, and under which limit."""

    def take(self, tenant: str) -> Failure | None:
        """One run, or why it cannot be had now."""
        limit = self._per_minute()
        if limit is None:
            return None
        left, now = self._now(tenant, limit)
        if left < 1:
            self._keep(tenant, left, now, limit)
            seconds = max(1, ceil((1 - left) * 60 / limit))
            message = f"a tenant may start {limit} runs in a minute; the next one can start in {seconds} s"
            return Failure("RUNS_PER_MINUTE", message, True, {"retryAfter": seconds})
        self._keep(tenant, left - 1, now, limit)
        return None

    def give_back(self, tenant: str) -> None:
        """What was taken started no run."""
        limit = self._per_minute()
        if limit is not None:
            left, now = self._now(tenant, limit)
            self._keep(tenant, min(limit, left + 1), now, limit)

    def _now(self, tenant: str, limit: int) -> tuple[float, float]:
        now = self._clock.monotonic()
        left, since, before = self._left.get(tenant, (float(limit), now, limit))
        # Under another limit, what was used stays used.
        left = max(0.0, left + limit - before)
        return min(limit, left + (now - since) * limit / 60), now

    def _keep(self, tenant: str, left: float, now: float, limit: int) -> None:
        self._left[tenant] = (left, now, limit)
