"""All runs of a thread in one stream of server-sent events: each in its own modes, and changes of the state between.

Ids are those of the runs' own streams, `seq.part`. Pure: the same events always give the same frames. Leaves to
`langgraph_stream`: the frames of a run; to others: following and sending.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final

from app.events.catalog import request
from app.events.catalog.thread import ThreadStateUpdated
from app.events.envelope import Event
from app.protocols.dialects.langgraph_reading import Acting
from app.protocols.dialects.langgraph_segments import segment_id
from app.protocols.dialects.langgraph_states import STREAM, state_object
from app.protocols.dialects.langgraph_stream import BEGINNING, Cursor, RunFrames, frame
from app.protocols.dialects.langgraph_values import ThreadValues

THREAD_MODES: Final = frozenset({"run_modes", "lifecycle", "state_update"})


def wanted_of(labels: Mapping[str, str]) -> tuple[frozenset[str], bool]:
    """The modes that the client which started a run asked for, and whether subgraphs are included."""
    modes, _, more = (labels.get(STREAM) or "values").partition(";")
    return frozenset(modes.split(",")), "subgraphs" in more


class ThreadFrames:
    """The frames of a thread in the modes of a thread's stream, after those that the client has."""

    def __init__(self, values: ThreadValues, modes: frozenset[str], after: Cursor = BEGINNING) -> None:
        self._values, self._modes, self._after = values, modes, after
        self._runs: dict[str, _RunOfThread] = {}

    def frames(self, event: Event) -> bytes:
        changed = self._values.apply(event)
        if event.type == request.RequestQueued.type:
            self._queued(event)
        made = [run.frames(event, changed=changed) for run in self._runs.values()]
        for run_id in [run_id for run_id, run in self._runs.items() if run.over]:
            del self._runs[run_id]
        if event.type == ThreadStateUpdated.type:
            made.append(self._updated(event))
        return b"".join(made)

    def _queued(self, event: Event) -> None:
        payload, run_id = event.payload, event.run_id or ""
        of_another = payload.get("parentRunId") or payload.get("undoOf")
        if of_another or not self._modes & {"run_modes", "lifecycle"}:
            return
        modes, subgraphs = wanted_of(payload.get("labels") or {})
        modes = modes if "run_modes" in self._modes else frozenset()
        self._runs[run_id] = _RunOfThread(self._values, run_id, 0, modes, subgraphs=subgraphs, after=self._after)

    def _updated(self, event: Event) -> bytes:
        if "state_update" not in self._modes or (event.seq, 0) <= self._after:
            return b""
        state = state_object(event.thread_id, self._values, len(self._values.checkpoints) - 1)
        return frame((event.seq, 0), "state_update", {"thread_id": event.thread_id, "state": state})


class _RunOfThread(RunFrames):
    """One run with all its segments; the end of each is sent."""

    over = False

    def frames(self, event: Event, *, changed: bool) -> bytes:
        self.step(event, changed=changed)
        if self.ended:
            data: dict[str, Any] = {"status": "run_done", "run_id": segment_id(self._run_id, self._number)}
            metadata: Callable[[], Any] = data.copy
            self._emit(None, "metadata", metadata)
            self.ended = self._in_segment = self._closing = False
            self.error = None
        self.over = self._run_id not in self._acting
        return self.take()

    def on_resumed(self, event: Event, who: Acting) -> None:
        if self._is_own(who):
            self._number = who.segments.current.number
            self._open()
