"""Two of the runtime's four surfaces: client (submit) and lifecycle (cancel, drain).

The other two are the event source (`app.events.hub`) and the inspector (`app.views.ports.Reader`). Each can be
replaced without the others.
"""

import asyncio
from typing import Protocol

from app.core.errors import Failure
from app.core.principal import Principal
from app.runtime.intake.rejection import Rejected
from app.runtime.intake.submission import Submission, Taken
from app.views.run import Run


class RunClient(Protocol):
    async def submit(self, who: Principal, submission: Submission) -> Run | Rejected:
        """Answers when the run's first event is durable; a repeated idempotency key answers the first run."""
        ...

    async def enqueue(self, who: Principal, submission: Submission) -> Taken | Rejected:
        """As `submit`, and whether the run was accepted now or earlier, under the same key."""
        ...

    async def refusal(self, submission: Submission) -> Failure | None:
        """Why the workspace in force could not run it, if so. Records nothing."""
        ...


class Drainable(Protocol):
    @property
    def draining(self) -> bool:
        """No run is taken up any more."""
        ...

    async def drain(self, seconds: float, hurry: asyncio.Event | None = None) -> None:
        """Running runs finish within that time, and at once when `hurry` is set, or are given back for another server.

        No run is taken up from now on.
        """
        ...


class RunLifecycle(Drainable, Protocol):
    async def cancel(
        self, who: Principal, run_id: str, reason: str | None = None, *, rollback: bool = False
    ) -> Run | Rejected:
        """Idempotent. With `rollback` what the run said leaves the conversation."""
        ...
