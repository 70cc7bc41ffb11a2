"""A thread's own stream for LangGraph's clients: all its runs as they come, and changes of its state.

Leaves to the dialect: what the frames say; to `wire`: following the thread and the client's connection.
"""

from typing import Annotated, Any

from fastapi import APIRouter, Header, Query, Response

from app.core.errors import Failure
from app.events.blobs import stored_blobs, with_blobs
from app.events.envelope import Event
from app.protocols.context import ServerContext
from app.protocols.dialects.langgraph_thread_stream import THREAD_MODES, ThreadFrames
from app.protocols.http.caller import Caller
from app.protocols.http.lookups import existing_thread
from app.protocols.langgraph.errors import Declined
from app.protocols.langgraph.event_subscriptions import first_needed
from app.protocols.langgraph.run_streams import HEARTBEAT, SILENT_SECONDS, is_partial, parse_cursor
from app.protocols.langgraph.thread_reading import thread_values
from app.protocols.wire.follower import End
from app.protocols.wire.sse import EventStream, Following

LastEventId = Annotated[str | None, Header(max_length=64)]
Modes = Annotated[list[str] | None, Query(max_length=16)]


class WholeThread:
    """The frames of a thread, for the follower. They end with the connection only."""

    keep_alive = HEARTBEAT
    ended = False

    def __init__(self, server: ServerContext, tenant: str, thread_id: str, reading: ThreadFrames) -> None:
        self._load, self._reading = stored_blobs(server.reader, tenant, thread_id), reading

    def of(self, event: Event, followed: bool) -> bytes | None:
        if not followed:
            return b""
        return None if is_partial(event) else self._reading.frames(event)

    async def load(self, event: Event, followed: bool) -> bytes:
        return self._reading.frames(await with_blobs(event, self._load)) if followed else b""

    def closing(self, end: End, failure: Failure | None) -> bytes:
        """Nothing: a client comes back with its last id."""
        return b""

    def close(self) -> None: ...


def add_thread_stream(router: APIRouter, server: ServerContext) -> None:
    @router.get(
        "/threads/{thread_id}/stream",
        summary="Follow a thread, from now on or after the last frame",
        responses={200: {"content": {"text/event-stream": {"schema": {"type": "string"}}}}},
    )
    async def join_thread(
        thread_id: str, caller: Caller, stream_mode: Modes = None, last_event_id: LastEventId = None
    ) -> Response:
        modes = _modes(stream_mode)
        subscription = server.hub.subscribe(caller.tenant, [thread_id])
        try:
            thread = await existing_thread(server, caller, thread_id)
            after = (thread.last_seq, 2**31) if last_event_id is None else parse_cursor(last_event_id)
            # The last event that was sent may have more frames than its client got.
            first = await first_needed(server, caller.tenant, thread_id, max(0, min(after[0] - 1, thread.last_seq)))
            reading = ThreadFrames(await thread_values(server, caller.tenant, thread_id, first), modes, after)
        except BaseException:
            subscription.close()
            raise
        following = Following(subscription, server.reader.events, thread_id, first)
        frames = WholeThread(server, caller.tenant, thread_id, reading)
        return EventStream(following, frames, at_once=True, keep_alive_seconds=SILENT_SECONDS)


def _modes(given: list[str] | None) -> frozenset[str]:
    """As clients send them in an address: repeated, with commas, or none for those of the runs."""
    found: Any = {mode.strip(' "') for text in given or () for mode in text.strip("[]").split(",")} - {""}
    if unknown := found - THREAD_MODES:
        known = ", ".join(sorted(THREAD_MODES))
        raise Declined(
            f"stream_mode has {len(unknown)} mode(s) that a thread's stream does not have; there are {known}."
        )
    return frozenset(found) or frozenset({"run_modes"})
