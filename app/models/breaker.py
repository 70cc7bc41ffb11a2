"""A circuit breaker: leaves a model alone for a while when nearly all calls to it fail.

It looks at the share of failures among the last calls, so that a provider that fails now and then is retried and not
shut off. Counters on an injected clock; nothing here waits. Leaves to `retry_schedule`: what a call does while it
is open.
"""

from collections import deque
from typing import Final, Literal

from app.core.clock import Clock
from app.core.errors import Failure
from app.workspace.specs.model import Breaker

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
PROBE_LOOK_SECONDS: Final = 1.0
"""How often a waiting call looks whether the probe of another one has succeeded."""
_CALLS_PER_FAILURE: Final = 4
"""The calls that are looked at, as a multiple of the failures that open a breaker."""

State = Literal["closed", "open", "half-open"]
Admission = Literal["call", "probe"]


class _Recent:
    """How the last calls ended. Few of them, so that an outage shows soon however much went well just before."""

    def __init__(self) -> None:
        self._ended: deque[tuple[float, bool]] = deque()

    def add(self, now: float, policy: Breaker, *, failed: bool) -> None:
        self._ended.append((now, failed))
        while (
            len(self._ended) > _CALLS_PER_FAILURE * policy.failures or self._ended[0][0] <= now - policy.window_seconds
        ):
            self._ended.popleft()

    def bad(self, policy: Breaker) -> bool:
        failures = sum(failed for _, failed in self._ended)
        return failures >= policy.failures and failures >= policy.failure_rate * len(self._ended)

    def clear(self) -> None:
        self._ended.clear()


class CircuitBreaker:
    """Closed: calls pass. Open: none pass. Half open: one probe at a time, which closes or opens it again."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._recent = _Recent()
        self._opened_at: float | None = None
        self._probing = False

    def state(self, policy: Breaker) -> State:
        if self._opened_at is None:
            return "closed"
        return "open" if self._open_for(policy) > 0 else "half-open"

    def admit(self, policy: Breaker) -> Admission | None:
        """Whether a call may pass now, and as what; it is reported to `settle` when it has ended."""
        state = self.state(policy)
        if state == "closed":
            return "call"
        if state == "open" or self._probing:
            return None
        self._probing = True
        return "probe"

    def wait_seconds(self, policy: Breaker) -> float:
        """How long to wait before asking again; 0 when a call would pass now."""
        left = self._open_for(policy)
        if left > 0:
            return left
        return PROBE_LOOK_SECONDS if self._probing else 0.0

    def answered(self, admission: Admission) -> None:
        """The first of an answer has arrived: a probe need not end for the others to go on."""
        if admission == "probe" and self._probing:
            self._close()

    def settle(self, admission: Admission, failure: Failure | None, policy: Breaker) -> None:
        """Report how an admitted call ended; None is success. Other failures than the provider's count as neither."""
        probing = admission == "probe" and self._probing
        if probing:
            self._probing = False
        if failure is not None and failure.code not in _UNHEALTHY:
            return
        if failure is None and probing:
            self._close()
        if self._opened_at is not None and not probing:
            return  # it began before the breaker opened; only a probe decides
        now = self._clock.monotonic()
        self._recent.add(now, policy, failed=failure is not None)
        if failure is not None and (probing or self._recent.bad(policy)):
            self._opened_at = now
            self._recent.clear()

    def _open_for(self, policy: Breaker) -> float:
        """Seconds until a probe may go out: the one sum that all of the others agree with."""
        if self._opened_at is None:
            return 0.0
        return max(0.0, self._opened_at + policy.open_seconds - self._clock.monotonic())

    def _close(self) -> None:
        self._probing, self._opened_at = False, None
        self._recent.clear()
