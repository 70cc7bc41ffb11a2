"""A segment of a run to a client: as server-sent events while they are committed, or as one answer at its end.

Leaves to the dialects: what the frames say; to `wire`: following the thread and the client's connection.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import field
from typing import Any, Final, Protocol

import orjson

from app.core.errors import Failure
from app.core.value import mutable
from app.events.blobs import BLOB_MARK, Load, has_media, has_references, stored_blobs, with_blobs, with_media
from app.events.catalog.adapter import AdapterEvent
from app.events.catalog.model import ModelCompleted, ModelNegotiated, ModelRequested
from app.events.catalog.request import RequestCompleted, RequestQueued, RequestStarted
from app.events.catalog.thread import ThreadCreated
from app.events.envelope import Event
from app.events.follow import FellBehind, join
from app.events.hub import Subscription
from app.protocols.context import ServerContext
from app.protocols.dialects.openai_progress import progress_frame
from app.protocols.dialects.openai_segment import READ, SegmentReading
from app.protocols.http.errors import HttpProblem
from app.protocols.openai.errors import Refusal
from app.protocols.wire.connection import HttpConnection
from app.protocols.wire.follower import End
from app.protocols.wire.sse import COMMENT, EventStream, Following
from app.views.run import Run

_DELTA: Final = AdapterEvent.type
_COMPLETED: Final = RequestCompleted.type
QUIET: Final = frozenset(
    {
        ThreadCreated.type,
        RequestQueued.type,
        RequestStarted.type,
        ModelNegotiated.type,
        ModelRequested.type,
        ModelCompleted.type,
    }
)
"""What a chat stream has nothing to say about until something else happens."""


class FrameReading(Protocol):
    """What a stream needs of a dialect's reading."""

    ended: bool
    waiting_for_person: set[str]
    made: list[bytes]
    """Frames that nobody took yet."""

    def feed(self, event: Event) -> None: ...

    def feed_sibling(self, event: Event) -> None: ...

    def take(self) -> bytes: ...


@mutable(slots=True)
class Listening:
    """Who listens to which run, and what becomes of the run when the listener goes."""

    server: ServerContext
    tenant: str
    run: Run
    heard: Subscription | None = None
    """A subscription that is older than the run: it has every event of it, so nothing has to be read."""
    on_gone: Callable[[], Awaitable[Any]] | None = None
    include_events: bool = False
    subscription: Subscription = field(init=False)

    def __post_init__(self) -> None:
        self.subscription = self.heard or self.server.hub.subscribe(self.tenant, [self.run.thread_id])

    async def whole(self, event: Event) -> Event:
        return await whole_event(event, stored_blobs(self.server.reader, self.tenant, event.thread_id))


class SegmentFrames:
    """The frames of one segment. `error_frame` spells an end that is not in the log."""

    keep_alive = COMMENT

    def __init__(self, listening: Listening, reading: FrameReading, error_frame: Callable[[str, str], bytes]) -> None:
        self._listening, self._reading, self._error_frame = listening, reading, error_frame
        self._run_id, self._progress = listening.run.id, listening.include_events
        self._patience: asyncio.TimerHandle | None = None
        self._gave_up = False
        self.ended = False

    def of(self, event: Event, followed: bool, *, whole: bool = False) -> bytes | None:
        """`whole` says that its large values are in place."""
        if not followed or (event.type not in READ and not self._progress):
            return b""
        if event.type != _DELTA and not whole and event.payload_bytes.find(BLOB_MARK) >= 0 and _is_partial(event):
            return None
        reading, own = self._reading, event.run_id == self._run_id
        if own:
            reading.feed(event)
        else:
            reading.feed_sibling(event)
        made = reading.take() if reading.made else b""
        if self._progress and own and (frame := progress_frame(event, self._listening.run.agent)) is not None:
            made += frame
        if reading.waiting_for_person or self._patience is not None:
            self._limit_wait()
        self.ended = reading.ended
        return made

    async def load(self, event: Event, followed: bool) -> bytes:
        return (self.of(await self._listening.whole(event), followed, whole=True) if followed else None) or b""

    def closing(self, end: End, failure: Failure | None) -> bytes:
        if failure is not None:
            return self._error_frame(failure.code.lower(), failure.message)
        if end is End.OVERFLOWED:
            return self._error_frame("reader_too_slow", "the stream was read too slowly")
        if self._gave_up:
            return self._error_frame("run_waiting", f"the run {self._run_id} waits for a person; ask for it later")
        return self._error_frame("server_draining", "the server stops; the run goes on")

    def close(self) -> None:
        if self._patience is not None:
            self._patience.cancel()

    def _limit_wait(self) -> None:
        """While the run waits for a person the client waits too, but not for ever."""
        if self._patience is None:
            seconds = self._listening.server.settings.person_wait_seconds
            self._patience = asyncio.get_running_loop().call_later(seconds, self._give_up)
        elif not self._reading.waiting_for_person:
            self._patience.cancel()
            self._patience = None

    def _give_up(self) -> None:
        self._gave_up = True
        self._listening.subscription.close()


def segment_stream(
    listening: Listening,
    reading: FrameReading,
    error_frame: Callable[[str, str], bytes],
    headers: Mapping[str, str],
) -> EventStream:
    run, heard = listening.run, listening.heard is not None
    read = listening.server.reader.events
    following = Following(listening.subscription, read, run.thread_id, run.first_seq - 1, live=heard)
    return EventStream(following, SegmentFrames(listening, reading, error_frame), headers, on_gone=listening.on_gone)


async def whole_event(event: Event, load: Load) -> Event:
    """With its large values in place, and the media of an answer."""
    media = event.type == _COMPLETED and has_media(event)
    event = await with_blobs(event, load)
    return await with_media(event, load) if media else event


def _is_partial(event: Event) -> bool:
    """Whether a value was too large for it, or it has media; pieces of text never are."""
    return event.type != _DELTA and (has_references(event) or (event.type == _COMPLETED and has_media(event)))


async def _events(listening: Listening) -> AsyncIterator[Event]:
    """The thread's events from the run's first on, with their large values in place."""
    server, run = listening.server, listening.run
    batches = join(
        listening.subscription,
        server.reader.events,
        listening.tenant,
        run.thread_id,
        run.first_seq - 1,
        live=listening.heard is not None,
    )
    async for batch in batches:
        for event in batch:
            yield await listening.whole(event) if _is_partial(event) else event


async def wait_for(listening: Listening, reading: SegmentReading, connection: HttpConnection) -> bool:
    """Feeds the reading until its segment has ended. False when the client left; a person's turn is a refusal."""
    subscription, run_id = listening.subscription, listening.run.id
    connection.watch(subscription.close)
    try:
        async for event in _events(listening):
            read = reading.feed if event.run_id == run_id else reading.feed_sibling
            read(event)
            if reading.ended:
                return True
            if reading.waiting_for_person:
                message = f"the run {run_id} waits for a person; ask for it later"
                raise Refusal("RUN_WAITING", message, status=409, runId=run_id)
    except FellBehind:
        raise HttpProblem(Failure("QUEUE_OVERFLOW", "The answer could not be followed.", True)) from None
    finally:
        connection.unwatch()
        subscription.close()
    if connection.lost:
        if listening.on_gone is not None:
            await listening.on_gone()
        return False
    raise HttpProblem(Failure("NOT_READY", "The server stops; the run goes on.", True))


def sse_error(body: dict[str, Any]) -> bytes:
    return b"data: " + orjson.dumps(body) + b"\n\n"
