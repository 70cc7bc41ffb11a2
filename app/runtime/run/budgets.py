"""What a run and its tenant may still spend: checked before each call, settled after it.

The tightest of the given limits counts. A subagent spends what its parent has left. A tenant's day begins with what the
log says was already spent. One process counts it in its memory, several servers in their database, where a call counts
as estimated until it is settled: a call whose server died stays counted so. Leaves to the models room: what a call is
estimated to cost.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Sequence
from types import TracebackType
from typing import Final, Protocol, TypeVar

from app.core.clock import Clock
from app.core.ending import Ending
from app.core.errors import Failure
from app.core.value import value
from app.events.catalog.execution import BudgetExceeded
from app.models.budget import LocalBudget, exceeded
from app.models.completion import TokenUsage
from app.models.contract import Estimate, Reservation
from app.runtime.ports import SharedDays
from app.workspace.specs.base import Limits
from app.workspace.specs.runtime import TenantBudget

_DAY_MS: Final = 86_400_000
_TRIES: Final = 10
"""Times that a reservation is tried when the rest of the day changes while it is made."""
N = TypeVar("N", int, float)

Spent = Callable[[str, int], Awaitable[tuple[int, float]]]
"""(tenant, since in milliseconds) to the tokens and the cost of its runs since then."""


@value(frozen=True, slots=True)
class Used:
    """What a run had used when it was entered; a resumed one goes on from there."""

    tokens: int = 0
    cost_usd: float = 0.0
    model_calls: int = 0
    worked_ms: int = 0


NOTHING_USED: Final = Used()


class _Part(Protocol):
    async def reserve(self, estimate: Estimate) -> Reservation | Failure: ...

    async def settle(self, reservation: Reservation, usage: TokenUsage) -> None: ...

    async def release(self, reservation: Reservation) -> None: ...


class RunBudget:
    """One run's: reserved in all of its parts or in none."""

    def __init__(self, fixed: Limits, asked: Limits | None, used: Used, above: Sequence[_Part], clock: Clock) -> None:
        self._fixed, self._clock = fixed, clock
        self._worked_ms, self._entered = used.worked_ms, clock.monotonic()
        self._own = LocalBudget()
        self._own.used_tokens, self._own.used_cost_usd = used.tokens, used.cost_usd
        self._own.used_calls = used.model_calls
        self._above = above
        self._reserved: dict[str, list[Reservation]] = {}
        """By the reservation of its own: those above it. Most runs have nothing there."""
        self._timer: WallTimer | None = None
        self.set(asked)

    def set(self, asked: Limits | None) -> None:
        """Other wishes from now on; the workspace's and the agent's own limits stay."""
        limits = self._fixed if asked is None else tightest(self._fixed, asked)
        self.tool_calls, self.wall_seconds = limits.tool_calls, limits.wall_seconds
        self._own.allow(tokens=limits.tokens, cost_usd=limits.cost_usd, calls=limits.model_calls)
        if self._timer is not None:
            self._timer.set(self.time_left())

    def time_left(self) -> float | None:
        """Seconds of work; time in which a run waits for a person does not count."""
        if self.wall_seconds is None:
            return None
        return self.wall_seconds - self._worked_ms / 1000 - (self._clock.monotonic() - self._entered)

    def over_time(self) -> BudgetExceeded | None:
        """What to record when the time is used up; None while some is left."""
        left = None if self.wall_seconds is None else self.time_left()
        if left is None or left > 0:
            return None
        assert self.wall_seconds is not None
        limit = self.wall_seconds
        return BudgetExceeded(budget="wall_time", scope="run", limit=limit, used=round(limit - left, 3))

    def timer(self) -> "WallTimer":
        """Ends what runs inside it when the time is used up."""
        self._timer = WallTimer()
        if self.wall_seconds is not None:
            self._timer.set(self.time_left())
        return self._timer

    async def reserve(self, estimate: Estimate) -> Reservation | Failure:
        own = self._own.take(estimate)
        if isinstance(own, Failure) or not self._above:
            return own
        held: list[Reservation] = []
        for part in self._above:
            answer = await part.reserve(estimate)
            if isinstance(answer, Failure):
                self._own.give_back(own)
                for taken, reservation in zip(self._above, held, strict=False):
                    await taken.release(reservation)
                return answer
            held.append(answer)
        self._reserved[own.id] = held
        return own

    async def settle(self, reservation: Reservation, usage: TokenUsage) -> None:
        self._own.count(reservation, usage)
        if self._above:
            for part, held in zip(self._above, self._reserved.pop(reservation.id, ()), strict=False):
                await part.settle(held, usage)

    async def release(self, reservation: Reservation) -> None:
        self._own.give_back(reservation)
        if self._above:
            for part, held in zip(self._above, self._reserved.pop(reservation.id, ()), strict=False):
                await part.release(held)


