"""Counts who was turned away, per principal or peer and minute, and records them in the ledger once a minute.

Bounded twice: a minute holds so many different names, the rest is counted together; and the ledger gets at most that
many entries a minute, however often somebody knocks.
"""

import asyncio
import contextlib
from collections import Counter
from collections.abc import Awaitable, Callable
from typing import Final

import structlog

from app.core.clock import Clock, iso
from app.core.errors import HoldfastError
from app.core.principal import DEFAULT_TENANT
from app.events.catalog.ledger import AccessDenied

MAX_NAMES: Final = 200
MINUTE_MS: Final = 60_000
_OTHERS: Final = "others"

log = structlog.get_logger("holdfast.access")

Record = Callable[[str, AccessDenied], Awaitable[object]]


class Denials:
    def __init__(self, record: Record, clock: Clock) -> None:
        self._record, self._clock = record, clock
        self._counted: Counter[tuple[int, str, str, str]] = Counter()
        self._reporting: asyncio.Task[None] | None = None

    def __len__(self) -> int:
        return len(self._counted)

    def count(self, tenant: str | None, who: str, reason: str) -> None:
        """Those whose tenant is not known are recorded in the default tenant's ledger, which operators read."""
        minute = self._clock.now_ms() // MINUTE_MS
        entry = (minute, tenant or DEFAULT_TENANT, who, reason)
        if entry not in self._counted and len(self._counted) >= MAX_NAMES:
            entry = (minute, DEFAULT_TENANT, _OTHERS, _OTHERS)
        self._counted[entry] += 1

    def start(self) -> None:
        self._reporting = asyncio.create_task(self._report_forever(), name="holdfast-denials")

    async def close(self) -> None:
        if self._reporting is not None:
            self._reporting.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._reporting
            self._reporting = None
        await self.report()

    async def _report_forever(self) -> None:
        while True:
            await asyncio.sleep((MINUTE_MS - self._clock.now_ms() % MINUTE_MS) / 1000)
            await self.report()

    async def report(self) -> None:
        counted, self._counted = self._counted, Counter()
        for (minute, tenant, who, reason), times in counted.items():
            denied = AccessDenied(principal=who, code=reason, count=times, minute=iso(minute * MINUTE_MS))
            try:
                await self._record(tenant, denied)
            except HoldfastError as error:
                # The store is away; what was counted is at least in the process's log.
                log.warning("access.denied", principal=who, reason=reason, count=times, code=error.code)
