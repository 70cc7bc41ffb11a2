"""What becomes of runs whose provider fails by chance or for a while; in virtual time, with seeded chance."""

import pytest

from app.workspace.specs.model import Retry
from tests.models.flaky import failing_between, failing_by_chance, figures


@pytest.mark.parametrize(("calls", "at_once", "allowed"), [(40, 1, 0), (200, 10, 6)])
def test_a_provider_that_fails_half_of_the_time_costs_hardly_a_run(calls: int, at_once: int, allowed: int) -> None:
    found = figures(calls, at_once, failing_by_chance(0.5, 7), seed=7)
    assert found.failed <= allowed, found.codes


def test_three_attempts_alone_leave_about_an_eighth_failed() -> None:
    """The retry budget makes calls wait and fails none."""
    found = figures(200, 10, failing_by_chance(0.5, 1), retry=Retry(totalSeconds=0), seed=1)
    assert 0.06 <= found.failed / 200 <= 0.19, found.codes
    assert found.codes["PROVIDER_CIRCUIT_OPEN"] == 0


def test_an_outage_of_a_minute_fails_no_run_and_is_not_hammered() -> None:
    found = figures(100, 20, failing_between(0.5, 60))
    assert found.failed == 0, found.codes
    assert found.asked < 200, "the breaker keeps most calls back"
    assert found.waits["PROVIDER_CIRCUIT_OPEN"] > 0


def test_an_outage_that_does_not_end_fails_each_run_within_its_time() -> None:
    found = figures(30, 30, failing_between(0, 1e9))
    assert found.failed == 30 and max(found.durations) < 125


@pytest.mark.faults
@pytest.mark.parametrize("seed", range(20))
@pytest.mark.parametrize(("calls", "at_once", "allowed"), [(40, 1, 2), (200, 10, 8)])
def test_no_seed_loses_more_than_a_few_runs(calls: int, at_once: int, allowed: int, seed: int) -> None:
    assert figures(calls, at_once, failing_by_chance(0.5, seed), seed=seed).failed <= allowed