class WallTimer(Ending):
    """A scope for the seconds that are left; most runs have no such limit, and then it costs nothing."""

    __slots__ = ("_handle",)

    def __init__(self) -> None:
        super().__init__()
        self._handle: asyncio.TimerHandle | None = None

    def set(self, seconds: float | None) -> None:
        if self._handle is not None:
            self._handle.cancel()
        self._handle = None
        if seconds is not None:
            self._handle = asyncio.get_running_loop().call_later(max(0.0, seconds), self.end)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._handle is not None:
            self.set(None)
        super().__exit__(kind, error, trace)


class SharedDay:
    """A tenant's day in the database. Reserving is one statement, so that no two servers spend the same rest."""

    def __init__(self, days: SharedDays, spent: Spent, tenant: str, daily: TenantBudget) -> None:
        self._days, self._spent, self._tenant = days, spent, tenant
        self._tokens = daily.tokens_per_day
        self._cost = None if daily.cost_usd_per_day is None else _billionths(daily.cost_usd_per_day)

    async def reserve(self, estimate: Estimate) -> Reservation | Failure:
        tokens, cost = estimate.input_tokens + estimate.output_tokens, _billionths(estimate.cost_usd)
        for _ in range(_TRIES):
            day = await self._days.reserve(self._tenant, tokens, cost, self._tokens, self._cost)
            if day is not None:
                return Reservation(str(day), estimate)
            found = await self._days.spent(self._tenant)
            if found.tokens is None or found.cost is None:
                used_tokens, used_cost = await self._spent(self._tenant, found.day * _DAY_MS)
                await self._days.begin(self._tenant, found.day, used_tokens, _billionths(used_cost))
            elif self._tokens is not None and found.tokens + tokens > self._tokens:
                return exceeded("tokens", self._tokens, found.tokens, "tenant")
            elif self._cost is not None and found.cost + cost > self._cost:
                return exceeded("cost", self._cost / 1e9, found.cost / 1e9, "tenant")
            # Otherwise another call was settled in between, or the day has changed: it may fit now.
        return Failure("BUDGET_EXCEEDED", "The tenant's budget changes too fast to reserve from it.", True)

    async def settle(self, reservation: Reservation, usage: TokenUsage) -> None:
        estimate = reservation.estimate
        tokens = usage.input_tokens + usage.output_tokens - estimate.input_tokens - estimate.output_tokens
        cost = _billionths(usage.cost_usd or 0.0) - _billionths(estimate.cost_usd)
        await self._days.settle(self._tenant, int(reservation.id), tokens, cost)

    async def release(self, reservation: Reservation) -> None:
        await self.settle(reservation, TokenUsage())


def _billionths(usd: float) -> int:
    return round(usd * 1e9)


class BudgetAccounts:
    def __init__(self, clock: Clock, spent: Spent, shared: SharedDays | None = None) -> None:
        """`shared` where several servers have one database."""
        self._clock, self._spent, self._shared = clock, spent, shared
        self._days: dict[str, tuple[int, LocalBudget]] = {}

    async def of(
        self,
        tenant: str,
        fixed: Limits,
        asked: Limits | None,
        used: Used,
        daily: TenantBudget,
        parent: RunBudget | None = None,
    ) -> RunBudget:
        """A root run's budget includes its tenant's day; a subagent's is part of its parent's."""
        above: list[_Part] = []
        if parent is not None:
            above.append(parent)
        elif daily.tokens_per_day is not None or daily.cost_usd_per_day is not None:
            day = await self._today(tenant, daily) if self._shared is None else self._shared_day(tenant, daily)
            above.append(day)
        return RunBudget(fixed, asked, used, above, self._clock)

    def _shared_day(self, tenant: str, daily: TenantBudget) -> _Part:
        assert self._shared is not None
        return SharedDay(self._shared, self._spent, tenant, daily)

    async def _today(self, tenant: str, daily: TenantBudget) -> LocalBudget:
        today = self._clock.now_ms() // _DAY_MS
        day, budget = self._days.get(tenant, (-1, None))
        if budget is None or day != today:
            tokens, cost = await self._spent(tenant, today * _DAY_MS)
            day, known = self._days.get(tenant, (-1, None))
            if known is None or day != today:  # another run may have asked meanwhile
                known = LocalBudget(scope="tenant")
                known.used_tokens, known.used_cost_usd = tokens, cost
                self._days[tenant] = (today, known)
            budget = known
        budget.allow(tokens=daily.tokens_per_day, cost_usd=daily.cost_usd_per_day)
        return budget


def tightest(*limits: Limits) -> Limits:
    """Each limit as the strictest of them has it."""
    return Limits.model_construct(
        tokens=_least(limit.tokens for limit in limits),
        cost_usd=_least(limit.cost_usd for limit in limits),
        model_calls=_least(limit.model_calls for limit in limits),
        tool_calls=_least(limit.tool_calls for limit in limits),
        wall_seconds=_least(limit.wall_seconds for limit in limits),
    )


def _least(values: Iterable[N | None]) -> N | None:
    return min((value for value in values if value is not None), default=None)
