"""Large values of a payload, put back in their places for a reader.

The recorder stores a value over 16 KiB as a blob and leaves a reference, `{"$blob": {sha256, size, mime}}`. A blob of
JSON may hold references again. The media of a message part are a blob as well, under `blob`: they are never put into a
payload, but whoever exports a thread needs them. Content that may be forgotten is a salted blob; once it was,
`[FORGOTTEN]` is in its place. Leaves to others: storing blobs (the store), and which readers want values whole.
"""

import contextlib
import re
from base64 import b64encode
from collections.abc import Awaitable, Callable, Iterator, Mapping
from functools import partial
from typing import Any, Final, Protocol

from app.core import json
from app.events.envelope import Event
from app.events.salted import FORGOTTEN, SALTED, unsalted

Load = Callable[[Mapping[str, Any]], Awaitable[bytes | None]]
"""A reference to its content; None when the blob is gone."""

MAX_RESTORED_BYTES: Final = 64 * 1024 * 1024
"""Of one value. A client may send references itself, also many to one blob; those over the limit stay references."""
MAX_MEDIA_BYTES: Final = 32 * 1024 * 1024
"""Of one event, put into an answer: what an answer of a model may come to as well."""
_MARK: Final = b'"$blob"'
BLOB_MARK: Final = b'blob"'
"""Bytes of a payload without it have neither references nor media."""
_HASH: Final = re.compile(r"[0-9a-f]{64}")
_MEDIA_MARK: Final = b'"blob":{'
_ANY_MARK: Final = b'blob":{'
_STORED_REFERENCE: Final = re.compile(
    rb'"\$?blob":\{"mime":"(?:[^"\\]|\\.)*","sha256":"([0-9a-f]{64})","size":[0-9]+\}'
)


class BlobReader(Protocol):
    async def blob(self, tenant: str, thread_id: str, digest: str, /) -> tuple[str, bytes] | None: ...


def stored_blobs(reader: BlobReader, tenant: str, thread_id: str) -> Load:
    """Loads the blobs that a thread's events refer to."""
    return partial(_stored_blob, reader, tenant, thread_id)


async def _stored_blob(reader: BlobReader, tenant: str, thread_id: str, reference: Mapping[str, Any]) -> bytes | None:
    found = await reader.blob(tenant, thread_id, str(reference["sha256"]))
    return None if found is None else found[1]


def has_references(event: Event) -> bool:
    """Looked for in the bytes: most events have none."""
    return event.payload_bytes.find(_MARK) >= 0


async def with_blobs(event: Event, load: Load) -> Event:
    """The event with its large values in place."""
    return event.with_payload(await restored(event.payload, load)) if has_references(event) else event


def has_media(event: Event) -> bool:
    """Whether the payload has message parts whose content is a blob."""
    return event.payload_bytes.find(_MEDIA_MARK) >= 0


async def with_media(event: Event, load: Load) -> Event:
    """The event with the content of its message parts, `data` in base64, for readers that cannot ask for it. What is
    gone, or more than a reader may be sent, stays a reference."""
    parts, left = event.payload.get("parts"), MAX_MEDIA_BYTES
    if not isinstance(parts, list):
        return event
    filled: list[Any] = []
    for part in parts:
        reference = part.get("blob")
        if reference is not None and reference["size"] <= left and (data := await load(reference)) is not None:
            left -= len(data)
            part = part | {"data": b64encode(data).decode()}
        filled.append(part)
    return event.with_payload(event.payload | {"parts": filled})


async def restored(value: Any, load: Load) -> Any:
    """The value with the content of its references in their places, at any depth."""
    return await _Restoring(load).value(value)


class _Restoring:
    def __init__(self, load: Load) -> None:
        self._load, self._left = load, MAX_RESTORED_BYTES

    async def value(self, value: Any) -> Any:
        if isinstance(value, list):
            return [await self.value(item) for item in value]
        if not isinstance(value, dict):
            return value
        if (reference := reference_of(value)) is None:
            return {key: await self.value(item) for key, item in value.items()}
        if self._left <= 0:
            return value
        data = await self._load(reference)
        if data is None:
            return FORGOTTEN if reference["mime"] == SALTED else value
        if len(data) > self._left:
            return value
        self._left -= len(data)
        if reference["mime"] == SALTED:
            return unsalted(data)
        if reference["mime"].startswith("text/"):
            return data.decode(errors="replace")
        return await self.value(json.loads(data)) if data.find(_MARK) >= 0 else json.loads(data)


def reference_of(value: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Only an object that is nothing but a reference: a tool's excerpt names its blob beside other members."""
    reference = value.get("$blob")
    if len(value) != 1 or not isinstance(reference, dict):
        return None
    fits = isinstance(reference.get("sha256"), str) and isinstance(reference.get("mime"), str)
    return reference if fits else None


# -- which blobs a value needs ------------------------------------------------------------------------


def references(value: Any) -> Iterator[Mapping[str, Any]]:
    """Every reference in a value, at any depth, also one beside other members (a tool's excerpt, a message part).

    Only what names a hash: a client may send anything under these names.
    """
    if isinstance(value, Mapping):
        reference = value.get("$blob") or value.get("blob")
        if isinstance(reference, Mapping) and _HASH.fullmatch(str(reference.get("sha256"))):
            yield reference
        else:
            for item in value.values():
                yield from references(item)
    elif isinstance(value, list):
        for item in value:
            yield from references(item)


def references_of(event: Event) -> Iterator[Mapping[str, Any]]:
    """What an event's payload refers to. A payload that was damaged refers to nothing: verifying finds it."""
    if event.payload_bytes.find(_ANY_MARK) >= 0:
        with contextlib.suppress(json.JsonError):
            yield from references(event.payload)


def digests_inside(data: bytes | bytearray) -> list[str]:
    """Hashes of the blobs that a blob's content refers to: a large value may hold another one, stored apart.

    The recorder stores canonical JSON, in whose texts quotes are escaped, so that this finds references and nothing
    else without parsing. A text that looks like one is followed as well: better that than to miss one.
    """
    return [digest.decode() for digest in _STORED_REFERENCE.findall(data)] if len(data) <= MAX_RESTORED_BYTES else []
