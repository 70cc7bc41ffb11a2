"""Follows the run behind a call for its client: progress, questions to its user, and the result at the end.

A stream that is resumed sends what the one before would have sent after that event, and asks nothing twice. Leaves to
`wire`: following the thread.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from starlette.responses import Response

from app.core.errors import Failure
from app.core.json import JsonObject
from app.core.value import value
from app.events.blobs import restored, stored_blobs
from app.events.catalog.interrupt import InterruptRaised
from app.events.catalog.request import TERMINAL, RequestResumed, RequestSuspended
from app.events.envelope import Event
from app.events.follow import follow
from app.protocols.context import ServerContext
from app.protocols.dialects import mcp
from app.protocols.dialects.jsonrpc import (
    REFUSED,
    RequestId,
    RpcError,
    error_message,
    failure_data,
    request_message,
    result_message,
    sse_message,
)
from app.protocols.mcp.offer import Offered
from app.protocols.mcp.terms import ClientTerms
from app.protocols.wire.connection import HttpConnection
from app.protocols.wire.follower import End
from app.protocols.wire.sse import COMMENT, EventStream, Following, OneFrame
from app.views.interrupt import Interrupt
from app.views.run import Run

_PAUSES = frozenset({InterruptRaised.type, RequestSuspended.type})
_PAGE = 1000
RETRY_MS = 3000
"""After how long a client that lost its stream should come back."""


@value(frozen=True, slots=True)
class CallView:
    """Whose call it is, and what its client can take."""

    server: ServerContext
    tenant: str
    run: Run
    tool: Offered
    terms: ClientTerms
    request_id: RequestId
    token: str | int | None = None

    def with_result_type(self, result: JsonObject) -> JsonObject:
        return {"resultType": "complete", **result} if self.terms.stateless else result

    async def result(self, run: Run) -> JsonObject:
        """Of a run that has ended."""
        return self.with_result_type(await run_result(self.server, self.tenant, run, self.tool))

    async def questions(self) -> tuple[Run, list[Interrupt]]:
        """The run as it stands, and what its client's user can be asked."""
        run = await self.server.reader.run(self.tenant, self.run.id)
        assert run is not None, "the run of a call is there while its stream is"
        return run, await open_questions(self.server, self.tenant, run)

    def input_required(self, asked: list[Interrupt]) -> JsonObject:
        return {
            "resultType": "input_required",
            "inputRequests": mcp.input_requests(asked),
            "requestState": self.run.id,
        }


async def open_questions(server: ServerContext, tenant: str, run: Run) -> list[Interrupt]:
    found = [await server.reader.interrupt(tenant, interrupt_id) for interrupt_id in run.waiting_on]
    return [one for one in found if one is not None and one.status == "open" and one.kind in mcp.ASKABLE]


async def run_result(server: ServerContext, tenant: str, run: Run, tool: Offered | None) -> JsonObject:
    """`tool` is None when the workspace no longer has what was called: then there is only the text."""
    output = await restored(run.output, stored_blobs(server.reader, tenant, run.thread_id))
    made = [one for one in await server.reader.artifacts(tenant, run.thread_id) if one.run_id == run.id]
    return mcp.call_result(
        run,
        output,
        made,
        wrapped=run.tool is None and tool is not None,
        structured=tool is not None and tool.output is not None,
    )


