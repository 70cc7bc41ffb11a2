"""How many runs a tenant may start in a minute: a bucket for each, which fills up steadily.

Counted in this process, or over all servers where they share a database. Leaves to others: what the limit is.
"""

import contextlib
from collections.abc import Callable
from math import ceil
from typing import Final

from cachetools import LRUCache

from app.core.clock import Clock
from app.core.errors import Failure
from app.events.ports import StoreError
from app.runtime.ports import SharedRunRates

MAX_TENANTS: Final = 100_000
"""Buckets kept; the one unused for longest goes first, and its tenant begins with a full one."""


class RunRates:
    def __init__(
        self, per_minute: Callable[[], int | None], clock: Clock, shared: SharedRunRates | None = None
    ) -> None:
        self._per_minute, self._clock, self._shared = per_minute, clock, shared
        self._left: LRUCache[str, tuple[float, float, int]] = LRUCache(MAX_TENANTS)
        """By tenant: what is left of its bucket, when that was so, and under which limit."""

    async def take(self, tenant: str) -> Failure | None:
        """One run, or why it cannot be had now."""
        limit = self._per_minute()
        if limit is None:
            return None
        left = self._take(tenant, limit) if self._shared is None else await self._shared.take(tenant, limit)
        if left is None:
            return None
        seconds = max(1, ceil((1 - left) * 60 / limit))
        message = f"A tenant may start {limit} runs in a minute; the next one can start in {seconds} s."
        return Failure("RUNS_PER_MINUTE", message, True, {"retryAfter": seconds})

    def _take(self, tenant: str, limit: int) -> float | None:
        left, now = self._now(tenant, limit)
        self._keep(tenant, left - 1 if left >= 1 else left, now, limit)
        return None if left >= 1 else left

    async def give_back(self, tenant: str) -> None:
        """What was taken started no run."""
        limit = self._per_minute()
        if limit is None:
            return
        if self._shared is not None:
            with contextlib.suppress(StoreError):  # then the tenant waits a moment longer
                await self._shared.give_back(tenant, limit)
            return
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
