"""What must hold of a store after any fault: nothing acknowledged is lost, nothing shown is missing, no gap, no twin.

Counts rather than stops at the first fault, so that `make faults` can print what it found.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, fields
from hashlib import sha256
from pathlib import Path
from typing import Any, Self

from app.core.principal import DEFAULT_TENANT
from app.events.chain import Broken, verify
from app.events.envelope import Event
from app.wiring.store import Store
from tests.store_equals_replay import assert_tables_equal_replay, events_of


@dataclass(frozen=True, slots=True)
class SeenEvent:
    """An event as a caller or subscriber saw it: its place and its hash, which covers everything else."""

    thread_id: str
    seq: int
    id: str
    hash: str

    @classmethod
    def of(cls, event: Event) -> Self:
        return cls(event.thread_id, event.seq, event.id, event.hash)

    def line(self) -> bytes:
        return f"{self.thread_id} {self.seq} {self.id} {self.hash}\n".encode()


def read_seen_events(path: Path) -> list[SeenEvent]:
    """The lines that a killed process had written; a last one that was cut short is ignored."""
    if not path.exists():
        return []
    whole = path.read_bytes().decode().split("\n")[:-1]
    return [SeenEvent(thread, int(seq), id, hash) for thread, seq, id, hash in map(str.split, whole)]


@dataclass(slots=True)
class Figures:
    trials: int = 0
    acknowledged: int = 0
    stored: int = 0
    lost: int = 0
    unstored: int = 0
    """Published, and yet not in the log."""
    gaps: int = 0
    duplicates: int = 0
    chain_faults: int = 0

    def add(self, other: "Figures") -> None:
        for field in fields(self):
            setattr(self, field.name, getattr(self, field.name) + getattr(other, field.name))

    def assert_sound(self) -> None:
        faults = (self.lost, self.unstored, self.gaps, self.duplicates, self.chain_faults)
        assert faults == (0, 0, 0, 0, 0), str(self)

    def __str__(self) -> str:
        return ", ".join(f"{getattr(self, field.name)} {field.name.replace('_', ' ')}" for field in fields(self))


async def audit(
    store: Store,
    acknowledged: Iterable[SeenEvent],
    published: Iterable[SeenEvent] = (),
    threads: Iterable[str] | None = None,
) -> Figures:
    """Reads the given threads, or all, and compares; the tables must equal the fold in any case."""
    answered, shown = set(acknowledged), set(published)
    places = await _all_threads(store) if threads is None else sorted(set(threads))
    figures = Figures(trials=1, acknowledged=len(answered))
    found: set[SeenEvent] = set()
    ids: Counter[str] = Counter()
    present = []
    for thread_id in places:
        events = await events_of(store.database, DEFAULT_TENANT, thread_id)
        if not events:
            continue
        present.append(thread_id)
        found.update(map(SeenEvent.of, events))
        ids.update(event.id for event in events)
        figures.stored += len(events)
        figures.gaps += _gaps(events)
        figures.chain_faults += isinstance(verify(events), Broken)
        await _assert_blobs(store, events)
    figures.lost = len(answered - found)
    figures.unstored = len(shown - found)
    figures.duplicates = sum(count - 1 for count in ids.values())
    await assert_tables_equal_replay(store, [(DEFAULT_TENANT, thread_id) for thread_id in present])
    return figures


async def _all_threads(store: Store) -> list[str]:
    places: list[tuple[str, str, int]] = [("", "", 0)]
    while page := await store.reader.threads(places[-1][:2]):
        places += page
    return [thread_id for _, thread_id, _ in places[1:]]


def _gaps(events: list[Event]) -> int:
    """Counted apart from the chain check, so that neither has to be believed."""
    missing = sum(event.seq != place for place, event in enumerate(events, 1))
    run_seqs: Counter[str] = Counter()
    for event in events:
        if event.run_id is not None:
            run_seqs[event.run_id] += 1
            missing += event.run_seq != run_seqs[event.run_id]
    return missing


async def _assert_blobs(store: Store, events: list[Event]) -> None:
    for event in events:
        if b'"$blob"' in event.payload_bytes:
            for reference in _references(event.payload):
                found = await store.reader.blob(event.tenant, event.thread_id, reference["sha256"])
                assert found is not None, f"{event!r} refers to a blob that is not there"
                assert sha256(found[1]).hexdigest() == reference["sha256"]


def _references(value: Any) -> Iterable[dict[str, Any]]:
    if isinstance(value, dict):
        if "$blob" in value:
            yield value["$blob"]
        else:
            for item in value.values():
                yield from _references(item)
    elif isinstance(value, list):
        for item in value:
            yield from _references(item)
