"""A run to a LangGraph client: as server-sent events while they are committed, or as its values at the end.

Leaves to the dialects: what the frames say; to `wire`: following the thread and the client's connection.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, Final

from starlette.responses import StreamingResponse

from app.core import json
from app.core.errors import Failure, HoldfastError
from app.core.principal import Principal
from app.events.blobs import has_references, stored_blobs, with_blobs
from app.events.catalog.adapter import AdapterEvent
from app.events.envelope import Event
from app.events.follow import join
from app.events.hub import Subscription
from app.protocols.context import ServerContext
from app.protocols.dialects.langgraph_segments import segment_id
from app.protocols.dialects.langgraph_stream import BEGINNING, Cursor, RunFrames
from app.protocols.dialects.langgraph_thread_stream import wanted_of
from app.protocols.http.answers import header_text
from app.protocols.langgraph.errors import Declined
from app.protocols.langgraph.thread_reading import thread_values
from app.protocols.wire.follower import End
from app.protocols.wire.sse import EventStream, Following
from app.views.run import Run

HEARTBEAT_SECONDS: Final = 5.0
"""How often a stream that is silent gets a comment, and an answer that is awaited a blank line."""
SILENT_SECONDS: Final = 1.5 * HEARTBEAT_SECONDS
"""How long a stream may be silent at most: it is looked at every 5 seconds, and one that was just written to waits."""
HEARTBEAT: Final = b": still here\n"
"""Without a blank line: their decoder for JavaScript takes that for an event as soon as there was an id."""
_DELTA: Final = AdapterEvent.type
_leaving: Final[set[asyncio.Task[Any]]] = set()
"""Cancels of runs whose clients have left; held until they are done."""

OnGone = Callable[[], Awaitable[Any]]


class GraphFrames:
    """The frames of a reading, for the follower."""

    keep_alive = HEARTBEAT

    def __init__(self, server: ServerContext, tenant: str, thread_id: str, reading: RunFrames) -> None:
        self._load, self._reading = stored_blobs(server.reader, tenant, thread_id), reading
        self.ended = False

    def of(self, event: Event, followed: bool) -> bytes | None:
        if not followed:
            return b""
        return None if is_partial(event) else self._read(event)

    async def load(self, event: Event, followed: bool) -> bytes:
        return self._read(await with_blobs(event, self._load)) if followed else b""

    def closing(self, end: End, failure: Failure | None) -> bytes:
        """Nothing: a client whose stream ends early asks for the run, and comes back with its last id."""
        return b""

    def close(self) -> None: ...

    def _read(self, event: Event) -> bytes:
        self._reading.feed(event)
        self.ended = self._reading.ended
        return self._reading.take()


def is_partial(event: Event) -> bool:
    """Whether a value was too large for it; pieces of text never are."""
    return event.type != _DELTA and has_references(event)


def parse_cursor(given: str | None) -> Cursor:
    """`seq.part`, or `seq` for all of an event's; `-1` is before everything."""
    if given is None or given in ("", "-1", "-"):
        return BEGINNING
    seq, dot, part = given.partition(".")
    numbers = seq + (part if dot else "0")
    if len(given) > 40 or not numbers.isascii() or not numbers.isdigit() or not seq or (dot and not part):
        raise Declined("Last-Event-ID is none of this stream's ids.", code="CURSOR_INVALID")
    return int(seq), int(part) if dot else 2**31


def modes_of(run: Run) -> tuple[frozenset[str], bool]:
    """What the client that started the run wanted to be sent."""
    return wanted_of(run.labels)


class RunListening:
    """Who listens to which segment of a run."""

    def __init__(
        self,
        server: ServerContext,
        caller: Principal,
        run: Run,
        number: int,
        heard: Subscription | None = None,
        on_gone: OnGone | None = None,
    ) -> None:
        self.server, self.tenant, self.run, self.number = server, caller.tenant, run, number
        self.heard, self.on_gone = heard, on_gone
        self.subscription = heard or server.hub.subscribe(caller.tenant, [run.thread_id])

    async def reading(self, modes: frozenset[str], *, subgraphs: bool = False, after: Cursor = BEGINNING) -> RunFrames:
        try:
            values = await thread_values(self.server, self.tenant, self.run.thread_id, self.run.first_seq - 1)
        except BaseException:
            self.subscription.close()
            raise
        return RunFrames(values, self.run.id, self.number, modes, subgraphs=subgraphs, after=after)

    def headers(self, what: str, query: str = "") -> dict[str, str]:
        """Where the run is, and where its stream or its end can be asked for again."""
        thread, named = header_text(self.run.thread_id), header_text(segment_id(self.run.id, self.number))
        place = f"/threads/{thread}/runs/{named}"
        return {"Content-Location": place, "Location": f"{place}/{what}{query}"}


async def run_stream(
    listening: RunListening, modes: frozenset[str], *, subgraphs: bool, after: Cursor = BEGINNING
) -> EventStream:
    reading = await listening.reading(modes, subgraphs=subgraphs, after=after)
    run, server = listening.run, listening.server
    first = run.first_seq - 1
    following = Following(
        listening.subscription, server.reader.events, run.thread_id, first, live=listening.heard is not None
    )
    frames = GraphFrames(server, listening.tenant, run.thread_id, reading)
    query = "?" + "&".join(f"stream_mode={mode}" for mode in sorted(modes))
    query += "&stream_subgraphs=true" if subgraphs else ""
    return EventStream(
        following,
        frames,
        listening.headers("stream", query),
        at_once=True,
        on_gone=listening.on_gone,
        keep_alive_seconds=SILENT_SECONDS,
    )


async def run_values(listening: RunListening) -> dict[str, Any]:
    """What `wait` and `join` answer: the values at the end, with what went wrong or is asked."""
    reading = await listening.reading(frozenset())
    run, subscription = listening.run, listening.subscription
    load = stored_blobs(listening.server.reader, listening.tenant, run.thread_id)
    read, live = listening.server.reader.events, listening.heard is not None
    try:
        async for batch in join(subscription, read, listening.tenant, run.thread_id, run.first_seq - 1, live=live):
            for event in batch:
                reading.feed(await with_blobs(event, load) if is_partial(event) else event)
                reading.take()
                if reading.ended:
                    return {"__error__": reading.error} if reading.error is not None else reading.current_values()
    finally:
        subscription.close()
    raise HoldfastError("NOT_READY", "The server stops; the run goes on.", retryable=True)


def awaited(listening: RunListening) -> StreamingResponse:
    """The values when the run has come to its end; blank lines meanwhile."""
    return StreamingResponse(_padded(listening), 200, listening.headers("join"), "application/json")


async def _padded(listening: RunListening) -> AsyncIterator[bytes]:
    ending = asyncio.ensure_future(run_values(listening))
    try:
        while True:
            done, _ = await asyncio.wait({ending}, timeout=HEARTBEAT_SECONDS)
            if done:
                yield json.dumps(ending.result())
                return
            yield b"\n"
    finally:
        if not ending.done():
            ending.cancel()
            if listening.on_gone is not None:
                leaving = asyncio.ensure_future(listening.on_gone())
                _leaving.add(leaving)
                leaving.add_done_callback(_leaving.discard)
