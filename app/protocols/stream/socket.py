"""`/api/stream`: one websocket, any threads of its tenant, live or from a cursor on.

The socket reads its client's commands and says goodbye; a follower writes the events. A reader that falls behind is
closed with 1013 and its last `seq`.
"""

import asyncio
import contextlib
from collections.abc import Callable, Mapping
from typing import Final

from fastapi import WebSocket, WebSocketDisconnect

from app.core import json
from app.core.json import JsonObject
from app.core.principal import Principal
from app.events.envelope import Event
from app.events.ports import StoreError
from app.protocols.auth.permissions import may_follow
from app.protocols.context import ServerContext
from app.protocols.dialects import stable_harness
from app.protocols.dialects.lime import ui_event
from app.protocols.dialects.lime_source import Lineage
from app.protocols.dialects.stable_harness import stable_event
from app.protocols.http.lineages import Lineages
from app.protocols.stream import commands, frames
from app.protocols.stream.commands import Cursor
from app.protocols.stream.frame_cache import FrameCache
from app.protocols.stream.frames import EventFrames, Part, Types
from app.protocols.wire.asgi import AsgiSocket
from app.protocols.wire.connection import CONNECTION, Connection
from app.protocols.wire.follower import End, ThreadFollower
from app.protocols.wire.websocket import text_frame
from app.runtime.intake.rejection import SYSTEM_THREADS

TRY_AGAIN_LATER: Final = 1013
CODES: Final = {End.OVERFLOWED: TRY_AGAIN_LATER, End.DRAINED: 1012, End.REVOKED: 4401}
CLOSE_SECONDS: Final = 5.0
"""How long a peer may take to read that it is closed; then its connection is dropped."""
STALL_SECONDS: Final = 30.0
"""How long a socket may be without room; mostly its queue overflows before, or it answers no ping."""


class SocketFrames:
    """The frames that one socket's filter lets through."""

    ended = False
    keep_alive = b""  # the protocol pings by itself

    def __init__(self, cache: FrameCache) -> None:
        self._cache = cache
        self.types: Types | None = None
        self.filtered = False
        """Whether it named threads: of the others it gets only what is for everybody."""
        self.parts: dict[str, tuple[int, int]] = {}
        """Thread to a `seq` and the last part of it that the client has: it was cut off in the middle of an event."""

    def of(self, event: Event, followed: bool) -> bytes | None:
        made: EventFrames | None = event.spelled or self._cache.cached(event)
        return None if made is None else self._select(event, made, followed)

    async def load(self, event: Event, followed: bool) -> bytes:
        return self._select(event, await self._cache.frames(event), followed)

    def _select(self, event: Event, made: EventFrames, followed: bool) -> bytes:
        if followed:
            seq, part = self.parts.get(event.thread_id, (0, 0)) if self.parts else (0, 0)
            if seq == event.seq:
                del self.parts[event.thread_id]
                return made.after(part, self.types)
            return made.select(self.types, False)
        if event.thread_id.startswith(SYSTEM_THREADS) and not frames.is_global(event):
            return b""
        return made.select(self.types, self.filtered)


Spelling = Callable[[Event, Lineage | None], tuple[str, JsonObject]]
"""An event in another dialect: the type that filters compare, and the frame."""


def _stable_harness(event: Event, line: Lineage | None) -> tuple[str, JsonObject]:
    made = stable_event(event, None if line is None else line.name)
    return event.type, made | {"threadId": None if frames.is_global(event) else event.thread_id}


def _lime(event: Event, line: Lineage | None) -> tuple[str, JsonObject]:
    made = ui_event(event, line, event.seq)
    if frames.is_global(event):
        del made["threadId"]  # in that standard an id is there or not, and never null
    return made["eventClass"], made | {"type": made["eventClass"], "seq": event.seq}


DIALECTS: Final[dict[str, Spelling]] = {stable_harness.NAME: _stable_harness, "lime": _lime}


class DialectSocketFrames(SocketFrames):
    """The same events in another spelling, one frame each."""

    def __init__(self, cache: FrameCache, lineages: Lineages, spell: Spelling) -> None:
        super().__init__(cache)
        self._lineages, self._spell = lineages, spell

    def of(self, event: Event, followed: bool) -> bytes | None:
        if event.run_id is not None and self._lineages.cached(event) is None:
            return None
        return self._select(event, self._spelled(event), followed)

    async def load(self, event: Event, followed: bool) -> bytes:
        await self._lineages.of(event)
        return self._select(event, self._spelled(event), followed)

    def _spelled(self, event: Event) -> EventFrames:
        name, made = self._spell(event, self._lineages.cached(event))
        frame = text_frame(json.dumps(made | {"part": 0, "last": True}))
        return EventFrames([Part(name, frames.is_global(event), frame)])


