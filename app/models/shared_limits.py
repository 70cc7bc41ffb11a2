"""A model's limits over several servers: calls at once, requests and tokens per minute, counted in one shared record.

Every server reads the record, works out which of its waiting calls fit, and replaces the record if nobody else did so
meanwhile; whoever loses that race works it out again. So the limits hold whatever the number of servers. All calls of
one server that wait at the same time are worked out together, one tenant after the other.

The record counts by seconds of the database's clock. A server that dies with calls in progress holds its places until
`HOLD_SECONDS` are over. Leaves to others: keeping the record (the store), limits of one process (`limits`).
"""

import asyncio
import contextlib
from collections import OrderedDict, deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from secrets import token_hex
from typing import Any, Final, Protocol

from app.core.clock import Clock
from app.core.value import mutable
from app.models.config import ModelConfig
from app.workspace.specs.model import ModelLimits

WINDOW: Final = 61
"""Seconds that count: the current one has only begun, so 60 full ones lie before it."""
HOLD_SECONDS: Final = 15.0
RENEW_SECONDS: Final = 5.0
POLL_SECONDS: Final = 0.25
"""How often a call that waits for another server's call to end looks again."""
CORRECTION_SECONDS: Final = 1.0
"""How late the real tokens of a call may be recorded; until then its estimate counts."""


class LimitRecords(Protocol):
    async def read(self, name: str) -> tuple[dict[str, Any], int, int]:
        """State, version and the database's clock in milliseconds; an empty state with version 0 if there is none."""
        ...

    async def replace(self, name: str, version: int, state: dict[str, Any]) -> int | None:
        """The database's clock, or None if the record has another version by now."""
        ...


@mutable(slots=True)
class LimitState:
    """The record of one model."""

    requests: dict[int, int] = field(default_factory=dict)
    """By second; likewise the tokens."""
    tokens: dict[int, int] = field(default_factory=dict)
    held: dict[str, tuple[int, int]] = field(default_factory=dict)
    """By server: calls in progress, and until when they count (milliseconds)."""

    @classmethod
    def of(cls, stored: dict[str, Any], now_ms: int) -> "LimitState":
        oldest = now_ms // 1000 - WINDOW
        return cls(
            {int(second): n for second, n in stored.get("requests", {}).items() if int(second) > oldest},
            {int(second): n for second, n in stored.get("tokens", {}).items() if int(second) > oldest},
            {server: (n, until) for server, (n, until) in stored.get("held", {}).items() if until > now_ms and n > 0},
        )

    def as_json(self) -> dict[str, Any]:
        return {
            "requests": {str(second): n for second, n in self.requests.items() if n},
            "tokens": {str(second): n for second, n in self.tokens.items() if n},
            "held": {server: list(held) for server, held in self.held.items()},
        }

    def wait(self, limits: ModelLimits, tokens: int, me: str, holding: int, now_ms: int) -> float | None:
        """0 if one more call fits, seconds until it will, None if a call has to end first."""
        others = sum(n for server, (n, _) in self.held.items() if server != me)
        if limits.concurrency is not None and others + holding >= limits.concurrency:
            return None
        seconds = 0.0
        if limits.requests_per_minute is not None:
            seconds = _free_in(self.requests, 1, limits.requests_per_minute, now_ms)
        if limits.tokens_per_minute is not None:
            # What exceeds the limit alone fits an empty window.
            wanted = min(tokens, limits.tokens_per_minute)
            seconds = max(seconds, _free_in(self.tokens, wanted, limits.tokens_per_minute, now_ms))
        return seconds

    def spend(self, tokens: int, now_ms: int) -> int:
        second = now_ms // 1000
        self.requests[second] = self.requests.get(second, 0) + 1
        self.tokens[second] = self.tokens.get(second, 0) + tokens
        return second

    def correct(self, second: int, by: int) -> None:
        """The real amount of what was spent as an estimate, if it still counts."""
        if second in self.tokens:
            self.tokens[second] = max(0, self.tokens[second] + by)


def _free_in(spent: dict[int, int], wanted: int, limit: int, now_ms: int) -> float:
    excess = sum(spent.values()) + wanted - limit
    if excess <= 0:
        return 0.0
    for second in sorted(spent):
        excess -= spent[second]
        if excess <= 0:
            return max(0.001, (second + WINDOW) - now_ms / 1000)
    return float(WINDOW)


@mutable(slots=True)
class SharedSlot:
    """Permission for one call, counted over all servers."""

    name: str
    second: int
    tokens: int


@dataclass(slots=True, eq=False)
class _WaitingCall:
    tenant: str
    limits: ModelLimits
    tokens: int
    granted: "asyncio.Future[SharedSlot]"


class SharedLimits:
    def __init__(self, records: LimitRecords, clock: Clock, server: str | None = None) -> None:
        self._records, self._clock = records, clock
        self._server = server or token_hex(8)
        self._models: dict[str, _SharedModel] = {}

    @staticmethod
    def apply_to(limits: ModelLimits) -> bool:
        return (limits.concurrency, limits.requests_per_minute, limits.tokens_per_minute) != (None, None, None)

    async def acquire(self, config: ModelConfig, tenant: str, tokens: int) -> SharedSlot:
        """When the call fits. Cancelling ends the wait. If the database is away, its error is raised."""
        model = self._models.get(config.name)
        if model is None:
            model = self._models[config.name] = _SharedModel(config.name, self._records, self._clock, self._server)
        return await model.acquire(tenant, config.limits, tokens)

    def release(self, slot: SharedSlot, used_tokens: int) -> None:
        self._models[slot.name].release(slot, used_tokens)

    async def close(self) -> None:
        for model in self._models.values():
            await model.close()