class CallFrames:
    """The messages of one call's stream. `resumable` gives each an id that a client may come back with."""

    keep_alive = COMMENT

    def __init__(self, view: CallView, stop: Callable[[], None], sent: "Sent", *, resumable: bool) -> None:
        """`sent` is what the streams of the call have sent before."""
        self._view, self._stop, self._resumable = view, stop, resumable
        self._after, self._asked, self._paused = sent.seq, sent.asked, sent.paused
        self._raised = list(sent.raised)
        """The run's questions in the order of the log. The first `_asked` of them the client has been sent; it is due
        to be sent the first `_paused`."""
        self._patience: asyncio.TimerHandle | None = None
        self._gave_up = False
        self.ended = False

    def opening(self) -> bytes:
        """Before any event: where to come back to, for a client that can."""
        if not self._resumable:
            return b""
        return b"id: %b\nretry: %d\ndata: \n\n" % (self._event_id(self._after), RETRY_MS)

    def of(self, event: Event, followed: bool) -> bytes | None:
        if not followed or event.run_id != self._view.run.id:
            return b""
        if event.type == InterruptRaised.type:
            self._raised.append(event.payload["interruptId"])
        if event.type in TERMINAL or _is_pause(event):
            return None
        if self._patience is not None and event.type == RequestResumed.type:
            self._be_patient(False)
        return self._progress(event)

    async def load(self, event: Event, followed: bool) -> bytes:
        if not followed:
            return b""
        view = self._view
        run, asked = await view.questions()
        if event.type in TERMINAL:
            return self._last(await view.result(run), event.seq)
        self._paused = len(self._raised)
        return self._progress(event) + self.ask(run, asked, event.seq)

    async def finish(self, run: Run) -> bytes:
        """The result of a run that had ended before its stream began."""
        return self._last(await self._view.result(run), run.last_seq)

    def ask(self, run: Run, asked: list[Interrupt], seq: int) -> bytes:
        """What a run that waits means for its client. `asked` are the questions that are open."""
        view = self._view
        if run.status == "waiting":
            if view.terms.stateless and view.terms.elicits and asked:
                return self._last(view.input_required(asked), seq)
            self._be_patient(True)
        made: list[bytes] = []
        if view.terms.elicits and not view.terms.stateless:
            places = {one: n for n, one in enumerate(self._raised[: self._paused]) if n >= self._asked}
            for one in asked:
                if one.id in places:
                    self._asked = places[one.id] + 1
                    message = request_message(one.id, "elicitation/create", mcp.elicitation(one))
                    made.append(sse_message(message, self._id(seq)))
        self._asked = self._paused
        return b"".join(made)

    def closing(self, end: End, failure: Failure | None) -> bytes:
        view = self._view
        if self._gave_up:
            result = view.with_result_type(mcp.waiting_result(view.run))
            return sse_message(result_message(view.request_id, result), self._id(view.run.last_seq))
        if failure is None and self._resumable:
            return b""  # the client comes back by itself, with the id it saw last
        failure = failure or Failure("NOT_READY", "The stream ended; the run goes on.", True)
        error = RpcError(REFUSED, failure.message, failure_data(failure, mcp.run_meta(view.run)))
        return sse_message(error_message(view.request_id, error))

    def close(self) -> None:
        self._be_patient(False)

    def _progress(self, event: Event) -> bytes:
        token = self._view.token
        if token is None or (message := mcp.progress(token, event)) is None:
            return b""
        return sse_message(message, self._id(event.seq))

    def _last(self, result: JsonObject, seq: int) -> bytes:
        self.ended = True
        return sse_message(result_message(self._view.request_id, result), self._id(seq))

    def _id(self, seq: int) -> str | None:
        return self._event_id(seq).decode() if self._resumable else None

    def _event_id(self, seq: int) -> bytes:
        """In the middle of an event's questions it says how many have been asked."""
        part = b"" if self._asked == self._paused else b"-%d" % self._asked
        return b"%d%b.%b" % (seq, part, self._view.run.id.encode())

    def _be_patient(self, waits: bool) -> None:
        """While the run waits for a person the client waits too, but not for ever."""
        if waits and self._patience is None:
            seconds = self._view.server.settings.person_wait_seconds
            self._patience = asyncio.get_running_loop().call_later(seconds, self._give_up)
        elif not waits and self._patience is not None:
            self._patience.cancel()
            self._patience = None

    def _give_up(self) -> None:
        self._gave_up = True
        self._stop()


def _is_pause(event: Event) -> bool:
    """Whether the run may wait from this event on. A question of one branch waits until the others do."""
    if event.type == InterruptRaised.type:
        return not event.payload.get("background")
    return event.type == RequestSuspended.type


@value(frozen=True, slots=True)
class Sent:
    """What the streams of a call have sent up to an event, and of its questions how many."""

    seq: int
    raised: tuple[str, ...]
    asked: int
    paused: int
    ended: bool


