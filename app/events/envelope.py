"""The event: one record of the log, with its place in its thread and its link to the record before it.

The payload is kept as the canonical bytes that were hashed and is parsed only when somebody looks inside,
so that reading, verifying and sending a thread costs no parsing. Leaves to others: what a payload may
contain (the catalog) and how other systems spell it (the dialects).
"""

from functools import lru_cache
from hashlib import sha256
from typing import Any, Final

import orjson

from app.core import json
from app.core.clock import iso

GENESIS: Final = "0" * 64
"""The `prevHash` of a thread's first event."""

_cached_second = lru_cache(maxsize=256)(lambda second: iso(second * 1000)[:-4])


@lru_cache(maxsize=256)
def iso_at(at_ms: int) -> str:
    """`iso` for the hot path: events come several to a millisecond and many to a second, so both are formatted once."""
    return f"{_cached_second(at_ms // 1000)}{at_ms % 1000:03d}Z"


class Event:
    """Immutable by convention; a class with slots because hundreds of thousands are made in a second."""

    __slots__ = (
        "_payload",
        "_wire",
        "actor",
        "at",
        "hash",
        "id",
        "parent_id",
        "payload_bytes",
        "prev_hash",
        "run_id",
        "run_seq",
        "seq",
        "spelled",
        "tenant",
        "thread_id",
        "type",
    )

    def __init__(
        self,
        id: str,
        tenant: str,
        thread_id: str,
        run_id: str | None,
        seq: int,
        run_seq: int | None,
        type: str,
        actor: str,
        at: int,
        payload_bytes: bytes,
        parent_id: str | None,
        prev_hash: str,
        hash: str,
        payload: dict[str, Any] | None = None,
    ) -> None:
        self.id = id
        self.tenant = tenant
        self.thread_id = thread_id
        self.run_id = run_id
        self.seq = seq
        self.run_seq = run_seq
        self.type = type
        self.actor = actor
        self.at = at
        self.payload_bytes = payload_bytes
        self.parent_id = parent_id
        self.prev_hash = prev_hash
        self.hash = hash
        self._payload = payload
        self._wire: bytes | None = None
        self.spelled: Any = None
        """Whatever a protocol made of it for its clients; kept here so that it is made once and goes with the event."""

    # Not by `__getattr__` for an empty slot: a class that has it pays several times as much for each attribute.
    @property
    def payload(self) -> dict[str, Any]:
        """Parsed when it is read for the first time, unless whoever made the event had it."""
        payload = self._payload
        if payload is None:
            payload = self._payload = json.loads(self.payload_bytes)
        return payload

    def with_payload(self, payload: dict[str, Any]) -> "Event":
        """The same event for whoever works with its content; bytes, wire and hash stay what was stored."""
        return Event(
            self.id,
            self.tenant,
            self.thread_id,
            self.run_id,
            self.seq,
            self.run_seq,
            self.type,
            self.actor,
            self.at,
            self.payload_bytes,
            self.parent_id,
            self.prev_hash,
            self.hash,
            payload,
        )

    def wire(self) -> bytes:
        """The event as every native client sees it. Made once, however many sockets get it."""
        if self._wire is None:
            self._wire = json.dumps(
                {
                    "id": self.id,
                    "threadId": self.thread_id,
                    "runId": self.run_id,
                    "seq": self.seq,
                    "runSeq": self.run_seq,
                    "type": self.type,
                    "actor": self.actor,
                    "at": iso_at(self.at),
                    "payload": json.Fragment(self.payload_bytes),
                    "parentId": self.parent_id,
                    "prevHash": self.prev_hash,
                    "hash": self.hash,
                }
            )
        return self._wire

    def sealed(self) -> str:
        """The hash that this event must carry."""
        return seal(
            self.prev_hash,
            self.id,
            self.tenant,
            self.thread_id,
            self.run_id,
            self.seq,
            self.run_seq,
            self.type,
            self.actor,
            self.at,
            self.payload_bytes,
            self.parent_id,
        )

    def export_line(self) -> bytes:
        """The canonical envelope with its hash: one line of an export, from which anybody can verify."""
        return json.canonical(_envelope(self, hash=self.hash))

    def __repr__(self) -> str:
        return f"<Event {self.thread_id}#{self.seq} {self.type}>"


def _envelope(event: Event, **more: str) -> dict[str, Any]:
    return {
        "actor": event.actor,
        "at": iso_at(event.at),
        "id": event.id,
        "parentId": event.parent_id,
        "payload": json.Fragment(event.payload_bytes),
        "prevHash": event.prev_hash,
        "runId": event.run_id,
        "runSeq": event.run_seq,
        "seq": event.seq,
        "tenant": event.tenant,
        "threadId": event.thread_id,
        "type": event.type,
        **more,
    }


def seal(
    prev_hash: str,
    id: str,
    tenant: str,
    thread_id: str,
    run_id: str | None,
    seq: int,
    run_seq: int | None,
    type: str,
    actor: str,
    at: int,
    payload_bytes: bytes,
    parent_id: str | None,
) -> str:
    """sha256 over the previous hash and the canonical envelope without its own hash."""
    # The keys stand in sorted order, so the encoder need not sort: the payload is inserted as stored.
    canonical = orjson.dumps(
        {
            "actor": actor,
            "at": iso_at(at),
            "id": id,
            "parentId": parent_id,
            "payload": orjson.Fragment(payload_bytes),
            "prevHash": prev_hash,
            "runId": run_id,
            "runSeq": run_seq,
            "seq": seq,
            "tenant": tenant,
            "threadId": thread_id,
            "type": type,
        }
    )
    return sha256(prev_hash.encode() + canonical).hexdigest()
