"""Puts a run into its trace while it is worked on, so that whatever it calls hears of it."""

from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Final

from app.core.recent import RecentDict
from app.core.tracing import Trace, current
from app.events.catalog import Payload, request
from app.events.envelope import Event
from app.events.recorder import Scope
from app.runtime.run.control import Control
from app.views.ports import Reader
from app.views.run import Run

Conduct = Callable[[Run, Scope, Control, list[Event] | None], Awaitable[list[Payload]]]

_QUEUED: Final = request.RequestQueued.type
MAX_CONTEXTS: Final = 20_000
"""Callers' contexts that are remembered; of a run that fell out, its first event is read again."""


class InTrace:
    """Around the conductor. `exported`: spans are exported, so every run has a trace."""

    def __init__(self, conduct: Conduct, reader: Reader, *, exported: bool) -> None:
        self._conduct, self._reader, self._exported = conduct, reader, exported
        self.on_claimed: Callable[[str, Run], None] | None = None
        """Hears of each run that is about to be worked on here."""
        self._contexts = RecentDict[tuple[str, str], Mapping[str, str] | None](MAX_CONTEXTS)

    def __len__(self) -> int:
        return len(self._contexts)

    def committed(self, events: Sequence[Event]) -> None:
        for event in events:
            if event.type == _QUEUED and event.run_id is not None:
                self._contexts.put((event.tenant, event.run_id), event.payload.get("traceContext"))

    async def run(self, run: Run, scope: Scope, control: Control, thread: list[Event] | None) -> list[Payload]:
        if self.on_claimed is not None:
            self.on_claimed(scope.tenant, run)
        key = (scope.tenant, run.id)
        # Kept: a run that waits comes back.
        context = self._contexts[key] if key in self._contexts else await self._stored(scope.tenant, run)
        outer = trace = current.get()
        if context is not None or self._exported:
            trace = Trace.of_run(run.id, context, exported=self._exported)
        token = None if trace is outer else current.set(trace)  # most runs have no trace, and neither has their caller
        try:
            ending = await self._conduct(run, scope, control, thread)
            self._contexts.pop(key, None)
            return ending
        finally:
            if token is not None:
                current.reset(token)

    async def _stored(self, tenant: str, run: Run) -> Mapping[str, str] | None:
        first = await self._reader.events(tenant, run.thread_id, run.first_seq - 1, 1)
        found: Mapping[str, str] | None = first[0].payload.get("traceContext") if first else None
        return found
