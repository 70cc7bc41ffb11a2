"""Subscriptions of the second LangGraph protocol: read from a request, and followed for one client.

Leaves to the dialect: what the frames say; to `wire`: following the thread and the client's connection.
"""

from collections.abc import Callable, Sequence
from typing import Any, Final

import orjson

from app.core.errors import Failure
from app.core.json import JsonObject
from app.events.blobs import stored_blobs, with_blobs
from app.events.envelope import Event
from app.protocols.context import ServerContext
from app.protocols.dialects.langgraph_events import CHANNELS, CUSTOM, ChannelFilter, ThreadEvents
from app.protocols.http.body import MAX_SEQ
from app.protocols.langgraph.errors import Declined
from app.protocols.langgraph.run_streams import HEARTBEAT, is_partial
from app.protocols.langgraph.thread_reading import thread_values
from app.protocols.wire.follower import End
from app.protocols.wire.websocket import text_frame

MAX_CHANNELS: Final = 64
MAX_NAMESPACES: Final = 64
MAX_SEGMENT: Final = 300
_RUNS: Final = 1000
"""Runs of a thread that may be under way at once: more than its queue holds."""

Spell = Callable[[JsonObject], bytes]


def read_filter(body: JsonObject) -> ChannelFilter:
    channels = body.get("channels")
    if not isinstance(channels, list) or not 0 < len(channels) <= MAX_CHANNELS:
        raise Declined(f"channels must be a list of 1 to {MAX_CHANNELS} channels.", status=400)
    for channel in channels:
        named = isinstance(channel, str) and len(channel) <= MAX_SEGMENT
        if not named or not (channel in CHANNELS or (channel.startswith(CUSTOM) and len(channel) > len(CUSTOM))):
            known = ", ".join(sorted(CHANNELS))
            raise Declined(f"channels has one that there is not; there are {known} and custom:NAME.", status=400)
    return ChannelFilter(frozenset(channels), _namespaces(body), _number(body, "depth"), _number(body, "since") or 0)


def _namespaces(body: JsonObject) -> tuple[tuple[str, ...], ...] | None:
    given = body.get("namespaces")
    if given is None:
        return None
    fits = isinstance(given, list) and len(given) <= MAX_NAMESPACES
    if not fits or not all(isinstance(one, list) and len(one) <= MAX_NAMESPACES for one in given):
        raise Declined(f"namespaces must be a list of at most {MAX_NAMESPACES} lists of texts.", status=400)
    if not all(isinstance(part, str) and len(part) <= MAX_SEGMENT for one in given for part in one):
        raise Declined("A namespace must be a list of texts.", status=400)
    return tuple(tuple(one) for one in given)


def _number(body: JsonObject, name: str) -> int | None:
    given: Any = body.get(name)
    if given is None:
        return None
    if not isinstance(given, int) or isinstance(given, bool) or not 0 <= given <= MAX_SEQ:
        raise Declined(f"{name} must be a whole number.", status=400)
    return given


async def first_needed(server: ServerContext, tenant: str, thread_id: str, since: int) -> int:
    """The `seq` after which a reading must begin to know what was under way at `since`."""
    if since <= 0:
        return 0
    runs = await server.reader.root_runs(tenant, thread_id, since + 1, _RUNS)
    return min([first - 1 for first, last in runs if last > since], default=since)


class SubscribedFrames:
    """The frames of a thread for one client, for the follower."""

    ended = False

    def __init__(self, server: ServerContext, tenant: str, thread_id: str, *, socket: bool) -> None:
        self._server, self._tenant, self._thread_id = server, tenant, thread_id
        self._load = stored_blobs(server.reader, tenant, thread_id)
        self._spell: Spell = _as_message if socket else _as_event
        self.keep_alive = b"" if socket else HEARTBEAT
        self._reading: ThreadEvents | None = None
        self.seen = 0
        """The newest event that was read."""

    async def begin(self, filters: Sequence[ChannelFilter]) -> int:
        """Reads for these filters from now on; answers the cursor to follow the thread from."""
        since = min((one.since for one in filters), default=0)
        first = await first_needed(self._server, self._tenant, self._thread_id, since)
        values = await thread_values(self._server, self._tenant, self._thread_id, first)
        self._reading = ThreadEvents(values, filters)
        return first

    def of(self, event: Event, followed: bool) -> bytes | None:
        if not followed:
            return b""
        return None if is_partial(event) else self._read(event)

    async def load(self, event: Event, followed: bool) -> bytes:
        return self._read(await with_blobs(event, self._load)) if followed else b""

    def closing(self, end: End, failure: Failure | None) -> bytes:
        """Nothing: the client comes back with the last `seq` it saw."""
        return b""

    def close(self) -> None: ...

    def _read(self, event: Event) -> bytes:
        self.seen = event.seq
        if self._reading is None:
            return b""
        return b"".join(map(self._spell, self._reading.frames(event)))


def _as_event(frame: JsonObject) -> bytes:
    named = b"id: %d\n" % frame["seq"] if "seq" in frame else b""
    return named + b"event: %b\ndata: %b\n\n" % (frame["method"].encode(), orjson.dumps(frame))


def _as_message(frame: JsonObject) -> bytes:
    return text_frame(orjson.dumps(frame))
