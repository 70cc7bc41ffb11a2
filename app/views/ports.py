"""The read port: what can be asked of the stored log. The store implements it."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from app.events.envelope import Event
from app.views.artifact import Artifact
from app.views.interrupt import Interrupt
from app.views.run import Run
from app.views.thread import Thread
from app.views.transcript import Entry


@dataclass(frozen=True, slots=True)
class Tombstone:
    """What stays of a purged thread."""

    thread_id: str
    last_seq: int
    head_hash: str


class Reader(Protocol):
    """Every call names the tenant: an id of another tenant is not there."""

    async def run(self, tenant: str, run_id: str) -> Run | None: ...

    async def is_run_of_deleted_thread(self, tenant: str, run_id: str) -> bool: ...

    async def thread(self, tenant: str, thread_id: str) -> Thread | Tombstone | None: ...

    async def events(self, tenant: str, thread_id: str, after: int, limit: int) -> list[Event]:
        """The next events after that `seq`; payloads are parsed when looked at."""
        ...

    async def events_of(
        self, tenant: str, thread_id: str, types: Sequence[str], after: int, up_to: int, limit: int
    ) -> list[Event]:
        """The next events of these types after one `seq` and up to another."""
        ...

    async def run_events(self, tenant: str, run_id: str, after: int, limit: int) -> list[Event]:
        """The run's events after that `seq` of its thread."""
        ...

    async def runs(self, tenant: str, *, thread_id: str | None, status: str | None, before: str | None,
                   limit: int) -> list[Run]:  # fmt: skip
        """Newest first; `before` is the id of the last run already seen."""
        ...

    async def interrupts(self, tenant: str, *, thread_id: str | None, status: str | None) -> list[Interrupt]: ...

    async def interrupt(self, tenant: str, interrupt_id: str) -> Interrupt | None: ...

    async def transcript(self, tenant: str, thread_id: str) -> list[Entry]: ...

    async def artifacts(self, tenant: str, thread_id: str) -> list[Artifact]: ...

    async def threads_of(self, tenant: str, after: str, limit: int) -> list[Thread]:
        """By id, without deleted and system-owned ones."""
        ...

    async def blob(self, tenant: str, thread_id: str, sha256: str) -> tuple[str, bytes] | None:
        """(mime, data) if one of the thread's events refers to it."""
        ...
