"""A reader of server-sent events for tests: frames as they arrive, from any cursor, cut off whenever a test likes."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass
from typing import Any

import httpx2

from app.core import json


@dataclass(frozen=True, slots=True)
class Frame:
    event: str
    data: Any
    id: int | None = None


def parse(block: bytes) -> Frame | None:
    """One frame without its empty line; None for a comment."""
    fields: dict[bytes, bytes] = {}
    for line in block.split(b"\n"):
        name, _, value = line.partition(b": ")
        if name:
            fields[name] = value
    if b"data" not in fields:
        return None
    id = fields.get(b"id")
    return Frame(fields[b"event"].decode(), json.loads(fields[b"data"]), None if id is None else int(id))


async def frames(answer: httpx2.Response) -> AsyncIterator[Frame]:
    async for block in blocks(answer):
        frame = parse(block)
        if frame is not None:
            yield frame


async def blocks(answer: httpx2.Response) -> AsyncIterator[bytes]:
    """What stands between empty lines, comments included; what was cut off in the middle is left out."""
    rest = b""
    async for chunk in answer.aiter_bytes():
        *whole, rest = (rest + chunk).split(b"\n\n")
        for block in whole:
            yield block


async def first_frame(port: int, path: str, last_id: int) -> Frame:
    """The first frame after that one, by a bare socket: a thousand of these are to be quick."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    try:
        writer.write(f"GET {path} HTTP/1.1\r\nhost: localhost\r\nlast-event-id: {last_id}\r\n\r\n".encode())
        head = await reader.readuntil(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 200"), head
        await reader.readuntil(b"\r\n")  # the size of the first chunk
        frame = parse((await reader.readuntil(b"\n\n"))[:-2])
        assert frame is not None
        return frame
    finally:
        writer.transport.abort()


async def read(
    client: httpx2.AsyncClient,
    path: str,
    last_id: int | None = None,
    *,
    at_most: int | None = None,
    begun: asyncio.Event | None = None,
) -> list[Frame]:
    """Frames until the stream ends, or until `at_most` have come. `begun` is set when the server has answered."""
    headers = {} if last_id is None else {"last-event-id": str(last_id)}
    found: list[Frame] = []
    async with client.stream("GET", path, headers=headers) as answer:
        assert answer.status_code == 200, await answer.aread()
        if begun is not None:
            begun.set()
        async for frame in frames(answer):
            found.append(frame)
            if len(found) == at_most:
                break
    return found
