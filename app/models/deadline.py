"""One scope that ends a call from outside: by a deadline that moves along, or by the run's cancel signal.

The deadline is only a number until it passes: moving it for each token costs nothing. One timer looks at the deadlines
of all calls, because to set and to cancel one for each of them costs as much as the rest of a deadline. Leaves to
`core.ending`: the interrupting.
"""

import asyncio
from math import inf
from types import TracebackType
from typing import Self

from app.core.ending import Ending
from app.core.errors import Failure
from app.models.contract import CancelSignal


class Ended(Exception):
    """The scope was ended from outside; carries why."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.message)
        self.failure = failure


class Alarm:
    """The timer of all deadlines of one event loop. It stays set when one is over: mostly another one follows."""

    __slots__ = ("_timer", "deadlines")

    def __init__(self) -> None:
        self.deadlines: set[Deadline] = set()
        self._timer: asyncio.TimerHandle | None = None

    def by(self, due: float) -> None:
        """Looks at them at this time, or sooner."""
        timer = self._timer
        if timer is None or due < timer.when():
            if timer is not None:
                timer.cancel()
            self._timer = asyncio.get_running_loop().call_at(due, self._ring)

    def _ring(self) -> None:
        self._timer = None
        now = asyncio.get_running_loop().time()
        due = min([deadline.look(now) for deadline in self.deadlines], default=inf)
        if due < inf:
            self.by(due)


class Deadline(Ending):
    def __init__(self, alarm: Alarm, cancelled: CancelSignal | None = None, total: float | None = None) -> None:
        """`total` is as for `bound`."""
        super().__init__()
        self._alarm, self._loop = alarm, asyncio.get_running_loop()
        self._cancelled = cancelled
        self._since: float | None = None
        self._patience = self._total = inf
        self._what = "total"
        self._failure: Failure | None = None
        if total is not None:
            self.bound(total, "total", total)

    def bound(self, total: float, what: str, seconds: float) -> None:
        """From now the scope has this many seconds, whatever happens in it; in it something is expected sooner."""
        self._total = self._loop.time() + total
        self.expect(what, seconds)

    def expect(self, what: str, seconds: float) -> None:
        """Something (named for the error) must happen within so many seconds, and again after each `beat`."""
        now = self._since = self._loop.time()
        self._what, self._patience = what, seconds
        self._alarm.by(min(now + seconds, self._total))

    def hold(self) -> None:
        """Nothing is expected until the next `beat`: the time that passes is our own."""
        self._since = None

    def beat(self) -> None:
        """What was expected has happened; the waiting begins anew."""
        self._since = self._loop.time()

    def __enter__(self) -> Self:
        super().__enter__()
        self._alarm.deadlines.add(self)
        if self._cancelled is not None:
            self._cancelled.subscribe(self._cancel)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._alarm.deadlines.discard(self)
        if self._cancelled is not None:
            self._cancelled.forget(self._cancel)
        try:
            super().__exit__(kind, error, trace)
        except TimeoutError:
            assert self._failure is not None
            raise Ended(self._failure) from None

    def look(self, now: float) -> float:
        """When it has to be looked at again; the scope is ended if its time is over."""
        since = now if self._since is None else self._since
        due = min(since + self._patience, self._total)
        if now < due:
            return due
        what = "total" if now >= self._total else self._what
        failure = Failure("PROVIDER_TIMEOUT", f"The provider exceeded the {what} timeout.", True, {"timeout": what})
        self._end(failure)
        return inf

    def _cancel(self) -> None:
        self._end(Failure("MODEL_CANCELLED", "The run was cancelled."))

    def _end(self, failure: Failure) -> None:
        if self._failure is None:
            self._failure = failure
            self.end()
