"""Back-off, retry budget and breaker on a clock that stands still."""

from app.core.clock import ManualClock
from app.core.errors import Failure
from app.models.config import BreakerPolicy, RetryPolicy
from app.models.reliability import Breaker, RetryBudget, backoff

DOWN = Failure("PROVIDER_UNAVAILABLE", "down", True)


def test_waiting_grows_with_the_attempts_and_is_spread_by_chance() -> None:
    policy = RetryPolicy(initial_delay_seconds=1, max_delay_seconds=5)
    assert [backoff(policy, n, None, lambda: 0.999) for n in (1, 2, 3, 4, 9)] == [
        0.999,
        1.998,
        3.996,
        4.995,
        4.995,
    ]
    assert backoff(policy, 3, None, lambda: 0.0) == 0.0


def test_a_providers_wish_is_a_lower_bound_and_too_long_a_wish_is_refused() -> None:
    policy = RetryPolicy(initial_delay_seconds=1, max_delay_seconds=5)
    assert backoff(policy, 1, 3.0, lambda: 0.0) == 3.0
    assert backoff(policy, 1, 3.0, lambda: 0.9) == 3.225
    assert backoff(policy, 1, 5.1, lambda: 0.0) is None


def test_a_retry_budget_frees_up_as_its_minute_passes() -> None:
    clock = ManualClock()
    budget = RetryBudget(clock)
    assert [budget.take(2) for _ in range(3)] == [True, True, False]
    clock.advance(59)
    assert not budget.take(2)
    clock.advance(1)
    assert budget.take(2)


def test_failures_spread_over_more_than_the_window_do_not_open_a_breaker() -> None:
    clock, policy = ManualClock(), BreakerPolicy(failures=2, window_seconds=10)
    breaker = Breaker(clock)
    breaker.settle(DOWN, policy)
    clock.advance(11)
    breaker.settle(DOWN, policy)
    assert breaker.state(policy) == "closed"
    breaker.settle(DOWN, policy)
    assert breaker.state(policy) == "open" and not breaker.allow(policy)


def test_refused_requests_and_rate_limits_say_nothing_about_health() -> None:
    policy = BreakerPolicy(failures=1)
    breaker = Breaker(ManualClock())
    for code in ("PROVIDER_REJECTED", "PROVIDER_RATE_LIMITED", "MODEL_CANCELLED", "BUDGET_EXCEEDED"):
        breaker.settle(Failure(code, "no"), policy)
    assert breaker.state(policy) == "closed"