class _SharedModel:
    """One model's record as this server sees it. One task works on it while there is anything to do."""

    def __init__(self, name: str, records: LimitRecords, clock: Clock, server: str) -> None:
        self._name, self._records, self._clock, self._server = name, records, clock, server
        self._waiting: OrderedDict[str, deque[_WaitingCall]] = OrderedDict()
        self._running = 0
        self._corrections: list[tuple[int, int]] = []
        self._limits = ModelLimits()
        self._wake = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._known: tuple[dict[str, Any], int] | None = None
        self._now_ms, self._at = 0, 0.0
        self._later: asyncio.TimerHandle | None = None

    async def acquire(self, tenant: str, limits: ModelLimits, tokens: int) -> SharedSlot:
        waiting = _WaitingCall(tenant, limits, tokens, asyncio.get_running_loop().create_future())
        self._limits = limits
        self._waiting.setdefault(tenant, deque()).append(waiting)
        self._go_on()
        try:
            return await waiting.granted
        except asyncio.CancelledError:
            if waiting.granted.done() and not waiting.granted.cancelled() and not waiting.granted.exception():
                self.release(waiting.granted.result(), 0)
            else:
                self._forget(waiting)
            raise

    def release(self, slot: SharedSlot, used_tokens: int) -> None:
        self._running -= 1
        if used_tokens != slot.tokens and self._limits.tokens_per_minute is not None:
            self._corrections.append((slot.second, used_tokens - slot.tokens))
        if self._limits.concurrency is not None:
            self._go_on()  # somebody may wait for the place
        elif self._corrections and self._later is None:
            self._later = asyncio.get_running_loop().call_later(CORRECTION_SECONDS, self._go_on)

    async def close(self) -> None:
        if self._later is not None:
            self._later.cancel()
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait({self._task})

    def _go_on(self) -> None:
        self._later = None
        self._wake.set()
        if self._task is None or self._task.done():
            self._task = asyncio.create_task(self._work(), name=f"holdfast-shared-limits-{self._name}")

    async def _work(self) -> None:
        held = 0
        """How many calls of this server the record knows of."""
        while self._waiting or self._running or held or self._corrections:
            self._wake.clear()
            try:
                pause, held = await self._once(held)
            except Exception as error:
                self._known, pause = None, POLL_SECONDS
                self._fail(error)
                if not self._running:
                    return  # what the record knows of us expires
            if not (self._waiting or self._running or held):
                continue
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(pause):
                    await self._wake.wait()

    async def _once(self, held: int) -> tuple[float, int]:
        """Grants what fits. Seconds until it is worth looking again, and how many calls the record says are held."""
        while True:
            if self._known is None:
                stored, version, now_ms = await self._records.read(self._name)
                self._known, self._now_ms, self._at = (stored, version), now_ms, self._clock.monotonic()
            stored, version = self._known
            now_ms = self._now_ms + round((self._clock.monotonic() - self._at) * 1000)
            state = LimitState.of(stored, now_ms)
            corrections = list(self._corrections)
            for second, by in corrections:
                state.correct(second, by)
            granted, soonest = self._granted(state, now_ms)
            holding = self._running + len(granted)
            if self._limits.concurrency is not None:
                state.held.pop(self._server, None)
                if holding:
                    state.held[self._server] = (holding, now_ms + round(HOLD_SECONDS * 1000))
            changed = granted or corrections or (self._limits.concurrency is not None and (holding or held))
            if not changed:
                self._known = None if self._waiting else self._known
                return soonest, 0
            answered = await self._records.replace(self._name, version, state.as_json())
            if answered is None:
                self._known = None
                continue
            self._known, self._now_ms, self._at = (state.as_json(), version + 1), answered, self._clock.monotonic()
            del self._corrections[: len(corrections)]
            self._deliver(granted)
            if self._waiting:
                self._known = None  # others may have changed it by the time we look again
            return soonest, holding if self._limits.concurrency is not None else 0

    def _granted(self, state: LimitState, now_ms: int) -> tuple[list[tuple[_WaitingCall, int]], float]:
        """One call a tenant and round, in the order in which they came."""
        granted: list[tuple[_WaitingCall, int]] = []
        soonest = RENEW_SECONDS
        queues = [deque(queue) for queue in self._waiting.values()]
        while queues:
            for queue in list(queues):
                first = queue[0]
                holding = self._running + len(granted)
                wait = state.wait(first.limits, first.tokens, self._server, holding, now_ms)
                if wait == 0.0:
                    queue.popleft()
                    granted.append((first, state.spend(first.tokens, now_ms)))
                else:
                    soonest = min(soonest, POLL_SECONDS if wait is None else wait)
                if wait != 0.0 or not queue:
                    queues.remove(queue)
        return granted, soonest

    def _deliver(self, granted: Iterable[tuple[_WaitingCall, int]]) -> None:
        for waiting, second in granted:
            self._forget(waiting)
            if waiting.granted.done():  # cancelled while the record was written: the places are given back next time
                self._corrections.append((second, -waiting.tokens))
                continue
            self._running += 1
            waiting.granted.set_result(SharedSlot(self._name, second, waiting.tokens))
            if (queue := self._waiting.pop(waiting.tenant, None)) is not None:
                self._waiting[waiting.tenant] = queue  # the others' turn

    def _forget(self, waiting: _WaitingCall) -> None:
        queue = self._waiting.get(waiting.tenant)
        if queue is not None and waiting in queue:
            queue.remove(waiting)
            if not queue:
                del self._waiting[waiting.tenant]

    def _fail(self, error: Exception) -> None:
        queues, self._waiting = list(self._waiting.values()), OrderedDict()
        for queue in queues:
            for waiting in queue:
                if not waiting.granted.done():
                    waiting.granted.set_exception(error)
