"""Jobs that may find another one of their project's line before them, in the order in which they came; a pure value.

Who is first is the store's word: whoever is called too early hears it. Bounded: the line unused for longest is dropped,
and the sweep finds its jobs.
"""

from collections import OrderedDict
from typing import Final

from app.runtime.schedule.queue import RunRef

MAX_LINES: Final = 10_000


class JobLines:
    def __init__(self) -> None:
        self._lines: OrderedDict[tuple[str, str], dict[RunRef, None]] = OrderedDict()
        self._behind: OrderedDict[tuple[str, str], str] = OrderedDict()
        """By tenant and thread: the project whose line waits for a job there."""

    def join(self, ref: RunRef, project: str) -> None:
        self._lines.setdefault((ref.tenant, project), {})[ref] = None
        if len(self._lines) > MAX_LINES:
            self._lines.popitem(last=False)

    def leave(self, ref: RunRef, project: str) -> None:
        line = self._lines.get((ref.tenant, project))
        if line is not None:
            line.pop(ref, None)
            if not line:
                del self._lines[ref.tenant, project]

    def stands_behind(self, tenant: str, project: str, thread_id: str) -> None:
        """The job that has the turn is on that thread, maybe at another server."""
        self._behind[tenant, thread_id] = project
        if len(self._behind) > MAX_LINES:
            self._behind.popitem(last=False)

    def has_behind(self, tenant: str, thread_id: str) -> bool:
        return (tenant, thread_id) in self._behind

    def call_behind(self, tenant: str, thread_id: str) -> RunRef | None:
        """As `call_next`, of the line that waits for a job on that thread."""
        project = self._behind.pop((tenant, thread_id), None)
        return None if project is None else self.call_next(tenant, project)

    def call_next(self, tenant: str, project: str) -> RunRef | None:
        """The first of the project's line, which it leaves; None if nobody waits."""
        line = self._lines.get((tenant, project))
        if not line:
            return None
        first = next(iter(line))
        self.leave(first, project)
        return first
