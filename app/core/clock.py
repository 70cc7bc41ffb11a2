"""The clock as a port: wall time for display, monotonic time for durations.

Nothing orders events by either of them; the log does that.
"""

import time
from datetime import UTC, datetime
from typing import Final, Protocol


class Clock(Protocol):
    def now_ms(self) -> int:
        """Milliseconds since 1970, UTC."""
        ...

    def monotonic(self) -> float:
        """Seconds that never run backwards."""
        ...


class SystemClock:
    monotonic = staticmethod(time.monotonic)

    def now_ms(self) -> int:
        return time.time_ns() // 1_000_000


class CorrectedClock:
    """Another clock, put right by one that several processes share, such as the database's."""

    def __init__(self, clock: Clock | None = None) -> None:
        """A clock that is given is meant as it is, and stays so; without one, the system's is put right."""
        self._as_it_is = clock is not None
        self.monotonic: Final = time.monotonic if clock is None else clock.monotonic
        self.now_ms: Final = self._corrected_ms if clock is None else clock.now_ms
        self.offset_ms = 0

    def _corrected_ms(self) -> int:
        return time.time_ns() // 1_000_000 + self.offset_ms

    def correct(self, before_ms: int, shared_ms: int) -> None:
        """The shared clock said `shared_ms` between `before_ms`, as `now_ms` had it, and now. A difference that the
        time of asking explains is none."""
        after_ms = self.now_ms()
        if not self._as_it_is and not before_ms <= shared_ms <= after_ms:
            self.offset_ms += shared_ms - (before_ms + after_ms) // 2


class ManualClock:
    """A clock that stands still until it is advanced; for embedding and for tests."""

    def __init__(self, now_ms: int = 1_767_225_600_000) -> None:
        self._now_ms = now_ms
        self._monotonic = 0.0

    def now_ms(self) -> int:
        return self._now_ms

    def monotonic(self) -> float:
        return self._monotonic

    def advance(self, seconds: float) -> None:
        self._now_ms += round(seconds * 1000)
        self._monotonic += seconds


MAX_MS: Final = 253_402_300_799_999
"""The last millisecond of the year 9999: a later time has no spelling, and neither has one before the year 1000."""


def is_spelled(at_ms: int) -> bool:
    """Whether `iso` can write the time. Whoever takes a time from outside asks before storing it."""
    return 0 <= at_ms <= MAX_MS


def ms_of(text: str) -> int:
    """The time that `iso` spelled, or another spelling of ISO 8601 that has an offset."""
    return round(datetime.fromisoformat(text).timestamp() * 1000)


def iso(at_ms: int) -> str:
    """The one spelling of a time on a wire: UTC with milliseconds, `2026-01-01T00:00:00.000Z`."""
    moment = datetime.fromtimestamp(at_ms // 1000, UTC)
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{at_ms % 1000:03d}Z"
