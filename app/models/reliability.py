"""When to try again: back-off with jitter, the retries of a minute, and the breakers of all models.

Values and counters on an injected clock and random source; nothing here sleeps or calls. Our own and not a
library, because a retry here must stop at the first published delta, name itself in the log, and end at a
budget.
"""

from collections import deque
from collections.abc import Callable
from typing import Final

from app.core.clock import Clock
from app.models.breaker import CircuitBreaker
from app.models.config import ModelConfig
from app.workspace.specs.model import Breaker, Retry

Random = Callable[[], float]
"""A number from 0 up to, not including, 1."""

# An outage may last for thousands of attempts; the delay has reached its maximum long before this.
_MAX_DOUBLINGS: Final = 40
_STATES: Final = {"closed": 0.0, "half-open": 1.0, "open": 2.0}


def backoff(policy: Retry, attempt: int, retry_after: float | None, random: Random) -> float | None:
    """Seconds to wait after the given attempt; None when the provider asks for longer than we wait."""
    doublings = min(attempt - 1, _MAX_DOUBLINGS)
    ceiling: float = min(policy.max_delay_seconds, policy.initial_delay_seconds * 2.0**doublings)
    if retry_after is None:
        return ceiling * random()  # full jitter: callers that failed together do not return together
    if retry_after > policy.max_delay_seconds:
        return None
    return min(policy.max_delay_seconds, retry_after + ceiling * random() / 4)


class RetryBudget:
    """At most this many retries in any 60 seconds; whoever comes later may take the next turn that is free."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._turns: deque[float] = deque()
        """When retries were or will be made, oldest first."""

    def turn(self, per_minute: int, within: float) -> float | None:
        """When the caller may retry, a turn that it has taken with this; None when none is free within the seconds."""
        now = self._clock.monotonic()
        while self._turns and self._turns[0] <= now - 60:
            self._turns.popleft()
        if per_minute <= 0:
            return None
        at = now if len(self._turns) < per_minute else max(now, self._turns[-per_minute] + 60)
        if at - now > within:
            return None
        self._turns.append(at)
        return at

    def give_back(self, at: float) -> None:
        """A turn that will not be used, such as that of a cancelled call."""
        if at in self._turns:
            self._turns.remove(at)


class Health:
    """Breakers per provider and model, retry budgets per model. As many as the workspace has models."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._breakers: dict[tuple[str, str], CircuitBreaker] = {}
        self._policies: dict[tuple[str, str], Breaker] = {}
        self._budgets: dict[str, RetryBudget] = {}

    def breaker(self, config: ModelConfig) -> CircuitBreaker:
        key = (config.provider, config.model)
        found = self._breakers.get(key)
        if found is None:
            found = self._breakers[key] = CircuitBreaker(self._clock)
        self._policies[key] = config.breaker
        return found

    def breakers(self) -> dict[str, float]:
        """Each provider's model with 0 closed, 1 half open, 2 open, for metrics."""
        return {
            f"{provider}/{model}": _STATES[breaker.state(self._policies[provider, model])]
            for (provider, model), breaker in self._breakers.items()
        }

    def retries(self, config: ModelConfig) -> RetryBudget:
        budget = self._budgets.get(config.name)
        if budget is None:
            budget = self._budgets[config.name] = RetryBudget(self._clock)
        return budget
