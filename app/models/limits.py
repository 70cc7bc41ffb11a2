"""How many calls run at once and per minute: globally, per model, fairly between tenants.

One queue of waiting calls, bounded. Whenever a slot or a minute's allowance frees up, tenants take turns,
whatever the number of calls each of them waits with. Rates hold for any 60 seconds and for this process; over
several servers `shared_limits` counts. Ours, because the limiters of libraries know no tenants and no clock.
"""

import asyncio
from collections import OrderedDict, deque
from collections.abc import Callable
from dataclasses import field
from typing import Any, Protocol

from app.core.clock import Clock
from app.core.errors import Failure
from app.core.value import mutable
from app.models.config import ModelConfig
from app.workspace.specs.model import ModelLimits


class Timer(Protocol):
    def cancel(self) -> None: ...


Later = Callable[[float, Callable[[], None]], Timer]


class RateWindow:
    """What was spent in the last 60 seconds."""

    def __init__(self) -> None:
        self._spent: deque[list[float]] = deque()
        self._sum = 0.0

    def wait(self, now: float, amount: float, limit: float) -> float:
        """Seconds until so much fits, 0 when it does. What exceeds the limit alone fits an empty window."""
        while self._spent and self._spent[0][0] <= now - 60:
            self._sum -= self._spent.popleft()[1]
        excess = self._sum + min(amount, limit) - limit
        if excess <= 0:
            return 0.0
        for at, spent in self._spent:
            excess -= spent
            if excess <= 0:
                return at + 60 - now
        return 60.0

    def spend(self, now: float, amount: float) -> list[float]:
        entry = [now, amount]
        self._spent.append(entry)
        self._sum += amount
        return entry

    def correct(self, entry: list[float], amount: float) -> None:
        """The real amount of something spent as an estimate."""
        if self._spent and entry[0] >= self._spent[0][0]:
            self._sum += amount - entry[1]
        entry[1] = amount


@mutable(slots=True)
class _Model:
    running: int = 0
    requests: RateWindow = field(default_factory=RateWindow)
    tokens: RateWindow = field(default_factory=RateWindow)


@mutable(slots=True)
class _Waiter:
    name: str
    limits: ModelLimits
    tokens: int
    granted: "asyncio.Future[Slot]"


class Slot:
    """Permission for one call; given back once."""

    def __init__(self, limiter: "Limiter", model: _Model, entry: list[float] | None) -> None:
        """`entry` is what was spent of a minute's tokens, where they are limited."""
        self._limiter, self._model, self._entry = limiter, model, entry
        self._held = True

    def release(self, used_tokens: int | None = None) -> None:
        if self._held:
            self._held = False
            if used_tokens is not None and self._entry is not None:
                self._model.tokens.correct(self._entry, used_tokens)
            self._limiter._released(self._model)


