"""The read port: what can be asked of the stored log. The store implements it."""

from collections.abc import Mapping, Sequence
from dataclasses import field
from typing import Any, Protocol

from app.core.value import mutable, value
from app.events.envelope import Event
from app.views.artifact import Artifact
from app.views.interrupt import Interrupt
from app.views.run import Run
from app.views.thread import Thread
from app.views.transcript import Entry


@value(frozen=True, slots=True)
class Tombstone:
    """What stays of a purged thread."""

    thread_id: str
    last_seq: int
    head_hash: str
    deleted_at: int | None = None
    """None where an earlier version purged it."""


@value(frozen=True, slots=True)
class RunFilter:
    """Which runs a list shows; None and empty mean every one."""

    thread_id: str | None = None
    status: str | None = None
    agent: str | None = None
    workflow: str | None = None
    text: str | None = None
    """What the input contains, in any case; an object is searched as JSON."""
    labels: Mapping[str, str] = field(default_factory=dict)
    created_from: int = 0
    """Milliseconds, inclusive."""
    created_until: int = 2**62
    """Milliseconds, exclusive."""


@value(frozen=True, slots=True)
class JobFilter:
    """Which jobs a list shows; None means every one."""

    status: str | None = None
    type: str | None = None
    priority: str | None = None
    project_id: str | None = None
    session_id: str | None = None


@value(frozen=True, slots=True)
class RunPlace:
    """Where a list of runs goes on: after this one."""

    created_at: int
    id: str


@mutable(slots=True)
class SeriesPoint:
    """What began in one interval, as it stands now, and what it used."""

    statuses: dict[str, int] = field(default_factory=dict)
    input_tokens: int = 0
    output_tokens: int = 0
    cost_usd: float = 0.0

    def count(self, status: str, number: int) -> None:
        self.statuses[status] = self.statuses.get(status, 0) + number

    def add(self, usage: Mapping[str, Any]) -> None:
        self.input_tokens += usage.get("inputTokens") or 0
        self.output_tokens += usage.get("outputTokens") or 0
        self.cost_usd += usage.get("costUsd") or 0.0


@value(frozen=True, slots=True)
class RunSeries:
    points: Mapping[int, SeriesPoint]
    """By the beginning of the interval, in milliseconds; intervals without a run are left out."""
    active: Mapping[str, int]
    """How many runs are queued, running and waiting now."""
    open_interrupts: int
    summed_since: int
    """Tokens and cost are those of runs from here on."""


@value(frozen=True, slots=True)
class SweepThread:
    """A thread with events that no sweep of old deltas has looked at."""

    key: int
    tenant: str
    id: str
    swept_seq: int
    """Up to here there is nothing left to drop."""
    last_seq: int


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

    async def events_at(self, tenant: str, thread_id: str, seqs: Sequence[int]) -> list[Event]:
        """Those of these events that exist and are not deltas, in their order."""
        ...

    async def run_events(self, tenant: str, run_id: str, after: int, limit: int) -> list[Event]:
        """The run's events after that `seq` of its thread."""
        ...

    async def runs(
        self, tenant: str, *, thread_id: str | None, status: str | None, before: str | None, limit: int
    ) -> list[Run]:
        """Newest first; `before` is the id of the last run already seen."""
        ...

    async def list_runs(
        self, tenant: str, filter_: RunFilter, after: RunPlace | None, limit: int
    ) -> tuple[list[Run], RunPlace | None]:
        """Newest first, without those of deleted threads; and where to go on, or None at the end.

        Looks at a bounded number of runs, so a page may be short though there is more.
        """
        ...

    async def list_jobs(
        self, tenant: str, filter_: JobFilter, after: RunPlace | None, limit: int
    ) -> tuple[list[Run], RunPlace | None]:
        """The runs with queue attributes; otherwise as `list_runs`."""
        ...

    async def interrupts(
        self, tenant: str, *, thread_id: str | None, status: str | None, after: str = "", limit: int = 1000
    ) -> list[Interrupt]:
        """By id, without those of deleted threads."""
        ...

    async def run_series(self, tenant: str, since: int, step: int) -> RunSeries:
        """Runs over time, in intervals of `step` milliseconds."""
        ...

    async def interrupts_before(self, tenant: str, interrupt_id: str, limit: int) -> list[Interrupt]:
        """The ones that were raised before it, newest first."""
        ...

    async def interrupt(self, tenant: str, interrupt_id: str) -> Interrupt | None: ...

    async def wanted_artifacts(self, tenant: str, thread_id: str) -> list[Interrupt]:
        """The open questions of the thread that artifacts answer."""
        ...

    async def interrupts_of_calls(self, tenant: str, call_ids: Sequence[str]) -> list[Interrupt]:
        """The pauses for the client's own tools that have one of these call ids, whatever their thread."""
        ...

    async def transcript(self, tenant: str, thread_id: str) -> list[Entry]: ...

    async def transcript_page(self, tenant: str, thread_id: str, after: int, limit: int) -> list[Entry]:
        """The next entries after that position; of a fork only its own."""
        ...

    async def root_runs(self, tenant: str, thread_id: str, before: int, limit: int) -> list[tuple[int, int]]:
        """The first and the last `seq` of runs on the thread that are no subagents', newest first."""
        ...

    async def entry(self, tenant: str, thread_id: str, message_id: str) -> Entry | None: ...

    async def artifacts(self, tenant: str, thread_id: str) -> list[Artifact]: ...

    async def artifact(self, tenant: str, artifact_id: str) -> Artifact | None: ...

    async def threads_of(self, tenant: str, after: str, limit: int) -> list[Thread]:
        """By id, without deleted and system-owned ones."""
        ...

    async def threads_between(self, tenant: str, after: str, until: str, limit: int) -> list[Thread]:
        """Those whose ids lie between two texts, by id, without deleted ones: threads of the system with a prefix."""
        ...

    async def newest_threads(
        self, tenant: str, *, before: int | None, system: bool, limit: int
    ) -> list[tuple[int, Thread]]:
        """Newest first with the number to go on before; without deleted ones, system-owned ones when asked for."""
        ...

    async def blob(self, tenant: str, thread_id: str, sha256: str) -> tuple[str, bytes] | None:
        """(mime, data) if one of the thread's events refers to it."""
        ...

    async def blob_size(self, tenant: str, thread_id: str, sha256: str) -> tuple[str, int] | None:
        """(mime, size) likewise."""
        ...

    async def blob_part(self, tenant: str, thread_id: str, sha256: str, start: int, end: int) -> bytes:
        """Its data from a position until before another."""
        ...