async def sent_before(server: ServerContext, tenant: str, run: Run, seq: int, asked: int | None) -> Sent:
    """By the log, which says it of every stream. `asked` is None where all questions up to there were sent."""
    types = (InterruptRaised.type, RequestSuspended.type, *TERMINAL)
    raised: list[str] = []
    after, paused, ended = run.first_seq - 1, 0, False
    if run.started_at is None:
        return Sent(seq, (), 0, 0, run.terminal)
    while page := await server.reader.events_of(tenant, run.thread_id, types, after, seq, _PAGE):
        for event in page:
            if event.run_id != run.id:
                continue
            if event.type == InterruptRaised.type:
                raised.append(event.payload["interruptId"])
            ended = ended or event.type in TERMINAL
            if _is_pause(event):
                paused = len(raised)
        after = page[-1].seq
    return Sent(seq, tuple(raised), paused if asked is None else min(asked, paused), paused, ended)


@value(frozen=True, slots=True)
class EventPlace:
    """Where in a call's streams an event's id is: `SEQ.RUN`, or `SEQ-ASKED.RUN` between questions of one event."""

    seq: int
    asked: int | None
    run_id: str

    @classmethod
    def parse(cls, text: str) -> "EventPlace | None":
        """None for an id that is not ours."""
        place, _, run_id = text.partition(".")
        seq, dash, asked = place.partition("-")
        numbers = (seq, asked) if dash else (seq,)
        if not all(one.isascii() and one.isdigit() and len(one) <= 18 for one in numbers) or not 0 < len(run_id) <= 200:
            return None
        return cls(int(seq), int(asked) if dash else None, run_id)


async def call_stream(
    view: CallView,
    *,
    resumable: bool,
    sent: Sent | None = None,
    on_gone: Callable[[], Awaitable[Any]] | None = None,
) -> Response:
    """From the run as it stands on; or, of a call whose stream was cut, what comes after what was `sent`."""
    server, run = view.server, view.run
    resumed = sent is not None
    if sent is None:
        sent = await sent_before(server, view.tenant, run, run.last_seq, 0)
    subscription = server.hub.subscribe(view.tenant, [run.thread_id])
    frames = CallFrames(view, subscription.close, sent, resumable=resumable)
    first = frames.opening()
    if run.terminal and (sent.ended or not resumed):
        first += await frames.finish(run)
    elif run.waiting_on:
        first += frames.ask(run, await open_questions(server, view.tenant, run), sent.seq)
    if frames.ended:
        subscription.close()
        return OneFrame(first)
    following = Following(subscription, server.reader.events, run.thread_id, sent.seq)
    return EventStream(following, frames, first=first, on_gone=on_gone)


async def wait_for_result(view: CallView, connection: HttpConnection) -> JsonObject | None:
    """The result for a client that takes no stream; None when it left. A person is not waited for."""
    server, run = view.server, view.run
    if run.terminal:
        return await view.result(run)
    batches = follow(server.hub, server.reader.events, view.tenant, run.thread_id, run.first_seq - 1)
    work = asyncio.ensure_future(_until_it_rests(view, batches))

    def leave() -> None:
        work.cancel()

    connection.watch(leave)
    try:
        return await work
    except asyncio.CancelledError:
        if connection.lost:
            return None
        raise
    finally:
        connection.unwatch()
        work.cancel()


async def _until_it_rests(view: CallView, batches: Any) -> JsonObject:
    async for batch in batches:
        mine = {event.type for event in batch if event.run_id == view.run.id}
        if mine & TERMINAL:
            run, _ = await view.questions()
            return await view.result(run)
        if mine & _PAUSES:
            run, asked = await view.questions()
            if run.status == "waiting":
                if view.terms.elicits and view.terms.stateless and asked:
                    return view.input_required(asked)
                return view.with_result_type(mcp.waiting_result(run))
    failure = Failure("NOT_READY", "The server stops; the run goes on.", True)
    raise RpcError(REFUSED, failure.message, failure_data(failure, mcp.run_meta(view.run)))