class Limiter:
    def __init__(
        self, clock: Clock, *, concurrency: int = 256, max_waiting: int = 10_000, later: Later | None = None
    ) -> None:
        self._clock = clock
        self._concurrency = concurrency
        self._max_waiting = max_waiting
        self._later = later
        self._running = 0
        self._waiting = 0
        self._models: dict[str, _Model] = {}
        self._queues: OrderedDict[str, OrderedDict[str, deque[_Waiter]]] = OrderedDict()
        self._timer: Timer | None = None

    @property
    def concurrency(self) -> int:
        """Calls at once, of all models together (`HOLDFAST_MAX_MODEL_CALLS`)."""
        return self._concurrency

    @property
    def running(self) -> int:
        return self._running

    @property
    def waiting(self) -> int:
        return self._waiting

    def at_once(self, config: ModelConfig, tokens: int) -> Slot | None:
        """A slot that nobody has to wait for; None if somebody must."""
        name, limits = config.name, config.limits
        if self._waiting or self._running >= self._concurrency or self._wait(name, limits, tokens) != 0.0:
            return None
        return self._slot(name, limits, tokens)

    async def acquire(self, config: ModelConfig, tenant: str, tokens: int) -> Slot | Failure:
        if self._waiting >= self._max_waiting:
            return Failure("MODEL_QUEUE_FULL", "Too many model calls are waiting.", True)
        if (slot := self.at_once(config, tokens)) is not None:
            return slot
        future: asyncio.Future[Slot] = asyncio.get_running_loop().create_future()
        queue = self._queues.setdefault(tenant, OrderedDict()).setdefault(config.name, deque())
        waiter = _Waiter(config.name, config.limits, tokens, future)
        queue.append(waiter)
        self._waiting += 1
        self._dispatch()
        try:
            return await future
        except asyncio.CancelledError:
            if future.done() and not future.cancelled():
                future.result().release()
            else:
                self._forget(tenant, waiter)
            raise

    def _released(self, model: _Model) -> None:
        model.running -= 1
        self._running -= 1
        self._dispatch()

    def _dispatch(self) -> None:
        """Grant what can be granted, one call a tenant and round; then sleep until the next allowance."""
        soonest: float | None = None
        progress = True
        while progress and self._waiting and self._running < self._concurrency:
            progress, soonest = False, None
            for tenant in list(self._queues):
                if self._running >= self._concurrency:
                    break
                wait = self._grant_one(tenant)
                if wait == 0.0:
                    progress = True
                elif wait is not None:
                    soonest = wait if soonest is None else min(soonest, wait)
        if soonest is not None:
            self._wake_in(soonest)

    def _grant_one(self, tenant: str) -> float | None:
        """0 when a call of the tenant was granted, else seconds until time alone may help, None for never."""
        soonest: float | None = None
        queues = self._queues[tenant]
        for name, queue in list(queues.items()):
            first = queue[0]
            wait = self._wait(first.name, first.limits, first.tokens)
            if wait == 0.0:
                self._grant(queue.popleft())
                queues.move_to_end(name)
                self._queues.move_to_end(tenant)
                self._drop_empty(tenant, name)
                return 0.0
            if wait is not None:
                soonest = wait if soonest is None else min(soonest, wait)
        return soonest

    def _wait(self, name: str, limits: ModelLimits, tokens: int) -> float | None:
        """0 when a call is admissible now, seconds when it will be, None when another call has to end first."""
        model = self._models.get(name)
        if model is None:
            model = self._models[name] = _Model()
        if limits.concurrency is not None and model.running >= limits.concurrency:
            return None
        requests, most_tokens = limits.requests_per_minute, limits.tokens_per_minute
        wait = 0.0
        if requests is not None:
            wait = model.requests.wait(self._clock.monotonic(), 1, requests)
        if most_tokens is not None:
            wait = max(wait, model.tokens.wait(self._clock.monotonic(), tokens, most_tokens))
        return wait

    def _grant(self, waiter: _Waiter) -> None:
        self._waiting -= 1
        waiter.granted.set_result(self._slot(waiter.name, waiter.limits, waiter.tokens))

    def _slot(self, name: str, limits: ModelLimits, tokens: int) -> Slot:
        model = self._models[name]
        model.running += 1
        self._running += 1
        if limits.requests_per_minute is not None:
            model.requests.spend(self._clock.monotonic(), 1)
        entry = None if limits.tokens_per_minute is None else model.tokens.spend(self._clock.monotonic(), tokens)
        return Slot(self, model, entry)

    def _forget(self, tenant: str, waiter: _Waiter) -> None:
        self._queues[tenant][waiter.name].remove(waiter)
        self._waiting -= 1
        self._drop_empty(tenant, waiter.name)

    def _drop_empty(self, tenant: str, name: str) -> None:
        queues = self._queues[tenant]
        if not queues[name]:
            del queues[name]
        if not queues:
            del self._queues[tenant]

    def _wake_in(self, seconds: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        later: Any = self._later or asyncio.get_running_loop().call_later
        self._timer = later(seconds, self._dispatch)
