"""Back-off, retry budget and breaker on a clock that stands still."""

from app.core.clock import ManualClock
from app.core.errors import Failure
from app.models.breaker import PROBE_LOOK_SECONDS, CircuitBreaker
from app.models.reliability import RetryBudget, backoff
from app.workspace.specs.model import Breaker, Retry

DOWN = Failure("PROVIDER_UNAVAILABLE", "down", True)


def test_waiting_grows_with_the_attempts_and_is_spread_by_chance() -> None:
    policy = Retry(initialDelaySeconds=1, maxDelaySeconds=5)
    assert [backoff(policy, n, None, lambda: 0.999) for n in (1, 2, 3, 4, 9)] == [
        0.999,
        1.998,
        3.996,
        4.995,
        4.995,
    ]
    assert backoff(policy, 3, None, lambda: 0.0) == 0.0


def test_a_providers_wish_is_a_lower_bound_and_too_long_a_wish_is_refused() -> None:
    policy = Retry(initialDelaySeconds=1, maxDelaySeconds=5)
    assert backoff(policy, 1, 3.0, lambda: 0.0) == 3.0
    assert backoff(policy, 1, 3.0, lambda: 0.9) == 3.225
    assert backoff(policy, 1, 5.1, lambda: 0.0) is None


def test_the_wait_of_a_long_outage_stays_a_number() -> None:
    assert backoff(Retry(maxDelaySeconds=20), 5000, None, lambda: 0.5) == 10


def test_a_retry_budget_frees_up_as_its_minute_passes() -> None:
    clock = ManualClock()
    budget = RetryBudget(clock)
    assert [budget.turn(2, 0) for _ in range(3)] == [0.0, 0.0, None]
    clock.advance(59)
    assert budget.turn(2, 0) is None
    clock.advance(1)
    assert budget.turn(2, 0) == 60.0


def test_turns_to_retry_are_given_in_order_and_never_more_than_fit_a_minute() -> None:
    clock = ManualClock()
    budget = RetryBudget(clock)
    turns = [budget.turn(2, 1000) for _ in range(6)]
    assert turns == [0, 0, 60, 60, 120, 120]
    assert budget.turn(2, 100) is None, "too late for this caller, and nothing is taken"
    budget.give_back(120)
    assert budget.turn(2, 1000) == 120
    assert budget.turn(0, 1000) is None, "a budget of none retries nothing"


def test_failures_spread_over_more_than_the_window_do_not_open_a_breaker() -> None:
    clock, policy = ManualClock(), Breaker(failures=2, windowSeconds=10)
    breaker = CircuitBreaker(clock)
    breaker.settle("call", DOWN, policy)
    clock.advance(11)
    breaker.settle("call", DOWN, policy)
    assert breaker.state(policy) == "closed"
    breaker.settle("call", DOWN, policy)
    assert breaker.state(policy) == "open" and breaker.admit(policy) is None


def test_a_provider_that_fails_every_other_time_does_not_open_a_breaker() -> None:
    clock, policy = ManualClock(), Breaker()
    breaker = CircuitBreaker(clock)
    for number in range(1000):
        breaker.settle("call", DOWN if number % 2 else None, policy)
        clock.advance(0.1)
    assert breaker.state(policy) == "closed"
    for _ in range(2000):
        breaker.settle("call", DOWN, policy)
        clock.advance(0.1)
    assert breaker.state(policy) != "closed"


def test_a_probe_goes_out_alone_and_its_first_word_lets_the_others_follow() -> None:
    clock, policy = ManualClock(), Breaker(failures=1, openSeconds=30)
    breaker = CircuitBreaker(clock)
    breaker.settle("call", DOWN, policy)
    assert breaker.wait_seconds(policy) == 30
    clock.advance(30)
    assert breaker.wait_seconds(policy) == 0 and breaker.admit(policy) == "probe"
    assert breaker.admit(policy) is None and breaker.wait_seconds(policy) == PROBE_LOOK_SECONDS
    breaker.settle("call", DOWN, policy)
    assert breaker.admit(policy) is None, "a call from before the breaker opened decides nothing"
    breaker.answered("probe")
    assert breaker.state(policy) == "closed" and breaker.admit(policy) == "call"


def test_a_probe_that_fails_leaves_the_breaker_open_for_its_whole_time() -> None:
    clock, policy = ManualClock(), Breaker(failures=5, openSeconds=30)
    breaker = CircuitBreaker(clock)
    for _ in range(5):
        breaker.settle("call", DOWN, policy)
    clock.advance(31)
    assert breaker.admit(policy) == "probe"
    breaker.settle("probe", DOWN, policy)
    assert breaker.wait_seconds(policy) == 30


def test_refused_requests_and_rate_limits_say_nothing_about_health() -> None:
    policy = Breaker(failures=1)
    breaker = CircuitBreaker(ManualClock())
    for code in ("PROVIDER_REJECTED", "PROVIDER_RATE_LIMITED", "MODEL_CANCELLED", "BUDGET_EXCEEDED"):
        breaker.settle("call", Failure(code, "no"), policy)
    assert breaker.state(policy) == "closed"
