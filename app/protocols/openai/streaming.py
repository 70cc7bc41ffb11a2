"""A segment of a run to a client: as server-sent events while they are committed, or as one answer at its end.

One loop over the hub's subscription; events that arrive together leave in one write. Leaves to the dialects: what the
frames say; to `app.events.follow`: joining the stored and the new.
"""

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

import orjson
from starlette.responses import Response
from starlette.types import Message, Receive, Scope, Send

from app.core import json
from app.core.errors import Failure
from app.events.catalog import adapter
from app.events.catalog.model import ModelCompleted, ModelNegotiated, ModelRequested
from app.events.catalog.request import RequestQueued, RequestStarted
from app.events.catalog.thread import ThreadCreated
from app.events.envelope import Event
from app.events.follow import FellBehind, join
from app.events.hub import Subscription
from app.protocols.context import Server
from app.protocols.dialects.openai_progress import progress_frame
from app.protocols.dialects.openai_reading import Reading
from app.protocols.http.errors import Problem
from app.protocols.openai.errors import Refusal
from app.views.run import Run

COMMENT_SECONDS: Final = 15.0
_COMMENT: Final = b": still here\n\n"


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

    media_type = "text/event-stream"

    def __init__(
        self, listening: Listening, frames: Frames, apology: Callable[[str, str], bytes], headers: dict[str, str]
    ) -> None:
        super().__init__(None, 200, {"cache-control": "no-store", "x-accel-buffering": "no", **headers})
        del self.headers["content-length"]
        self._listening, self._frames, self._apology = listening, frames, apology

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        listening = self._listening
        connection = _Connection(listening.subscription, receive, send)
        await send({"type": "http.response.start", "status": 200, "headers": self.raw_headers})
        try:
            await self._tell(connection)
        finally:
            listening.subscription.close()
            connection.close()
        if connection.gone:
            if not self._frames.ended and listening.on_gone is not None:
                await listening.on_gone()
        elif not connection.finished:
            await send({"type": "http.response.body", "body": b"", "more_body": False})

    async def _tell(self, connection: "_Connection") -> None:
        listening, frames = self._listening, self._frames
        run_id, agent, extra = listening.run.id, listening.run.agent, listening.include_events
        try:
            async for batch in _events(listening):
                more: list[bytes] = []
                for event in batch:
                    if event.run_id != run_id:
                        frames.beside(event)
                        continue
                    frames.feed(event)
                    if extra and (frame := progress_frame(event, agent)) is not None:
                        more += [frames.take(), frame]
                written = frames.take()
                if more:
                    written = b"".join([*more, written])
                if written:
                    await connection.write(written, last=frames.ended)
                if frames.ended or connection.gone:
                    return
                if connection.patience is None and frames.people:
                    connection.wait_for_people(listening.server.settings.person_wait_seconds)
                elif connection.patience is not None and not frames.people:
                    connection.stop_waiting()
        except FellBehind:
            await connection.write(self._apology("reader_too_slow", "the stream was read too slowly"))
            return
        if connection.gone:
            return
        if connection.gave_up:
            message = f"the run {run_id} waits for a person; ask for it later"
            await connection.write(self._apology("run_waiting", message))
        else:
            await connection.write(self._apology("server_draining", "the server stops; the run goes on"))


class _Connection:
    """The client's end: knows when it is gone, keeps it open with comments, and loses patience when told to."""

    def __init__(self, subscription: Subscription, receive: Receive, send: Send) -> None:
        self._subscription, self._send = subscription, send
        self._loop = asyncio.get_running_loop()
        self._wrote_at = self._loop.time()
        self._watching = asyncio.ensure_future(_gone(receive))
        self._watching.add_done_callback(self._left)
        self._timer = self._loop.call_later(COMMENT_SECONDS, self._comment)
        self._commenting: asyncio.Future[None] | None = None
        self.patience: asyncio.TimerHandle | None = None
        self.gone = self.gave_up = self.finished = False

    async def write(self, data: bytes, *, last: bool = False) -> None:
        """`last` ends the answer with the same write."""
        self._wrote_at = self._loop.time()
        self.finished = last
        await self._send({"type": "http.response.body", "body": data, "more_body": not last})

    def wait_for_people(self, seconds: float) -> None:
        self.patience = self._loop.call_later(seconds, self._give_up)

    def stop_waiting(self) -> None:
        assert self.patience is not None
        self.patience.cancel()
        self.patience = None

    def close(self) -> None:
        self._watching.remove_done_callback(self._left)
        self._watching.cancel()
        self._timer.cancel()
        if self.patience is not None:
            self.patience.cancel()

    def _left(self, _watching: "asyncio.Future[None]") -> None:
        self.gone = True
        self._subscription.close()

    def _give_up(self) -> None:
        self.gave_up = True
        self._subscription.close()

    def _comment(self) -> None:
        idle = self._loop.time() - self._wrote_at
        if idle >= COMMENT_SECONDS - 1:
            self._commenting = asyncio.ensure_future(self.write(_COMMENT))
        self._timer = self._loop.call_later(COMMENT_SECONDS, self._comment)


async def _gone(receive: Receive) -> None:
    while True:
        message: Message = await receive()
        if message["type"] == "http.disconnect":
            return


async def _events(listening: Listening) -> Any:
    """The run's batches; large values are put back where they left their payloads."""
    server, tenant, run = listening.server, listening.tenant, listening.run
    after = run.first_seq - 1
    told = join(
        listening.subscription, server.reader.events, tenant, run.thread_id, after, live=listening.heard is not None
    )
    async for batch in told:
        for index, event in enumerate(batch):
            if event.type != adapter.AdapterEvent.type and b'"$blob"' in event.payload_bytes:
                batch[index] = await whole(server, tenant, event)
        yield batch


async def wait_for(listening: Listening, reading: Reading, receive: Receive | None) -> bool:
    """Feeds the reading until its segment has ended. False when the client left; a person's turn is a refusal."""
    subscription = listening.subscription
    watching = None if receive is None else asyncio.ensure_future(_gone(receive))
    if watching is not None:
        watching.add_done_callback(lambda _: subscription.close())
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
        subscription.close()
        left = watching is not None and watching.done() and not watching.cancelled()
        if watching is not None:
            watching.cancel()
    if left:
        if listening.on_gone is not None:
            await listening.on_gone()
        return False
    raise Problem(Failure("NOT_READY", "the server stops; the run goes on", True))


async def whole(server: Server, tenant: str, event: Event) -> Event:
    """The event with its large values in place."""
    payload = await _inflated(server, tenant, event.thread_id, event.payload)
    return Event(
        event.id, tenant, event.thread_id, event.run_id, event.seq, event.run_seq, event.type, event.actor, event.at,
        event.payload_bytes, event.parent_id, event.prev_hash, event.hash, payload,
    )  # fmt: skip


async def _inflated(server: Server, tenant: str, thread_id: str, value: Any) -> Any:
    if isinstance(value, dict):
        blob = value.get("$blob")
        if isinstance(blob, dict) and isinstance(digest := blob.get("sha256"), str):
            found = await server.reader.blob(tenant, thread_id, digest)
            if found is None:
                return value
            mime, data = found
            return data.decode(errors="replace") if mime.startswith("text/") else json.loads(data)
        return {key: await _inflated(server, tenant, thread_id, item) for key, item in value.items()}
    if isinstance(value, list):
        return [await _inflated(server, tenant, thread_id, item) for item in value]
    return value


def sse_error(body: dict[str, Any]) -> bytes:
    return b"data: " + orjson.dumps(body) + b"\n\n"
