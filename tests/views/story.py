"""Events for tests of the views, chained like stored ones, without a store."""

from collections.abc import Sequence

from app.core import json
from app.events.catalog import Payload
from app.events.envelope import GENESIS, Event, seal

THREAD = "thr_1"
START_MS = 1_767_225_600_000


def events_from(*payloads: Payload | tuple[str | None, Payload], run_id: str | None = "run_1") -> list[Event]:
    """The payloads as one thread's events, a millisecond apart; a pair names another run than the first."""
    events: list[Event] = []
    counts: dict[str, int] = {}
    for seq, item in enumerate(payloads, 1):
        run, payload = item if isinstance(item, tuple) else (run_id, item)
        run = None if payload.of_thread else run
        if run is not None:
            counts[run] = counts.get(run, 0) + 1
        run_seq = None if run is None else counts[run]
        encoded, previous = json.canonical(payload.to_json()), events[-1].hash if events else GENESIS
        id, at, actor = f"evt_{seq}", START_MS + seq, "backend:echo"
        digest = seal(previous, id, "default", THREAD, run, seq, run_seq, payload.type, actor, at, encoded, None)
        events.append(
            Event(id, "default", THREAD, run, seq, run_seq, payload.type, actor, at, encoded, None, previous, digest)
        )
    return events


def of_type(events: Sequence[Event], name: str) -> list[Event]:
    return [event for event in events if event.type == name]
