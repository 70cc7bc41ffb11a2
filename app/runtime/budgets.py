"""What a run and its tenant may still spend on models: reserved before a call, settled after it.

A tenant's day is counted in this process, atomically across its runs, and begins with what the log says was already
spent; replicas do not share it yet. Leaves to the models room: what a call is estimated to cost.
"""

from collections.abc import Awaitable, Callable, Iterable
from typing import Final, TypeVar

from app.core.clock import Clock
from app.core.errors import Failure
from app.models.budget import LocalBudget
from app.models.completion import Usage
from app.models.contract import Budget, Estimate, Reservation
from app.views.run import Run
from app.workspace.specs.base import Limits
from app.workspace.specs.runtime import TenantBudget

_DAY_MS: Final = 86_400_000
N = TypeVar("N", int, float)

Spent = Callable[[str, int], Awaitable[tuple[int, float]]]
"""(tenant, since in milliseconds) to the tokens and the cost of its runs since then."""


class Budgets:
    def __init__(self, clock: Clock, spent: Spent) -> None:
        self._clock, self._spent = clock, spent
        self._days: dict[str, tuple[int, LocalBudget]] = {}

    async def of(self, tenant: str, run: Run, calls: int, limits: tuple[Limits, ...], daily: TenantBudget) -> Budget:
        """The tightest of the given limits for the run, and what is left of the tenant's day."""
        budget = LocalBudget(
            tokens=_least(limit.tokens for limit in limits),
            cost_usd=_least(limit.cost_usd for limit in limits),
            calls=_least(limit.model_calls for limit in limits),
        )
        # A resumed run goes on with what it has already used.
        budget.used_tokens = run.usage["inputTokens"] + run.usage["outputTokens"]
        budget.used_cost_usd, budget.used_calls = run.usage["costUsd"], calls
        if daily.tokens_per_day is None and daily.cost_usd_per_day is None:
            return budget
        return _Both(budget, await self._today(tenant, daily))

    async def _today(self, tenant: str, daily: TenantBudget) -> LocalBudget:
        today = self._clock.now_ms() // _DAY_MS
        day, budget = self._days.get(tenant, (-1, None))
        if budget is None or day != today:
            tokens, cost = await self._spent(tenant, today * _DAY_MS)
            day, known = self._days.get(tenant, (-1, None))
            if known is None or day != today:  # another run may have asked meanwhile
                known = LocalBudget()
                known.used_tokens, known.used_cost_usd = tokens, cost
                self._days[tenant] = (today, known)
            budget = known
        budget.allow(tokens=daily.tokens_per_day, cost_usd=daily.cost_usd_per_day)
        return budget


class _Both:
    """Reserved in both or in neither."""

    def __init__(self, run: LocalBudget, tenant: LocalBudget) -> None:
        self._run, self._tenant = run, tenant
        self._pairs: dict[str, Reservation] = {}

    async def reserve(self, estimate: Estimate) -> Reservation | Failure:
        mine = await self._run.reserve(estimate)
        if isinstance(mine, Failure):
            return mine
        ours = await self._tenant.reserve(estimate)
        if isinstance(ours, Failure):
            self._run.release(mine)
            return ours
        self._pairs[mine.id] = ours
        return mine

    async def settle(self, reservation: Reservation, usage: Usage) -> None:
        await self._run.settle(reservation, usage)
        ours = self._pairs.pop(reservation.id, None)
        if ours is not None:
            await self._tenant.settle(ours, usage)


def _least(values: Iterable[N | None]) -> N | None:
    return min((value for value in values if value is not None), default=None)
