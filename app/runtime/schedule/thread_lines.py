"""Runs that may find another run of their thread before them, in their order; a pure value.

Bounded: the thread unused for longest is dropped, and the sweep finds its runs.
"""

from collections import OrderedDict
from typing import Final

from app.runtime.schedule.queue import RunRef

MAX_THREADS: Final = 10_000


class ThreadLines:
    def __init__(self) -> None:
        self._lines: OrderedDict[tuple[str, str], dict[RunRef, None]] = OrderedDict()

    def join(self, ref: RunRef) -> None:
        self._lines.setdefault((ref.tenant, ref.thread_id), {})[ref] = None
        if len(self._lines) > MAX_THREADS:
            self._lines.popitem(last=False)

    def leave(self, ref: RunRef) -> None:
        line = self._lines.get((ref.tenant, ref.thread_id))
        if line is not None:
            line.pop(ref, None)
            if not line:
                del self._lines[ref.tenant, ref.thread_id]

    def has(self, tenant: str, thread_id: str) -> bool:
        return (tenant, thread_id) in self._lines

    def call_next(self, tenant: str, thread_id: str) -> RunRef | None:
        """The first of the thread's line, which it leaves; None if nobody waits."""
        line = self._lines.get((tenant, thread_id))
        if not line:
            return None
        first = next(iter(line))
        self.leave(first)
        return first
