"""How long one call keeps asking one model: whether another attempt follows a failed one, and after what wait.

`attempts` are made in any case. When no other model is left to ask, a call goes on beyond them until `totalSeconds`
have passed since it began to ask, waits for the breaker within that time, and waits for its turn in the retry budget;
with another model left, it goes there instead. Leaves to `router`: recording a wait, waiting, and trying again.
"""

import math
from typing import Final, Literal

from app.core.clock import Clock
from app.core.errors import Failure
from app.core.value import value
from app.models.config import ModelConfig
from app.models.reliability import Health, Random, backoff

# Why a call does not go on at once, as it stands in `runtime.model.retry.scheduled`.
WaitsFor = Literal["backoff", "breaker", "retry_budget"]
# Our own limits: they say nothing about what the next model would answer, so that one is asked at once.
_NOT_ASKED: Final = frozenset({"PROVIDER_CIRCUIT_OPEN", "MODEL_QUEUE_FULL"})


@value(frozen=True, slots=True)
class Wait:
    seconds: float
    waits_for: WaitsFor


class RetrySchedule:
    def __init__(self, config: ModelConfig, health: Health, clock: Clock, random: Random, *, last: bool) -> None:
        """`last` when no other model is left to ask."""
        self._config, self._health, self._clock, self._random = config, health, clock, random
        self._last = last
        self._until = clock.monotonic() + config.retry.total_seconds
        self._made = 0
        self._turn: float | None = None

    @property
    def made(self) -> int:
        """Attempts that reached the provider or were on their way there."""
        return self._made

    def left(self) -> float:
        """Seconds in which attempts beyond the fixed number are made."""
        return self._until - self._clock.monotonic()

    def after(self, failure: Failure, retry_after: float | None) -> Wait | None:
        """What to wait for before the next attempt; None when there is none."""
        if failure.code == "PROVIDER_CIRCUIT_OPEN":
            return self._for_breaker()
        self._made += 1
        if not failure.retryable or (failure.code in _NOT_ASKED and not self._last):
            return None
        left = self.left() if self._last else 0.0
        more = self._made < self._config.retry.attempts
        if not more and left <= 0:
            return None
        seconds = backoff(self._config.retry, self._made, retry_after, self._random)
        if seconds is None:  # the provider asks for more than `maxDelaySeconds`
            if retry_after is None or retry_after > left:
                return None
            seconds = retry_after
        return self._in_turn(seconds, math.inf) if more else self._in_turn(min(seconds, left), left)

    def give_up(self) -> None:
        """The call ends while it waits: its turn to retry goes to another one."""
        if self._turn is not None:
            self._health.retries(self._config).give_back(self._turn)

    def breaker_seconds(self) -> float | None:
        """Until the breaker may let a call pass, 0 when it does now; None when that is too late for this call."""
        seconds = self._health.breaker(self._config).wait_seconds(self._config.breaker)
        return None if seconds > self.left() else seconds

    def _for_breaker(self) -> Wait | None:
        seconds = self.breaker_seconds() if self._last else None
        return None if seconds is None else Wait(seconds, "breaker")

    def _in_turn(self, seconds: float, within: float) -> Wait | None:
        """Within the retries of a minute. With attempts left, waiting for a turn costs the call none of its time."""
        retry = self._config.retry
        turn = self._health.retries(self._config).turn(retry.budget_per_minute, within if self._last else 0.0)
        self._turn = turn
        if turn is None:
            return None
        longer = turn - self._clock.monotonic() - seconds
        if longer <= 0:
            return Wait(seconds, "backoff")
        if within == math.inf:
            self._until += longer
        return Wait(seconds + longer, "retry_budget")
