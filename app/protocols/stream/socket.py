"""`/api/stream`: one websocket, any threads of its tenant, live or from a cursor on.

A socket has one bounded subscription and, while it only passes news on, no task but the one that listens to its
client: news is written when it is published. What must be waited for (history, a gap, something to look up) is done
by a task that exists as long as it is needed, and what arrives meanwhile is queued. A reader that falls behind is
closed with 1013 and its last `seq`. Producers never wait for it.
"""

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Mapping
from typing import Final

from fastapi import WebSocket, WebSocketDisconnect

from app.core import json
from app.core.principal import Principal
from app.events.envelope import Event
from app.events.follow import backfill
from app.events.hub import Subscription
from app.events.ports import StoreError
from app.protocols.auth.permissions import may_follow
from app.protocols.context import Server
from app.protocols.stream import commands, frames
from app.protocols.stream.commands import Cursor
from app.protocols.stream.connection import EXTENSION, Wire
from app.protocols.stream.frames import EventFrames, Types
from app.protocols.stream.press import Press
from app.runtime.intake.rejection import SYSTEM_THREADS

TRY_AGAIN_LATER: Final = 1013
RESTARTING: Final = 1012
NO_LONGER_WELCOME: Final = 4401
CLOSE_SECONDS: Final = 5.0
"""How long a peer that was told to go may take to read so; then its connection is dropped."""
MAX_WRITE: Final = 64 * 1024
"""Bytes that are handed over at once; then the connection is asked whether it has room for more."""


