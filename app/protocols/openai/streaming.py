"""A segment of a run to a client: as server-sent events while they are committed, or as one answer at its end.

Events that arrive together leave in one write, straight to the connection. Leaves to the dialects: what the frames say;
to `events.follow`: reading what is stored; to `http.connection`: the client's end.
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

import orjson
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from app.core.errors import Failure
from app.events.blobs import has_references, stored_blobs, with_blobs
from app.events.catalog.adapter import AdapterEvent
from app.events.catalog.model import ModelCompleted, ModelNegotiated, ModelRequested
from app.events.catalog.request import RequestQueued, RequestStarted
from app.events.catalog.thread import ThreadCreated
from app.events.envelope import Event
from app.events.follow import FellBehind, backfill, join
from app.events.hub import Subscription
from app.protocols.auth.access import LOOK_SECONDS
from app.protocols.context import Server
from app.protocols.dialects.openai_progress import progress_frame
from app.protocols.dialects.openai_reading import Reading
from app.protocols.http.connection import Line, line_of
from app.protocols.http.errors import Problem
from app.protocols.openai.errors import Refusal
from app.views.run import Run

HEAD_SECONDS: Final = 0.25
"""How long an answer's head waits for the first frame, to leave with it; most models take longer to say a word."""
COMMENT_SECONDS: Final = 15.0
"""Proxies close what is silent."""
_TICK_SECONDS: Final = 5.0
_COMMENT: Final = b": still here\n\n"
_DELTA: Final = AdapterEvent.type


class Frames(Protocol):
    """What a stream needs of a dialect's reading."""

    ended: bool
    people: set[str]

    def feed(self, event: Event) -> None: ...

    def beside(self, event: Event) -> None: ...

    def take(self) -> bytes: ...


@dataclass(slots=True)
class Listening:
    """Who listens to which run, and what becomes of the run when the listener goes."""

    server: Server
    tenant: str
    run: Run
    heard: Subscription | None = None
    """A subscription that is older than the run: it was told everything, so nothing has to be read."""
    on_gone: Callable[[], Awaitable[Any]] | None = None
    include_events: bool = False
    subscription: Subscription = field(init=False)

    def __post_init__(self) -> None:
        self.subscription = self.heard or self.server.hub.subscribe(self.tenant, [self.run.thread_id])


QUIET: Final = frozenset(
    {ThreadCreated.type, RequestQueued.type, RequestStarted.type, ModelNegotiated.type, ModelRequested.type,
     ModelCompleted.type}
)  # fmt: skip
"""What a chat stream has nothing to say about until something else happens."""


class EventStream(Response):
    """The segment as server-sent events. `apology` spells an end that is not in the log."""

    def __init__(
        self, listening: Listening, frames: Frames, apology: Callable[[str, str], bytes], headers: dict[str, str]
    ) -> None:
        # Not the framework's: it would look for a body's length and type. What every stream says, its line adds.
        self.status_code, self.background = 200, None
        self.raw_headers = [(name.encode(), value.encode("latin-1")) for name, value in headers.items()]
        self._listening, self._frames, self._apology = listening, frames, apology

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        listening, line = self._listening, line_of(scope)
        line.open(self.raw_headers)
        telling = _Telling(listening, self._frames, line)
        try:
            await telling.tell()
        finally:
            telling.close()
        if (reason := telling.cut_off) is not None:
            line.write(self._apology(*reason), last=True)
        elif line.lost:
            if not self._frames.ended and listening.on_gone is not None:
                await listening.on_gone()
        elif not self._frames.ended:
            line.write(b"", last=True)  # the credentials ended, and with them what there is to say


