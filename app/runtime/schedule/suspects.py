"""Which runs may be what kills the server, and that such runs are tried one at a time.

A run whose owner died without giving it back, and that had completed no step since it was claimed, is suspect. After
the first such death in company the runs go on together: most deaths are nobody's fault, and all of them should be at
work again soon. From the second on, a suspect is at work only while no other one is, and each further death counts
against it. What is known is kept in the run's lease; see ADR 13. Leaves to the executor: claiming and ending runs.
"""

from collections import OrderedDict
from typing import Final

from cachetools import LRUCache

from app.core.errors import Failure
from app.core.value import value
from app.events.catalog import request
from app.runtime.ports import LastLease, Leases
from app.runtime.run.completed_steps import COMPLETES_A_STEP
from app.runtime.schedule.queue import RunRef
from app.views.ports import Reader
from app.views.run import Run

MAX_DEATHS: Final = 3
_ALONE: Final = 2
"""After this many deaths in a row a suspect is tried alone."""
_PAGE: Final = 1000
_EVER: Final = 2**62
_MAX_OWNERS: Final = 1000

_CLAIMS: Final = frozenset({request.RequestStarted.type, request.RequestResumed.type})
_TYPES: Final = sorted(COMPLETES_A_STEP | _CLAIMS)


@value(frozen=True, slots=True)
class Suspicion:
    """What speaks against a run when it is claimed again; nothing, of nearly every run."""

    suspect: int = 0
    """Deaths in a row, as far as they matter."""
    deaths: int = 0
    """Those that the run did not share with another suspect."""
    previous: str | None = None
    """The owner that died last."""

    @property
    def alone(self) -> bool:
        return self.suspect >= _ALONE

    @property
    def failure(self) -> Failure | None:
        """Why the run is not tried again, if it is not."""
        if self.deaths < MAX_DEATHS:
            return None
        message = (
            f"The server died {self.deaths} times while it worked on this run and on no other suspect, "
            "and no step of the run was completed."
        )
        return Failure("RUN_KILLED_SERVER", message)


NONE: Final = Suspicion()


class Suspects:
    def __init__(self, leases: Leases, reader: Reader) -> None:
        self._leases, self._reader = leases, reader
        self._company: LRUCache[str, bool] = LRUCache(_MAX_OWNERS)
        """Of owners that died: whether they had more than one run."""
        self.at_work: RunRef | None = None
        """The suspect that may be at work now, if there is one."""
        self._waiting: OrderedDict[RunRef, None] = OrderedDict()

    async def judge(self, tenant: str, run: Run) -> Suspicion:
        """Of a run that shows as running while nobody works on it."""
        last = await self._leases.find(tenant, run.id)
        if last is None or last.epoch != run.epoch or (last.given_back and not last.suspect):
            return NONE
        if await self._came_further(tenant, run):
            return NONE
        if last.given_back:
            return Suspicion(last.suspect, last.deaths)
        return await self._after_a_death(last)

    async def _after_a_death(self, last: LastLease) -> Suspicion:
        counts = last.suspect >= _ALONE or not await self._had_company(last.owner)
        suspect = _ALONE if counts else min(last.suspect + 1, _ALONE)
        return Suspicion(suspect, last.deaths + (1 if counts else 0), last.owner)

    async def _had_company(self, owner: str) -> bool:
        known = self._company.get(owner)
        if known is None:
            known = self._company[owner] = await self._leases.had_company(owner)
        return known

    async def _came_further(self, tenant: str, run: Run) -> bool:
        """Whether a step was completed since the last claim. Nothing but the run and its subagents is active there."""
        after, further = run.first_seq - 1, False
        while True:
            page = await self._reader.events_of(
                tenant, run.thread_id, sorted(COMPLETES_A_STEP | _CLAIMS), after, _EVER, _PAGE
            )
            for event in page:
                if event.type in COMPLETES_A_STEP:
                    further = True
                elif event.run_id == run.id:
                    further = False
            if len(page) < _PAGE:
                return further
            after = page[-1].seq

    # -- one at a time -------------------------------------------------------------------------------

    def enter(self, ref: RunRef) -> bool:
        """Whether it may be at work now. If not, `leave` of the one that is names it in its turn."""
        if self.at_work is None or self.at_work == ref:
            self.at_work = ref
            self._waiting.pop(ref, None)
            return True
        self._waiting[ref] = None
        return False

    def leave(self, ref: RunRef) -> RunRef | None:
        """It is not at work any more, or no longer suspect. Answers whose turn it is."""
        if self.at_work != ref:
            return None
        self.at_work = None
        return self._waiting.popitem(last=False)[0] if self._waiting else None

    def waits(self, ref: RunRef) -> bool:
        return ref in self._waiting
