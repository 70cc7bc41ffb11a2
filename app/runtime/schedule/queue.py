"""Who works next: runs that wait for a worker, in turn by tenant, within the limits of the process and of each agent.

Within a tenant interactive runs go before background ones, with two bounds: after `INTERACTIVE_IN_A_ROW` of them a
background run goes first that has waited for `BACKGROUND_SECONDS`, and background runs leave an eighth of the places
free for interactive ones.

A pure value; it starts nothing. Bounded: what it has no room for, it refuses, and the store
still knows the run. Leaves to others: claiming and conducting (the executor), refusing new runs (the service).
"""

from collections import OrderedDict, deque
from collections.abc import Callable
from dataclasses import field
from time import monotonic
from typing import Final

from app.core.errors import Failure
from app.core.value import mutable, value
from app.runtime.scheduler import AcceptedRun

INTERACTIVE_IN_A_ROW: Final = 3
BACKGROUND_SECONDS: Final = 15.0
KEPT_FREE: Final = 8
"""One in so many places, at least one if there are two, is kept free of background runs."""
_NOT_RUNNING: Final = "not running"  # compared by identity: an agent may be called the same


@value(frozen=True, slots=True)
class RunRef:
    """A run that may be claimable."""

    tenant: str
    thread_id: str
    run_id: str
    accepted: AcceptedRun | None = field(default=None, compare=False, repr=False)
    """What its maker knows of it, which saves reading it; None where nobody does."""
    background: bool = field(default=False, compare=False, repr=False)

    def __hash__(self) -> int:
        return hash(self.run_id)  # unique by itself; three collections hash each run


@value(frozen=True, slots=True)
class QueueLimits:
    running: int = 64
    """Runs at work at once, of all tenants."""
    waiting: int = 10_000
    waiting_per_tenant: int = 1_000
    running_per_tenant: int | None = None
    """Runs of one tenant at work at once; None for as many as there are places."""


@mutable(slots=True)
class _Line:
    """The runs of one tenant that wait, each with the time since when."""

    interactive: deque[tuple[RunRef, float]] = field(default_factory=deque)
    background: deque[tuple[RunRef, float]] = field(default_factory=deque)
    in_a_row: int = 0
    """Interactive ones that went while a background one waited."""

    def __bool__(self) -> bool:
        return bool(self.interactive or self.background)

    def add(self, ref: RunRef, now: float, *, first: bool) -> None:
        line = self.background if ref.background else self.interactive
        if first:
            line.appendleft((ref, now))
        else:
            line.append((ref, now))

    def has(self, *, background: bool) -> bool:
        return bool(self.interactive) or (background and bool(self.background))

    def take(self, now: float, *, background: bool) -> RunRef:
        forced = (
            background
            and bool(self.background)
            and self.in_a_row >= INTERACTIVE_IN_A_ROW
            and now - self.background[0][1] >= BACKGROUND_SECONDS
        )
        if self.interactive and not forced:
            self.in_a_row = self.in_a_row + 1 if self.background else 0
            return self.interactive.popleft()[0]
        self.in_a_row = 0
        return self.background.popleft()[0]

    def take_back(self, ref: RunRef, before: int, after: int) -> None:
        """The run that was taken when `in_a_row` went from one to the other did not begin: nobody had a turn."""
        if ref.background:
            self.in_a_row = max(self.in_a_row, before)
        elif after > before and self.in_a_row:
            self.in_a_row -= 1


def _unlimited(agent: str) -> int | None:
    return None


