"""A place at work for a run that is about to be accepted: it is claimed by the commit that brings it into being.

Saves such a run one commit and one turn of the loop. Leaves to the executor: who gets a place; to the service: what
became of the submission.
"""

import asyncio
from dataclasses import dataclass

from app.events import ports
from app.events.catalog.request import RequestStarted
from app.runtime.ports import Fresh


@dataclass(frozen=True, slots=True)
class Place:
    lease: ports.ClaimRun
    started: RequestStarted
    outcome: "asyncio.Future[Fresh | None]"

    def accepted(self, fresh: Fresh) -> None:
        self._tell(fresh)

    def refused(self) -> None:
        self._tell(None)

    def lost(self, error: BaseException) -> None:
        """Nobody knows whether the run was stored: then its lease is given back and the sweep finds it."""
        if not self.outcome.done():
            gone = ports.StorageDown("whoever submitted the run went away")
            self.outcome.set_exception(error if isinstance(error, ports.StoreError) else gone)

    def _tell(self, fresh: Fresh | None) -> None:
        if not self.outcome.done():  # it is when the executor was told to stop meanwhile
            self.outcome.set_result(fresh)
