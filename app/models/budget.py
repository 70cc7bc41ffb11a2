"""A budget kept in the process: for embedding without a database and for a single run.

A tenant's budget that several servers share is counted in the store (`runtime.run.budgets`); it has the same methods.
"""

from itertools import count

from app.core.errors import Failure
from app.models.completion import TokenUsage
from app.models.contract import Estimate, Reservation


class LocalBudget:
    """Never awaits between reading and writing, so one event loop needs no lock to keep it atomic."""

    def __init__(
        self, *, tokens: int | None = None, cost_usd: float | None = None, calls: int | None = None, scope: str = "run"
    ) -> None:
        self._scope = scope
        self._tokens, self._cost, self._calls = tokens, cost_usd, calls
        self._ids = count(1)
        self._open: dict[str, Estimate] = {}
        self.used_tokens = 0
        self.used_cost_usd = 0.0
        self.used_calls = 0

    async def reserve(self, estimate: Estimate) -> Reservation | Failure:
        return self.take(estimate)

    async def release(self, reservation: Reservation) -> None:
        self.give_back(reservation)

    async def settle(self, reservation: Reservation, usage: TokenUsage) -> None:
        self.count(reservation, usage)

    # The same for a caller that has nothing else to wait for.

    def take(self, estimate: Estimate) -> Reservation | Failure:
        open = self._open.values()
        if self._tokens is not None:
            asked = sum(e.input_tokens + e.output_tokens for e in (*open, estimate))
            if self.used_tokens + asked > self._tokens:
                return self._exceeded("tokens", self._tokens, self.used_tokens)
        if self._cost is not None and self.used_cost_usd + sum(e.cost_usd for e in (*open, estimate)) > self._cost:
            return self._exceeded("cost", self._cost, self.used_cost_usd)
        if self._calls is not None and self.used_calls + sum(e.calls for e in (*open, estimate)) > self._calls:
            return self._exceeded("calls", self._calls, self.used_calls)
        reservation = Reservation(f"local-{next(self._ids)}", estimate)
        self._open[reservation.id] = estimate
        return reservation

    def allow(self, *, tokens: int | None, cost_usd: float | None, calls: int | None = None) -> None:
        """Other limits from now on; what was used stays used."""
        self._tokens, self._cost, self._calls = tokens, cost_usd, calls

    def give_back(self, reservation: Reservation) -> None:
        """The call was not made."""
        self._open.pop(reservation.id, None)

    def count(self, reservation: Reservation, usage: TokenUsage) -> None:
        estimate = self._open.pop(reservation.id, None)
        if estimate is None:
            return  # settled before: counting twice would be worse than ignoring
        self.used_tokens += usage.input_tokens + usage.output_tokens
        self.used_cost_usd += usage.cost_usd or 0.0
        self.used_calls += estimate.calls

    def _exceeded(self, what: str, limit: float, used: float) -> Failure:
        return exceeded(what, limit, used, self._scope)


def exceeded(what: str, limit: float, used: float, scope: str) -> Failure:
    message = f"The call might use more {what} than the {scope}'s budget has left: {used:,} of {limit:,} used."
    detail = {"budget": what, "limit": limit, "used": used, "scope": scope}
    return Failure("BUDGET_EXCEEDED", message, detail=detail)