class FairQueue:
    """Each tenant has a line; the heads of the lines go in turn. A run whose agent is busy steps aside until it is not.

    An agent is only known once its run has been looked at, so a run first gets a place (`take`), then enters its agent
    (`enter`), and gives both back when it leaves (`leave`).
    """

    def __init__(
        self,
        limits: QueueLimits | Callable[[], QueueLimits],
        of_agent: Callable[[str], int | None] = _unlimited,
        now: Callable[[], float] = monotonic,
    ) -> None:
        """`limits` may change, and are then asked for each time. `of_agent` answers how many runs of an agent may work
        at once; None for as many as there are places."""
        self._now = limits if callable(limits) else lambda: limits
        self._of_agent, self._time = of_agent, now
        self._seen: QueueLimits | None = None
        """The limits that were last looked at: with others, agents may have more room as well."""
        self._lines: OrderedDict[str, _Line] = OrderedDict()
        self._aside: dict[str, deque[RunRef]] = {}
        self._known: set[RunRef] = set()
        """What stands in a line or aside; nothing waits twice."""
        self._called: dict[RunRef, str] = {}
        """Called back from aside because their agent has room again."""
        self._of_tenant: dict[str, int] = {}
        self._running: dict[RunRef, str | None] = {}
        self._outside: set[RunRef] = set()
        """Of those that run: who waits for something outside, such as a provider, and lends its place meanwhile."""
        self._running_of: dict[str, int] = {}
        self._background: set[RunRef] = set()
        """Of those that run."""
        self._turns: dict[RunRef, tuple[int, int]] = {}
        """Of those that run and stood in line: what counted as in a row before and after they were taken."""
        self._busy: dict[str, int] = {}

    @property
    def waiting(self) -> int:
        return len(self._known)

    @property
    def running(self) -> int:
        return len(self._running) - len(self._outside)

    @property
    def has_room(self) -> bool:
        """Whether a run could begin at once."""
        return not self._lines and self.running < self._now().running

    def waiting_of(self, tenant: str) -> int:
        return self._of_tenant.get(tenant, 0)

    def refusal(self, tenant: str) -> Failure | None:
        """Why a new run of the tenant should not be accepted now, if it should not."""
        limits = self._now()
        if len(self._known) >= limits.waiting:
            return Failure("SERVER_BUSY", "Too many runs are waiting for a worker.", True)
        if self._of_tenant.get(tenant, 0) >= limits.waiting_per_tenant:
            return Failure("TENANT_BUSY", "Too many runs of this tenant are waiting for a worker.", True)
        return None

    def offer(self, ref: RunRef) -> bool:
        """Stand in line, at the end; False if there is no room. Offering a run again changes nothing."""
        if ref in self._known or ref in self._running:
            return True
        if self.waiting >= self._now().waiting:
            return False
        self._line_up(ref)
        return True

    def take(self) -> RunRef | None:
        """The head of the line whose turn it is, if there is a place for it."""
        limits = self._now()
        if limits is not self._seen:
            self._seen = limits
            self._call_those_with_room()
        if not self._lines or self.running >= limits.running:
            return None
        # A tenant that has all it may have waits, and keeps its place before those who come later.
        background = self._background_has_room(limits)
        fits = (n for n, line in self._lines.items() if line.has(background=background) and self._may_run(n, limits))
        tenant = next(fits, None)
        if tenant is None:
            return None
        line = self._lines.pop(tenant)
        before, ref = line.in_a_row, line.take(self._time(), background=background)
        self._turns[ref] = (before, line.in_a_row)
        if line:
            self._lines[tenant] = line  # after everybody else
        self._forget(ref)
        self._begin(ref, None)
        return ref

    def at_once(self, ref: RunRef, agent: str) -> bool:
        """A place and its agent in one, for a run that nobody has to wait behind; False if it has to line up."""
        limits, limit, busy = self._now(), self._of_agent(agent), self._busy.get(agent, 0)
        if self._lines or self.running >= limits.running or (limit is not None and busy >= limit):
            return False
        if limits.running_per_tenant is not None and not self._may_run(ref.tenant, limits):
            return False
        self._busy[agent] = busy + 1
        self._begin(ref, agent)
        return True

    def enter(self, ref: RunRef, agent: str) -> bool:
        """Whether the agent has room. If not, the run has lost its place and waits for one of the agent's to leave."""
        called = self._called.pop(ref, agent)
        if called != agent:
            self._call_next(called)
        limit = self._of_agent(agent)
        busy = self._busy.get(agent, 0)
        if limit is not None and busy >= limit:
            self._end(ref, began=False)
            self._remember(ref)
            self._aside.setdefault(agent, deque()).append(ref)
            return False
        self._busy[agent] = busy + 1
        self._running[ref] = agent
        return True

    def leave(self, ref: RunRef, *, began: bool = True) -> None:
        """Give back what it has. The first that stepped aside for its agent is the next of its tenant's line.

        One that has not begun, because it had ended or another server has it, does not count as a start of its kind."""
        agent = self._end(ref, began=began)
        # Looked at first: each of them hashes the run, and hardly ever has anything in it.
        if self._outside:
            self._outside.discard(ref)
        called = self._called.pop(ref, None) if self._called else None
        if agent is not None:
            self._busy[agent] -= 1
            if not self._busy[agent]:
                del self._busy[agent]
            if self._aside:
                self._call_next(agent)
        elif called is not None:
            # It was called and did not come (somebody cancelled it), so its agent still has room for the next.
            self._call_next(called)

    def _call_those_with_room(self) -> None:
        for agent in list(self._aside):
            limit, aside = self._of_agent(agent), len(self._aside[agent])
            room = aside if limit is None else min(aside, limit - self._busy.get(agent, 0))
            for _ in range(room):
                self._call_next(agent)

    def step_out(self, ref: RunRef) -> bool:
        """Lend the place to others for as long as the run only waits; its agent stays entered. Bounded: at most as many
        as there are places, because all of them stay in memory and come back at once."""
        if ref not in self._running or ref in self._outside or len(self._outside) >= self._now().running:
            return False
        self._outside.add(ref)
        return True

    def step_in(self, ref: RunRef) -> None:
        """Come back, without waiting: nobody else begins until the number is within its limit again."""
        self._outside.discard(ref)

    def _background_has_room(self, limits: QueueLimits) -> bool:
        kept = 0 if limits.running < 2 else max(1, limits.running // KEPT_FREE)
        return len(self._background - self._outside) < limits.running - kept

    def _may_run(self, tenant: str, limits: QueueLimits) -> bool:
        return limits.running_per_tenant is None or self._running_of.get(tenant, 0) < limits.running_per_tenant

    def _begin(self, ref: RunRef, agent: str | None) -> None:
        self._running[ref] = agent
        if ref.background:
            self._background.add(ref)
        self._running_of[ref.tenant] = self._running_of.get(ref.tenant, 0) + 1

    def _end(self, ref: RunRef, *, began: bool) -> str | None:
        """Its agent, if it had entered one."""
        agent = self._running.pop(ref, _NOT_RUNNING)
        if agent is _NOT_RUNNING:
            return None
        turn, line = self._turns.pop(ref, None) if self._turns else None, self._lines.get(ref.tenant)
        if turn is not None and line is not None and not began:
            line.take_back(ref, *turn)
        if ref.background:
            self._background.discard(ref)
        left = self._running_of[ref.tenant] - 1
        if left:
            self._running_of[ref.tenant] = left
        else:
            del self._running_of[ref.tenant]
        return agent

    def _call_next(self, agent: str) -> None:
        aside = self._aside.get(agent)
        if aside:
            first = aside.popleft()
            self._called[first] = agent
            self._line_up(first, first=True)
            if not aside:
                del self._aside[agent]

    def _line_up(self, ref: RunRef, *, first: bool = False) -> None:
        line = self._lines.get(ref.tenant)
        if line is None:
            line = self._lines[ref.tenant] = _Line()
        line.add(ref, self._time(), first=first)
        if ref not in self._known:
            self._remember(ref)

    def _remember(self, ref: RunRef) -> None:
        self._known.add(ref)
        self._of_tenant[ref.tenant] = self._of_tenant.get(ref.tenant, 0) + 1

    def _forget(self, ref: RunRef) -> None:
        self._known.discard(ref)
        left = self._of_tenant[ref.tenant] - 1
        if left:
            self._of_tenant[ref.tenant] = left
        else:
            del self._of_tenant[ref.tenant]