class _Telling:
    """Passes events on where they arrive: no task is woken for them. It only waits for what takes time: the store, a
    slow reader of many pages, a look at the client's credentials, the end."""

    def __init__(self, listening: Listening, frames: Frames, line: Line) -> None:
        self._listening, self._frames, self._line = listening, frames, line
        self._subscription, self._run = listening.subscription, listening.run
        self._last = listening.run.first_seq - 1
        self._behind = listening.heard is None
        """Something has to be read from the store before anything else can be told."""
        self._loop = asyncio.get_running_loop()
        self._waiting: asyncio.Future[None] | None = None
        self._due = False
        self._wrote_at = self._looked_at = self._loop.time()
        self._welcome, self._must_look = True, False
        self._patience: asyncio.TimerHandle | None = None
        self._gave_up = False
        self._timer = self._loop.call_later(HEAD_SECONDS, self._tick)
        line.watch(self._news)
        line.on_room = self._subscription.on_news = self._news

    def close(self) -> None:
        self._timer.cancel()
        if self._patience is not None:
            self._patience.cancel()
        self._line.on_lost = self._line.on_room = self._subscription.on_news = None
        self._subscription.close()

    @property
    def cut_off(self) -> tuple[str, str] | None:
        """Why the segment was not told to its end, to a client that is still there and may know."""
        if self._frames.ended or self._line.lost or not self._welcome:
            return None
        if self._subscription.overflowed:
            return "reader_too_slow", "the stream was read too slowly"
        if self._gave_up:
            return "run_waiting", f"the run {self._run.id} waits for a person; ask for it later"
        return "server_draining", "the server stops; the run goes on"

    # -- the task ------------------------------------------------------------------------------------

    async def tell(self) -> None:
        """Until the segment, the client or the server has come to its end."""
        while not self._over:
            if self._behind:
                await self._catch_up()
            elif self._must_look:
                await self._look()
            else:
                self._waiting = waiting = self._loop.create_future()
                if self._subscription.has_news:
                    self._arrived()
                await waiting

    @property
    def _over(self) -> bool:
        subscription = self._subscription
        return (
            self._frames.ended or self._line.lost or not self._welcome or subscription.closed or subscription.overflowed
        )

    async def _look(self) -> None:
        assert self._line.still_welcome is not None
        self._welcome = await self._line.still_welcome()
        self._looked_at, self._must_look = self._loop.time(), False

    async def _catch_up(self) -> None:
        """Pages of the store, until there is nothing that is only there. Large values are put back in their places."""
        server, tenant = self._listening.server, self._listening.tenant
        stored = backfill(self._subscription, server.reader.events, tenant, self._run.thread_id, self._last)
        async with contextlib.aclosing(stored) as pages:
            async for page in pages:
                self._tell([await whole(server, tenant, event) if _is_partial(event) else event for event in page])
                await self._line.room()
                if self._frames.ended or self._line.lost:
                    return
        self._behind = False

    # -- where events arrive -------------------------------------------------------------------------

    def _news(self) -> None:
        """Of the hub and of the line. What is published together is passed on together."""
        if not self._due:
            self._due = True
            self._loop.call_soon(self._arrived)

    def _arrived(self) -> None:
        self._due = False
        waiting = self._waiting
        if waiting is None or waiting.done():
            return  # the task is busy, and looks for itself what is there
        try:
            if self._line.has_room and not self._must_look:
                self._pass_on()
        except Exception as error:
            waiting.set_exception(error)
        else:
            if self._over or self._behind or self._must_look:
                waiting.set_result(None)

    def _pass_on(self) -> None:
        fresh, last, thread_id = [], self._last, self._run.thread_id
        for event in self._subscription.take():
            # Global news of other threads comes along.
            if event.thread_id == thread_id and event.seq > last:
                last += 1
                if event.seq != last or _is_partial(event):
                    # Another replica wrote in between and its news may come late, or a value is stored elsewhere.
                    self._behind = True
                    break
                fresh.append(event)
        if fresh:
            self._tell(fresh)

    def _tell(self, events: list[Event]) -> None:
        frames, run = self._frames, self._run
        made: list[bytes] = []
        for event in events:
            if event.run_id != run.id:
                frames.beside(event)
                continue
            frames.feed(event)
            if self._listening.include_events and (frame := progress_frame(event, run.agent)) is not None:
                made += (frames.take(), frame)
        self._last = events[-1].seq
        written = frames.take()
        if made:
            written = b"".join([*made, written])
        if written or frames.ended:
            self._wrote_at = self._loop.time()
            self._line.write(written, last=frames.ended)
        if frames.people or self._patience is not None:
            self._mind_people()

    # -- time ----------------------------------------------------------------------------------------

    def _mind_people(self) -> None:
        """While a person is awaited the client waits too, but not for ever."""
        if self._patience is None:
            seconds = self._listening.server.settings.person_wait_seconds
            self._patience = self._loop.call_later(seconds, self._give_up)
        elif not self._frames.people:
            self._patience.cancel()
            self._patience = None

    def _give_up(self) -> None:
        self._gave_up = True
        self._subscription.close()

    def _tick(self) -> None:
        """What is not answered at once gets its head; what is silent stays open; credentials are looked at."""
        line, now = self._line, self._loop.time()
        if not line.begun:
            line.write(b"")
        elif now - self._wrote_at > COMMENT_SECONDS - _TICK_SECONDS and line.has_room:
            self._wrote_at = now
            line.write(_COMMENT)
        if line.still_welcome is not None and now - self._looked_at >= LOOK_SECONDS:
            self._must_look = True
            self._news()
        self._timer = self._loop.call_later(_TICK_SECONDS, self._tick)


def _is_partial(event: Event) -> bool:
    """Whether a value was too large for it; pieces of text never are."""
    return event.type != _DELTA and has_references(event)


async def whole(server: Server, tenant: str, event: Event) -> Event:
    """The event with its large values in place."""
    return await with_blobs(event, stored_blobs(server.reader, tenant, event.thread_id))


async def _events(listening: Listening) -> Any:
    """The run's batches; large values are put back where they left their payloads."""
    server, tenant, run = listening.server, listening.tenant, listening.run
    after = run.first_seq - 1
    told = join(
        listening.subscription, server.reader.events, tenant, run.thread_id, after, live=listening.heard is not None
    )
    async for batch in told:
        yield [await whole(server, tenant, event) if _is_partial(event) else event for event in batch]


async def wait_for(listening: Listening, reading: Reading, line: Line) -> bool:
    """Feeds the reading until its segment has ended. False when the client left; a person's turn is a refusal."""
    subscription = listening.subscription
    line.watch(subscription.close)
    try:
        async for batch in _events(listening):
            for event in batch:
                read = reading.feed if event.run_id == listening.run.id else reading.beside
                read(event)
            if reading.ended:
                return True
            if reading.people:
                run_id = listening.run.id
                message = f"the run {run_id} waits for a person; ask for it later"
                raise Refusal("RUN_WAITING", message, status=409, runId=run_id)
    except FellBehind:
        raise Problem(Failure("QUEUE_OVERFLOW", "the answer could not be followed", True)) from None
    finally:
        line.on_lost = None
        subscription.close()
    if line.lost:
        if listening.on_gone is not None:
            await listening.on_gone()
        return False
    raise Problem(Failure("NOT_READY", "the server stops; the run goes on", True))


def sse_error(body: dict[str, Any]) -> bytes:
    return b"data: " + orjson.dumps(body) + b"\n\n"