class Socket:
    def __init__(
        self,
        server: ServerContext,
        spelled: SocketFrames,
        caller: Principal,
        websocket: WebSocket,
    ) -> None:
        self._websocket, self._caller = websocket, caller
        self._connection: Connection = websocket.scope["extensions"].get(CONNECTION) or AsgiSocket(websocket.send)
        self._connection.credentials = server.access.credentials_of(caller)
        self._frames = spelled
        self._listening: asyncio.Task[None] | None = None
        subscription = server.hub.subscribe(caller.tenant, None)
        self._follower = ThreadFollower(
            self._connection,
            subscription,
            server.reader.events,
            self._frames,
            {},
            stall_seconds=STALL_SECONDS,
        )

    async def serve(self, query: Mapping[str, list[str]], *, valid: bool = True) -> None:
        """`valid` is False for a query that asks for what is not there; the client is sent so."""
        self._listening = asyncio.current_task()
        try:
            self._greet(query)
            if not valid:
                self._connection.write(frames.INVALID)
            self._follower.start(self._ended)
            await self._listen_to_client()
        except (WebSocketDisconnect, OSError):
            pass  # the peer is gone
        except asyncio.CancelledError:
            if self._follower.end_reason is None or self._listening is None:
                raise
            self._listening.uncancel()  # it was our own way to stop listening
        finally:
            self._listening = None
            await self._follower.close()
            await self._say_goodbye()

    def _ended(self, _reason: End) -> None:
        if self._listening is not None:
            self._listening.cancel()

    async def _say_goodbye(self) -> None:
        error, reason = self._follower.error, self._follower.end_reason
        if error is not None and not isinstance(error, StoreError | OSError):
            asyncio.get_running_loop().call_exception_handler({"message": "a stream broke off", "exception": error})
        # After an error the client knows its cursor and comes back when the store does.
        code = TRY_AGAIN_LATER if error is not None else CODES.get(reason) if reason is not None else None
        if not await self._connection.flushed(CLOSE_SECONDS if code is not None else 0) or code is None:
            return
        cursors = json.dumps({"lastSeq": self._follower.cursors}).decode()
        with contextlib.suppress(OSError, RuntimeError, WebSocketDisconnect, TimeoutError):
            async with asyncio.timeout(CLOSE_SECONDS):
                # A close reason is at most 123 bytes; the cursors of many threads do not fit.
                await self._websocket.close(code, cursors if len(cursors.encode()) <= 120 else "")

    # -- commands ------------------------------------------------------------------------------------

    def _greet(self, query: Mapping[str, list[str]]) -> None:
        asked = commands.from_query(query)
        allowed = isinstance(asked, commands.Subscribe) and self._may_follow(asked)
        if isinstance(asked, commands.Subscribe) and allowed:
            self._subscribe(asked.threads or None, asked.types)
        self._connection.write(frames.ready(next(iter(self._follower.cursors), None)))
        if asked is not None and not allowed:
            self._connection.write(frames.INVALID)

    async def _listen_to_client(self) -> None:
        while True:
            message = await self._websocket.receive()
            if message["type"] == "websocket.disconnect":
                return
            data = message.get("bytes") or (message.get("text") or "").encode()
            if not data:
                continue
            # A client that does not read its answers is not listened to until it does.
            await self._connection.room()
            match commands.parse(data):
                case commands.Ping():
                    self._connection.write(frames.PONG)
                case commands.Unsubscribe():
                    self._subscribe(None, None)
                case commands.Subscribe(threads=threads, types=types) as asked if self._may_follow(asked):
                    self._subscribe(threads, types)
                case _:
                    self._connection.write(frames.INVALID)

    def _may_follow(self, asked: commands.Subscribe) -> bool:
        """Threads of other tenants cannot be named; the system's own threads are for auditors."""
        return all(may_follow(self._caller, thread) for thread in asked.threads)

    def _subscribe(self, threads: Mapping[str, Cursor | None] | None, types: Types | None) -> None:
        cursors: dict[str, int | None] = {}
        parts: dict[str, tuple[int, int]] = {}
        for thread, cursor in (threads or {}).items():
            cursors[thread] = None if cursor is None else cursor.seq
            if cursor is not None and cursor.part is not None and cursor.seq > 0:
                cursors[thread], parts[thread] = cursor.seq - 1, (cursor.seq, cursor.part)
        self._frames.types, self._frames.parts, self._frames.filtered = types, parts, threads is not None
        self._follower.replace(None if threads is None else cursors)
