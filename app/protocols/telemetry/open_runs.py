"""What is remembered of a run from its acceptance to its end, for metrics and for the server's log.

Folded from the events that this process committed. A run that was accepted elsewhere or before a restart is taken from
its record when it is claimed here; how long people took before that is then not known. Leaves to others: what is made
of it (`meters`, `run_lines`).
"""

from collections.abc import Iterator
from dataclasses import field
from typing import Final

from app.core.recent import RecentDict
from app.core.value import mutable
from app.events.envelope import Event
from app.views.run import Run

MAX_OPEN_RUNS: Final = 20_000
"""Runs whose start is remembered; of one that fell out only the durations are missing."""


@mutable(slots=True)
class OpenRun:
    agent: str
    queued_at: int
    started_at: int | None = None
    parent: str | None = None
    input_tokens: int = 0
    output_tokens: int = 0
    waits: set[str] = field(default_factory=set)
    """Open interrupts of the run and of its subagents."""
    waiting_since: int | None = None
    people_ms: int | None = 0
    """How long somebody else was waited for; None when a part of it is not known."""

    def wait(self, interrupt_id: str, at: int) -> None:
        if not self.waits:
            self.waiting_since = at
        self.waits.add(interrupt_id)

    def answered(self, interrupt_id: str, at: int) -> None:
        self.waits.discard(interrupt_id)
        if not self.waits and self.waiting_since is not None:
            if self.people_ms is not None:
                self.people_ms += max(0, at - self.waiting_since)
            self.waiting_since = None

    def worked_ms(self, at: int) -> int | None:
        """From its first claim to `at`, without the time that people took."""
        if self.started_at is None or self.people_ms is None:
            return None
        waiting = max(0, at - self.waiting_since) if self.waiting_since is not None else 0
        return max(0, at - self.started_at - self.people_ms - waiting)


class OpenRuns:
    def __init__(self) -> None:
        self._open = RecentDict[tuple[str, str], OpenRun](MAX_OPEN_RUNS)

    def __len__(self) -> int:
        return len(self._open)

    def add(self, tenant: str, run_id: str, run: OpenRun) -> None:
        self._open.put((tenant, run_id), run)

    def claimed(self, tenant: str, run: Run) -> None:
        """A run is about to be worked on here; one that is not known was accepted elsewhere or before a restart."""
        if (tenant, run.id) in self._open:
            return
        known = OpenRun(run.agent or run.workflow or "(tool)", run.created_at, run.started_at, run.parent_run_id)
        known.input_tokens, known.output_tokens = run.usage["inputTokens"], run.usage["outputTokens"]
        known.people_ms = None if run.started_at is not None else 0
        self.add(tenant, run.id, known)

    def of(self, event: Event) -> OpenRun | None:
        return self._open.get((event.tenant, event.run_id or ""))

    def line_of(self, event: Event) -> Iterator[OpenRun]:
        """The run of the event and those above it: they wait when it does."""
        run = self.of(event)
        while run is not None:
            yield run
            run = self._open.get((event.tenant, run.parent)) if run.parent is not None else None

    def end(self, event: Event) -> OpenRun | None:
        return self._open.pop((event.tenant, event.run_id or ""), None)
