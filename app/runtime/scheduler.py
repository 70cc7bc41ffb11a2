"""What intake asks of the schedule: the one Protocol in which the two packages meet.

Every call comes after the commit it is about, except `reserve`. Leaves to the executor: how any of it is done.
"""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from app.core.errors import Failure
from app.core.value import value
from app.events.blobs import has_references
from app.events.catalog import Payload
from app.events.envelope import Event
from app.events.ports import ClaimRun, StorageDown, StoreError
from app.views.run import Run


@value(frozen=True, slots=True)
class AcceptedRun:
    """A run that was accepted a moment ago, so that nobody has to read it back."""

    run: Run
    thread: tuple[Event, ...] = ()
    """Every event of the run's thread, if the run is the first on it; otherwise empty."""

    def thread_with(self, events: Sequence[Event]) -> list[Event] | None:
        """The whole thread including the events that follow; None when it has to be read from the store."""
        if not self.thread or (events and events[0].seq != self.thread[-1].seq + 1):
            return None
        if any(map(has_references, self.thread)):
            return None
        return [*self.thread, *events]


@value(frozen=True, slots=True)
class WorkerReservation:
    """A worker kept free for a run that is being submitted: the commit that accepts the run also claims it.

    Saves such a run one commit and one turn of the loop. Whoever reserved calls exactly one of the methods.
    """

    lease: ClaimRun
    started: Payload
    """The event that reports the claim."""
    outcome: "asyncio.Future[AcceptedRun | None]"
    """What the executor waits for; it is done early when the executor stops meanwhile."""

    def accepted(self, run: AcceptedRun) -> None:
        if not self.outcome.done():
            self.outcome.set_result(run)

    def refused(self) -> None:
        if not self.outcome.done():
            self.outcome.set_result(None)

    def lost(self, error: BaseException) -> None:
        """Nobody knows whether the run was stored: its lease is given back and the sweep finds the run if it was."""
        if not self.outcome.done():
            gone = StorageDown("whoever submitted the run went away")
            self.outcome.set_exception(error if isinstance(error, StoreError) else gone)


class Scheduler(Protocol):
    def refusal(self, tenant: str) -> Failure | None:
        """Why a new run of the tenant cannot be accepted now; None if it can."""
        ...

    def reserve(self, tenant: str, thread_id: str, run_id: str, agent: str) -> WorkerReservation | None:
        """A worker for a run that is not accepted yet, on a new thread; None if it has to wait in the queue."""
        ...

    def wake(self, tenant: str, thread_id: str, run_id: str, accepted: AcceptedRun | None = None) -> None:
        """The run may be claimable now. Whoever accepted it passes it along."""
        ...

    def wake_later(self, tenant: str, run: Run) -> None:
        """The run is stored and its time (`due_at`) has not come: no worker knows of it until then."""
        ...

    def stop(self, tenant: str, run_id: str) -> None:
        """The run's cancel is stored: it starts no further step."""
        ...

    def deliver(self, tenant: str, run_id: str, command: Mapping[str, Any]) -> None:
        """A command to the run is stored: it follows the command at its next step."""
        ...

    def freed(self, tenant: str, thread_id: str) -> None:
        """A run ended that no worker had, such as one that waited for a person: the next of its thread may start."""
        ...
