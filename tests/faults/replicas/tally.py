"""What the faults of all tests here came to: said as they happen, for each test, and for all of them at the end."""

import time
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Final

from tests.faults.replicas.checker import Verdict
from tests.faults.replicas.clients import TeamClient
from tests.faults.replicas.fleet import Fleet

EVERY: Final = 25
"""Faults between two lines about a test that is under way."""
HIT_SHARE: Final = 0.6
"""Of the faults, those at whose moment an acknowledged run was under way: the least that makes them worth their name.
At the other moments every client is submitting one, which faults should hit as well."""

Say = Callable[[str], None]


class Tally:
    """Of one test, which adds to `total`."""

    def __init__(self, name: str, say: Say, report: Say, total: Counter[str]) -> None:
        self._name, self._say, self._report, self._total = name, say, report, total

    def begin(self, fleet: Fleet, clients: Sequence[TeamClient], planned: int) -> None:
        self._fleet, self._clients, self._planned = fleet, clients, planned
        self._began = time.monotonic()
        self._done = self._hit = 0

    def before_fault(self) -> None:
        self._hit += any(client.is_waiting for client in self._clients)

    def after_fault(self) -> None:
        self._done += 1
        if self._done % EVERY == 0 or (self._done == self._planned and self._planned > EVERY):
            self._say(f"{self._name}: {self._so_far()}")

    def _so_far(self) -> str:
        ended = sum(wish.end is not None for client in self._clients for wish in client.wishes)
        seconds = time.monotonic() - self._began
        return (
            f"{self._done} of {self._planned} faults in {seconds:.0f} s ({seconds / max(1, self._done):.1f} s each), "
            f"{self._hit} while runs were under way; {ended} runs ended; {self._kept()}"
        )

    def _kept(self) -> str:
        kept = self._fleet.kept
        return f"{kept.restarts} servers gave up without a database and were started again, {kept.killed} stopped late"

    def keep(self, verdict: Verdict) -> None:
        """The figures of the test so far, whether or not they are sound."""
        fleet = self._fleet
        self._total["faults"] += sum(fleet.faults.values())
        self._total["seconds"] += round(time.monotonic() - self._began)
        self._total.update(verdict.counts())
        self._total["restarted without a database"] += fleet.kept.restarts
        cost = ", ".join(
            f"{count} {name} ({fleet.seconds[name] / count:.2f} s)" for name, count in sorted(fleet.faults.items())
        )
        retries = sum(client.retries for client in self._clients)
        times = [*fleet.kept.ending.items(), ("start", fleet.kept.starting)]
        took = ", ".join(f"{name} {sum(of) / len(of):.1f} to {max(of):.1f} s" for name, of in times if of)
        self._report(f"{verdict}; {retries} retries; {self._so_far()}; {cost}; on average to at most: {took}")

    def assert_work_was_hit(self) -> None:
        # Of a handful of faults chance alone may put half between two runs.
        assert self._done < EVERY or self._hit >= HIT_SHARE * self._done, (
            f"{self._hit} of {self._done} faults found a run under way"
        )