class Socket:
    def __init__(self, server: Server, press: Press, caller: Principal, websocket: WebSocket) -> None:
        self._server, self._press = server, press
        self._websocket = websocket
        self._wire: Wire = websocket.scope["extensions"][EXTENSION]
        self._loop = asyncio.get_running_loop()
        self._cursors: dict[str, int | None] = {}
        """Thread to the last `seq` sent; None until the first live event tells where it is."""
        self._parts: dict[str, int] = {}
        """Thread to the last part sent of the event after its cursor, for who came back in the middle of one."""
        self._types: Types | None = None
        self._behind: set[str] = set()
        """Threads whose history has to be read before their news."""
        self._filters = 0
        """How many filters there have been: history that an earlier one asked for is not sent on."""
        self._listening: asyncio.Task[None] | None = None
        self._working: asyncio.Task[None] | None = None
        self._flushing = False
        self._ending: int | None = None
        """The code with which the socket is to be closed."""
        self.caller = caller
        self._subscription: Subscription = server.hub.subscribe(caller.tenant, None)

    # -- life ----------------------------------------------------------------------------------------

    async def serve(self, query: Mapping[str, list[str]]) -> None:
        self._subscription.on_news = self._wire.on_room = self._news
        self._listening = asyncio.current_task()
        try:
            self._greet(query)
            self._subscription.direct = self._pass_on
            await self._listen_to_client()
        except (WebSocketDisconnect, OSError):
            pass  # the peer is gone
        except asyncio.CancelledError:
            if self._ending is None or self._listening is None:
                raise
            self._listening.uncancel()  # it was our own way to stop listening
        finally:
            await self._leave()

    def end(self, code: int) -> None:
        """From whoever finds that the socket must go."""
        if self._ending is None and self._listening is not None:
            self._ending = code
            self._listening.cancel()

    async def _leave(self) -> None:
        self._listening = None
        self._wire.on_room = self._subscription.on_news = self._subscription.direct = None
        if self._working is not None:
            self._working.cancel()
            await asyncio.wait({self._working})
        if not self._subscription.closed:
            self._subscription.close()
        if self._ending is not None:
            reason = json.dumps({"lastSeq": self._cursors}).decode()
            with contextlib.suppress(OSError, RuntimeError, WebSocketDisconnect, TimeoutError):
                async with asyncio.timeout(CLOSE_SECONDS):
                    # A close reason is at most 123 bytes; the cursors of many threads do not fit.
                    await self._websocket.close(self._ending, reason if len(reason.encode()) <= 120 else "")

    def _greet(self, query: Mapping[str, list[str]]) -> None:
        asked = commands.from_query(query)
        allowed = isinstance(asked, commands.Subscribe) and self._may_hear(asked)
        if isinstance(asked, commands.Subscribe) and allowed:
            self._listen(asked.threads or None, asked.types)
        self._wire.write(frames.ready(next(iter(self._cursors), None)))
        if asked is not None and not allowed:
            self._wire.write(frames.INVALID)

    # -- commands ------------------------------------------------------------------------------------

    async def _listen_to_client(self) -> None:
        while True:
            message = await self._websocket.receive()
            if message["type"] == "websocket.disconnect":
                return
            data = message.get("bytes") or (message.get("text") or "").encode()
            if not data:
                continue
            # Who does not read its answers is not listened to until it does.
            await self._wire.room()
            match commands.parse(data):
                case commands.Ping():
                    self._wire.write(frames.PONG)
                case commands.Unsubscribe():
                    self._listen(None, None)
                case commands.Subscribe(threads=threads, types=types) as asked if self._may_hear(asked):
                    self._listen(threads, types)
                case _:
                    self._wire.write(frames.INVALID)

    def _may_hear(self, asked: commands.Subscribe) -> bool:
        """Threads of other tenants cannot be named; what the system's own threads tell is for auditors."""
        return all(may_follow(self.caller, thread) for thread in asked.threads)

    def _listen(self, threads: Mapping[str, Cursor | None] | None, types: Types | None) -> None:
        self._filters += 1
        self._types = types
        self._cursors, self._parts = {}, {}
        for thread, cursor in (threads or {}).items():
            self._cursors[thread] = None if cursor is None else cursor.seq
            if cursor is not None and cursor.part is not None and cursor.seq > 0:
                self._cursors[thread], self._parts[thread] = cursor.seq - 1, cursor.part
        self._behind = {thread for thread, after in self._cursors.items() if after is not None}
        subscription = self._subscription
        queued = subscription.take()
        # History that the former filter asked for is on its way out: the new one hears from now on.
        subscription.paused = False
        subscription.missed.clear()
        subscription.listen_to(None if threads is None else threads.keys())
        for event in queued:
            # What the former filter let through is dropped; global news is for everybody.
            if frames.is_global(event):
                subscription.offer(event)
        self._news()

    # -- news ----------------------------------------------------------------------------------------

    def _pass_on(self, event: Event) -> bool:
        """The ordinary case, once for every frame that goes out: nothing waits, there is room, the frames are made."""
        if self._behind or self._working is not None or not self._wire.has_room:
            return False
        made = event.spelled or self._press.at_hand(event)
        data = None if made is None else self._take(event, made)
        if data is None:
            return False
        if data:
            try:
                self._wire.write(data)
            except OSError:  # the peer is gone, which its own message tells
                return True
        return True

    def _news(self) -> None:
        if not self._flushing:
            self._flushing = True
            self._loop.call_soon(self._flush)

    def _flush(self) -> None:
        """Writes what can be written at once; starts the work that cannot."""
        self._flushing = False
        subscription = self._subscription
        if subscription.overflowed or subscription.closed:
            self.end(TRY_AGAIN_LATER if subscription.overflowed else RESTARTING)
            return
        if self._working is not None or self._listening is None or not self._wire.has_room:
            return  # whoever works, or the room when there is some, comes back here
        waits = bool(self._behind)
        chunks: list[bytes] = []
        size = 0
        while not waits and (event := subscription.next()) is not None:
            made = event.spelled or self._press.at_hand(event)
            data = None if made is None else self._take(event, made)
            if data is None:
                subscription.put_back(event)
                waits = True
            elif data:
                chunks.append(data)
                size += len(data)
                if size > MAX_WRITE:
                    if not self._write(chunks):
                        return
                    size = 0
        if self._write(chunks) and waits:
            self._working = self._loop.create_task(self._work())
            self._working.add_done_callback(self._worked)

    def _write(self, chunks: list[bytes]) -> bool:
        """Whether there is room for more. Without room nothing is taken: the queue is where things wait."""
        if chunks:
            with contextlib.suppress(OSError):
                self._wire.write(b"".join(chunks))
            chunks.clear()
        return self._wire.has_room

    def _take(self, event: Event, made: EventFrames) -> bytes | None:
        """The frames of the event that are for this socket, and its cursor moves.

        None when a `seq` is missing between what was sent and this: the store has it.
        """
        thread = event.thread_id
        if thread in self._cursors:
            last, seq = self._cursors[thread], event.seq
            if last is not None and seq != last + 1:
                return None if seq > last else b""
            self._cursors[thread] = seq
            if self._parts and (part := self._parts.pop(thread, None)) is not None:
                return made.after(part, self._types)
            return made.select(self._types, False)
        if thread.startswith(SYSTEM_THREADS) and not frames.is_global(event):
            return b""
        return made.select(self._types, self._subscription.threads is not None)

    # -- what has to be waited for -------------------------------------------------------------------

    async def _work(self) -> None:
        subscription = self._subscription
        while not (subscription.closed or subscription.overflowed):
            await self._wire.room()
            if self._behind:
                await self._catch_up(self._behind.pop())
            elif (event := subscription.next()) is None:
                return
            else:
                filters = self._filters
                made = await self._press.frames(event)
                if filters != self._filters and not frames.is_global(event):
                    continue
                data = self._take(event, made)
                if data is None:
                    self._behind.add(event.thread_id)
                else:
                    self._wire.write(data)

    def _worked(self, work: "asyncio.Task[None]") -> None:
        self._working = None
        if not work.cancelled() and (error := work.exception()) is not None and not isinstance(error, OSError):
            if not isinstance(error, StoreError):
                self._loop.call_exception_handler({"message": "a stream broke off", "exception": error})
            # The client knows its cursor and comes back when the store does.
            self.end(TRY_AGAIN_LATER)
        elif self._listening is not None:
            self._news()

    async def _catch_up(self, thread: str) -> None:
        after = self._cursors.get(thread)
        if after is None:
            return
        read, subscription = self._server.reader.events, self._subscription
        pages = backfill(subscription, read, self.caller.tenant, thread, after)
        async with contextlib.aclosing(pages):
            await self._send_pages(pages)
        # What other threads of this socket said while their queue was off has to be read as well.
        for other, (first, newest) in subscription.missed.items():
            last = self._cursors.get(other)
            if other in self._cursors and (last is None or newest > last):
                self._cursors[other] = first - 1 if last is None else last
                self._behind.add(other)
        subscription.missed.clear()

    async def _send_pages(self, pages: AsyncGenerator[list[Event]]) -> None:
        asked = self._filters
        async for page in pages:
            for event in page:
                made = await self._press.frames(event)
                await self._wire.room()
                if self._filters != asked:
                    return
                self._wire.write(self._take(event, made) or b"")
