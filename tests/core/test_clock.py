"""Clocks: the system's, one that stands still, and the spelling of a time."""

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.core.clock import ManualClock, SystemClock, iso


def test_manual_clock_moves_only_when_advanced() -> None:
    clock = ManualClock(1_000)
    assert (clock.now_ms(), clock.monotonic()) == (1_000, 0.0)
    clock.advance(1.5)
    assert (clock.now_ms(), clock.monotonic()) == (2_500, 1.5)


def test_system_clock_counts_milliseconds_and_never_runs_backwards() -> None:
    clock = SystemClock()
    assert abs(clock.now_ms() - datetime.now(UTC).timestamp() * 1000) < 60_000
    assert clock.monotonic() <= clock.monotonic()


@pytest.mark.parametrize(
    ("at_ms", "spelling"),
    [
        (0, "1970-01-01T00:00:00.000Z"),
        (1_767_225_600_007, "2026-01-01T00:00:00.007Z"),
        (-1, "1969-12-31T23:59:59.999Z"),
    ],
)
def test_time_has_one_spelling(at_ms: int, spelling: str) -> None:
    assert iso(at_ms) == spelling


@given(st.integers(0, 4_000_000_000_000))
def test_spelled_time_reads_back_to_the_millisecond(at_ms: int) -> None:
    assert round(datetime.fromisoformat(iso(at_ms)).timestamp() * 1000) == at_ms
