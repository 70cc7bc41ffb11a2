"""One scope that ends a call from outside: by a deadline that moves along, or by the run's cancel signal.

The deadline is only a number until it passes: moving it for each token costs nothing, and the one timer looks
at it when it fires. Leaves to `core.ending`: the interrupting.
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


class Deadline(Ending):
    def __init__(
        self, cancelled: CancelSignal | None = None, total: float | None = None, soonest: float | None = None
    ) -> None:
        """`total` is as for `bound`. `soonest` is the least of the seconds that will be given, if that is known: then
        the first look is at that time, and no timer has to be set again for what is expected later."""
        super().__init__()
        self._loop = asyncio.get_running_loop()
        self._soonest = soonest
        self._cancelled = cancelled
        self._timer: asyncio.TimerHandle | None = None
        self._since: float | None = None
        self._patience = self._total = inf
        self._what = "total"
        self._failure: Failure | None = None
        if total is not None:
            now = self._since = self._loop.time()
            self._total, self._patience = now + total, total
            self._timer = self._loop.call_at(now + (total if soonest is None else min(total, soonest)), self._look)

    def bound(self, total: float, what: str, seconds: float) -> None:
        """From now the scope has this many seconds, whatever happens in it; in it something is expected sooner."""
        self._total = self._loop.time() + total
        self.expect(what, seconds)

    def expect(self, what: str, seconds: float) -> None:
        """Something (named for the error) must happen within so many seconds, and again after each `beat`."""
        now = self._since = self._loop.time()
        self._what, self._patience = what, seconds
        due = min(now + seconds, self._total)
        if self._timer is None:
            self._arm(due if self._soonest is None else min(due, now + self._soonest))
        elif due < self._timer.when():
            self._arm(due)

    def hold(self) -> None:
        """Nothing is expected until the next `beat`: the time that passes is our own."""
        self._since = None

    def beat(self) -> None:
        """What was expected has happened; the waiting begins anew."""
        self._since = self._loop.time()

    def __enter__(self) -> Self:
        super().__enter__()
        if self._cancelled is not None:
            self._cancelled.subscribe(self._cancel)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if self._cancelled is not None:
            self._cancelled.forget(self._cancel)
        try:
            super().__exit__(kind, error, trace)
        except TimeoutError:
            assert self._failure is not None
            raise Ended(self._failure) from None

    def _arm(self, due: float) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._loop.call_at(due, self._look)

    def _due(self) -> float:
        since = self._loop.time() if self._since is None else self._since
        return min(since + self._patience, self._total)

    def _look(self) -> None:
        self._timer = None
        now, due = self._loop.time(), self._due()
        if now < due:
            self._arm(due)
            return
        what = "total" if now >= self._total else self._what
        failure = Failure("PROVIDER_TIMEOUT", f"The provider exceeded the {what} timeout.", True, {"timeout": what})
        self._end(failure)

    def _cancel(self) -> None:
        self._end(Failure("MODEL_CANCELLED", "The run was cancelled."))

    def _end(self, failure: Failure) -> None:
        if self._failure is None:
            self._failure = failure
            self.end()
