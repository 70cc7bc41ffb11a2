"""When to try again and when to stop trying: back-off with jitter, retry budget, circuit breaker.

Values and counters on an injected clock and random source; nothing here sleeps or calls. Our own and not a
library, because a retry here must stop at the first published delta, name itself in the log, and end at a
budget.
"""

from collections import deque
from collections.abc import Callable
from typing import Final, Literal

from app.core.clock import Clock
from app.core.errors import Failure
from app.models.config import BreakerPolicy, ModelConfig, RetryPolicy

Random = Callable[[], float]
"""A number from 0 up to, not including, 1."""

# Faults that say something about the provider's health; a refused request or a limit does not.
_UNHEALTHY: Final = frozenset(
    {
        "PROVIDER_UNREACHABLE",
        "PROVIDER_TIMEOUT",
        "PROVIDER_CUT_OFF",
        "PROVIDER_UNAVAILABLE",
        "PROVIDER_MALFORMED",
    }
)


_STATES: Final = {"closed": 0.0, "half-open": 1.0, "open": 2.0}


def backoff(policy: RetryPolicy, attempt: int, retry_after: float | None, random: Random) -> float | None:
    """Seconds to wait after the given attempt; None when the provider asks for longer than we wait."""
    ceiling: float = min(policy.max_delay_seconds, policy.initial_delay_seconds * 2.0 ** (attempt - 1))
    if retry_after is None:
        return ceiling * random()  # full jitter: callers that failed together do not return together
    if retry_after > policy.max_delay_seconds:
        return None
    return min(policy.max_delay_seconds, retry_after + ceiling * random() / 4)


class RetryBudget:
    """At most so many retries in any 60 seconds."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._taken: deque[float] = deque()

    def take(self, per_minute: int) -> bool:
        now = self._clock.monotonic()
        while self._taken and self._taken[0] <= now - 60:
            self._taken.popleft()
        if len(self._taken) >= per_minute:
            return False
        self._taken.append(now)
        return True


class Breaker:
    """Closed: calls pass. Open: none pass. Half open: one probe at a time, which closes or opens it again."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._failed: deque[float] = deque()
        self._opened_at: float | None = None
        self._probing = False

    def state(self, policy: BreakerPolicy) -> Literal["closed", "open", "half-open"]:
        if self._opened_at is None:
            return "closed"
        waited = self._clock.monotonic() - self._opened_at
        return "half-open" if waited >= policy.open_seconds else "open"

    def allow(self, policy: BreakerPolicy) -> bool:
        state = self.state(policy)
        if state == "half-open" and not self._probing:
            self._probing = True
            return True
        return state == "closed"

    def settle(self, failure: Failure | None, policy: BreakerPolicy) -> None:
        """Report how an allowed call ended; None is success."""
        probing, self._probing = self._probing, False
        if failure is None:
            self._failed.clear()
            self._opened_at = None
        elif failure.code in _UNHEALTHY:
            now = self._clock.monotonic()
            self._failed.append(now)
            while self._failed[0] <= now - policy.window_seconds:
                self._failed.popleft()
            if probing or len(self._failed) >= policy.failures:
                self._opened_at = now
                self._failed.clear()


class Health:
    """Breakers per provider and model, retry budgets per model. As many as the workspace has models."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._breakers: dict[tuple[str, str], Breaker] = {}
        self._policies: dict[tuple[str, str], BreakerPolicy] = {}
        self._budgets: dict[str, RetryBudget] = {}

    def breaker(self, config: ModelConfig) -> Breaker:
        key = (config.provider, config.model)
        found = self._breakers.get(key)
        if found is None:
            found = self._breakers[key] = Breaker(self._clock)
        self._policies[key] = config.breaker
        return found

    def breakers(self) -> dict[str, float]:
        """Each provider's model with 0 closed, 1 half open, 2 open, for metrics."""
        return {
            f"{provider}/{model}": _STATES[breaker.state(self._policies[provider, model])]
            for (provider, model), breaker in self._breakers.items()
        }

    def may_retry(self, config: ModelConfig) -> bool:
        budget = self._budgets.get(config.name)
        if budget is None:
            budget = self._budgets[config.name] = RetryBudget(self._clock)
        return budget.take(config.retry.budget_per_minute)
