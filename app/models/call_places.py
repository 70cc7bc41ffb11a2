"""A place among the calls of a Model, within its limits: those of this server and, on Postgres, of all servers.

For calls that are no completions; those wait within their own deadline (`attempt`). Leaves to `limits` and
`shared_limits`: counting.
"""

import asyncio
from typing import Final

from app.core.errors import Failure
from app.core.value import value
from app.models.config import ModelConfig
from app.models.limits import Limiter, Slot
from app.models.shared_limits import SharedLimits, SharedSlot

WAIT_SECONDS: Final = 30.0
"""How long a call may wait for its place, or as long as the Model's `timeouts.totalSeconds` if that is less."""


@value(frozen=True, slots=True)
class CallPlace:
    slot: Slot
    shared: SharedLimits | None
    shared_slot: SharedSlot | None

    def release(self, used_tokens: int) -> None:
        self.slot.release(used_tokens)
        if self.shared is not None and self.shared_slot is not None:
            self.shared.release(self.shared_slot, used_tokens)


class CallPlaces:
    def __init__(self, limiter: Limiter, shared: SharedLimits | None = None) -> None:
        """The same limiter as for completions: a Model's limits hold for everything that it is asked."""
        self._limiter, self._shared = limiter, shared

    async def acquire(self, config: ModelConfig, tenant: str, tokens: int) -> CallPlace | Failure:
        seconds = min(WAIT_SECONDS, config.timeouts.total_seconds)
        try:
            async with asyncio.timeout(seconds):
                return await self._acquired(config, tenant, tokens)
        except TimeoutError:
            return Failure("MODEL_QUEUE_FULL", f"No place among the model calls was free for {seconds:g} s.", True)

    async def _acquired(self, config: ModelConfig, tenant: str, tokens: int) -> CallPlace | Failure:
        slot = await self._limiter.acquire(config, tenant, tokens)
        if isinstance(slot, Failure):
            return slot
        shared = self._shared if self._shared is not None and self._shared.apply_to(config.limits) else None
        if shared is None:
            return CallPlace(slot, None, None)
        try:
            return CallPlace(slot, shared, await shared.acquire(config, tenant, tokens))
        except BaseException:
            slot.release(0)
            raise
