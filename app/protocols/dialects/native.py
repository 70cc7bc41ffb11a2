"""Our own export: the canonical envelopes, the blobs they refer to, and last the head of the chain.

`read_export` is its inverse. Anybody can verify such a file with a SHA-256 and no other code of ours:
`docs/log-format.md` says how.
"""

import base64
from collections.abc import AsyncIterator, Iterable
from dataclasses import field
from datetime import datetime
from hashlib import sha256
from typing import Any, Final

from app.core import json
from app.core.errors import HoldfastError
from app.core.value import mutable
from app.events.blobs import digests_inside, references_of
from app.events.chain import Head
from app.events.envelope import Event
from app.events.gaps import Gap, Gaps
from app.views.ports import Reader
from app.views.thread import Thread

PAGE: Final = 1000


class ExportInvalid(HoldfastError):
    """`before` are the events that could be read up to there."""

    def __init__(self, line: int, reason: str, before: "list[Event]") -> None:
        super().__init__("EXPORT_INVALID", f"line {line}: {reason}")
        self.reason = reason
        self.before = before


async def export(reader: Reader, tenant: str, thread: Thread) -> AsyncIterator[bytes]:
    """The lines, without their newlines. The thread as it was read fixes the end, so that one in motion gives a whole.

    The head is what the thread's row says, not the last event found: events that are gone show against it. Deltas that
    retention drops meanwhile move the end, so that the event that says so is in the file.
    """
    blobs: dict[str, None] = {}
    stored = StoredEvents(reader, tenant, thread)
    async for event in stored.events():
        blobs.update(dict.fromkeys(reference["sha256"] for reference in references_of(event)))
        yield event.export_line()
    digests = list(blobs)
    for digest in digests:
        found = await reader.blob(tenant, thread.id, digest)
        if found is not None:
            mime, data = found
            inner = set(digests_inside(data)) - blobs.keys()
            blobs.update(dict.fromkeys(inner))
            digests += sorted(inner)
            yield json.canonical({"blob": {"sha256": digest, "mime": mime, "data": base64.b64encode(data).decode()}})
    head: dict[str, Any] = {"threadId": thread.id, "seq": stored.end.last_seq, "hash": stored.end.head_hash}
    yield json.canonical({"head": head | ({"dropped": stored.dropped} if stored.dropped else {})})


class StoredEvents:
    """A thread's events up to its end, page by page, while others may write to it and drop deltas."""

    def __init__(self, reader: Reader, tenant: str, thread: Thread) -> None:
        self._reader, self._tenant, self.end = reader, tenant, thread
        self._gaps = Gaps()
        self._last: Event | None = None
        self._cuts: list[int] = []
        """Events after which a page ended and a gap began."""

    @property
    def dropped(self) -> int:
        return self._gaps.missing

    async def events(self) -> AsyncIterator[Event]:
        moved = True
        while moved:
            async for event in self._up_to_the_end():
                yield event
            moved = self._gaps.unexplained() is not None and await self._compacted_meanwhile()
        if any(map(self._gaps.splits, self._cuts)):
            # Some deltas of a message were read before they were dropped, and the others not: no verifier could tell.
            raise HoldfastError("THREAD_BUSY", "Retention dropped deltas during the export. Export the thread again.")

    async def _up_to_the_end(self) -> AsyncIterator[Event]:
        after, end = self._seq, self.end.last_seq
        while after < end and (page := await self._reader.events(self._tenant, self.end.id, after, PAGE)):
            if page[0].seq != after + 1:
                self._cuts.append(after)
            for event in page:
                if self._seq >= end:
                    return
                self._note(event)
                yield event  # also one that somebody moved behind the end: verifying finds it
            after = page[-1].seq

    async def _compacted_meanwhile(self) -> bool:
        found = await self._reader.thread(self._tenant, self.end.id)
        if not isinstance(found, Thread) or found.compacted <= self.end.last_seq:
            return False
        self.end = found
        return True

    @property
    def _seq(self) -> int:
        return 0 if self._last is None else self._last.seq

    def _note(self, event: Event) -> None:
        last = self._last
        if last is not None and event.seq > last.seq + 1:
            self._gaps.add(Gap(last.seq + 1, event.seq - 1, last.hash, event.prev_hash))
        self._gaps.read(event)  # what is wrong with it is for a verifier to say
        self._last = event


@mutable(slots=True)
class Export:
    events: list[Event] = field(default_factory=list)
    blobs: dict[str, tuple[str, bytes]] = field(default_factory=dict)
    head: Head | None = None


def read_export(lines: Iterable[bytes]) -> Export:
    """A file as it stands; whether its chain holds is for `events.chain` to say."""
    found = Export()
    number = 0
    for number, line in enumerate(lines, 1):
        line = line.strip()
        if not line:
            continue
        try:
            fault = _read_line(found, line)
        except (json.JsonError, AttributeError, KeyError, TypeError, ValueError, OverflowError):
            fault = "not a line of an export"
        if fault is not None:
            raise ExportInvalid(number, fault, found.events)
    if found.head is None:
        raise ExportInvalid(number + 1, "the head of the chain is missing, so the end was cut off", found.events)
    return found


def _read_line(found: Export, line: bytes) -> str | None:
    """Adds the line's content, or returns what is wrong with it."""
    document = json.loads(line)
    if found.head is not None:
        return "there is more after the head of the chain"
    if "head" in document:
        found.head = Head(document["head"]["seq"], document["head"]["hash"])
    elif "blob" in document:
        data = base64.b64decode(document["blob"]["data"])
        if sha256(data).hexdigest() != document["blob"]["sha256"]:
            return "a blob does not have its hash"
        found.blobs[document["blob"]["sha256"]] = (document["blob"]["mime"], data)
    else:
        event = read_event(document)
        if event.export_line() != line:
            return "not written canonically, so its bytes were changed"
        found.events.append(event)
    return None


def read_event(document: dict[str, Any]) -> Event:
    """An event from its exported line, parsed; whether it has its hash is not looked at."""
    at = round(datetime.fromisoformat(document["at"]).timestamp() * 1000)
    return Event(
        document["id"],
        document["tenant"],
        document["threadId"],
        document["runId"],
        document["seq"],
        document["runSeq"],
        document["type"],
        document["actor"],
        at,
        json.canonical(document["payload"]),
        document["parentId"],
        document["prevHash"],
        document["hash"],
    )
