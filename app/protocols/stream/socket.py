"""`/api/stream`: one websocket, any threads of its tenant, live or from a cursor on.

A socket has one bounded subscription. While it reads history it keeps no queue; a reader that falls behind is closed
with 1013 and its last `seq`. Producers never wait for it.
"""

import asyncio
import contextlib
from collections.abc import AsyncGenerator
from typing import Final

from fastapi import APIRouter, WebSocket, WebSocketDisconnect

from app.core import json
from app.core.principal import Principal
from app.events.envelope import Event
from app.events.follow import backfill
from app.events.hub import Subscription
from app.protocols.context import Server
from app.protocols.http.caller import Caller
from app.protocols.stream import commands, frames

TRY_AGAIN_LATER: Final = 1013
RESTARTING: Final = 1012
CLOSE_SECONDS: Final = 5.0
"""How long a peer that was told to go may take to read so; then its connection is dropped."""


def routes(server: Server) -> APIRouter:
    router = APIRouter()

    @router.websocket("/api/stream")
    async def stream(websocket: WebSocket, caller: Caller) -> None:
        await websocket.accept()
        query = websocket.query_params
        await Socket(server, caller, websocket).serve(query.getlist("threadId"), query.getlist("afterSeq"))

    return router


class Socket:
    def __init__(self, server: Server, caller: Principal, websocket: WebSocket) -> None:
        self._server = server
        self._caller = caller
        self._websocket = websocket
        self._cursors: dict[str, int | None] = {}
        """Thread to the last `seq` sent; None until the first live event tells where it is."""
        self._behind: set[str] = set()
        """Threads whose history has to be read before their news."""
        self._filters = 0
        """How many filters there have been: history that an earlier one asked for is not sent on."""
        self._subscription: Subscription = server.hub.subscribe(caller.tenant, None)

    async def serve(self, threads: list[str], cursors: list[str]) -> None:
        asked = commands.from_query(threads, cursors)
        if isinstance(asked, commands.Subscribe):
            self._listen(asked.threads)
        try:
            await self._websocket.send_text(frames.ready(next(iter(self._cursors), None)))
            if asked == "invalid":
                await self._websocket.send_text(frames.INVALID)
            async with asyncio.TaskGroup() as tasks:
                listening = tasks.create_task(self._listen_to_client())
                sending = tasks.create_task(self._send_events())
                watching = tasks.create_task(self._watch_for_overflow(sending))
                done, _ = await asyncio.wait({listening, sending}, return_when=asyncio.FIRST_COMPLETED)
                for task in (listening, sending, watching):
                    if task not in done:
                        task.cancel()
        except* (WebSocketDisconnect, RuntimeError):
            pass  # the peer is gone; uvicorn reports a send to it as RuntimeError
        finally:
            subscription = self._subscription
            overflowed, draining = subscription.overflowed, self._server.draining()
            if not subscription.closed:
                subscription.close()
        if overflowed or draining:
            code = TRY_AGAIN_LATER if overflowed else RESTARTING
            reason = json.dumps({"lastSeq": self._cursors}).decode()
            with contextlib.suppress(RuntimeError, WebSocketDisconnect, TimeoutError):
                async with asyncio.timeout(CLOSE_SECONDS):
                    # A close reason is at most 123 bytes; the cursors of many threads do not fit.
                    await self._websocket.close(code, reason if len(reason) <= 120 else "")

    # -- commands ------------------------------------------------------------------------------------

    async def _listen_to_client(self) -> None:
        while True:
            message = await self._websocket.receive()
            if message["type"] == "websocket.disconnect":
                return
            data = message.get("bytes") or (message.get("text") or "").encode()
            if not data:
                continue
            match commands.parse(data):
                case None:
                    await self._websocket.send_text(frames.INVALID)
                case commands.Ping():
                    await self._websocket.send_text(frames.PONG)
                case commands.Unsubscribe():
                    self._listen(None)
                case commands.Subscribe(threads=threads):
                    self._listen(threads)

    def _listen(self, threads: dict[str, int | None] | None) -> None:
        self._filters += 1
        self._cursors = dict(threads or {})
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
        subscription.wake()

    # -- events --------------------------------------------------------------------------------------

    async def _send_events(self) -> None:
        subscription = self._subscription
        while not (subscription.closed or subscription.overflowed):
            if self._behind:
                await self._catch_up(self._behind.pop())
                continue
            await subscription.wait()
            for event in subscription.take():
                if event.thread_id in self._behind:
                    continue
                await self._send_live(event)

    async def _send_live(self, event: Event) -> None:
        thread = event.thread_id
        filtered = self._subscription.threads is not None
        if filtered:
            if thread not in self._cursors:
                if not frames.is_global(event):
                    return
            else:
                last = self._cursors[thread]
                if last is not None and event.seq <= last:
                    return
                if last is not None and event.seq > last + 1:
                    self._behind.add(thread)
                    return
        elif thread.startswith(frames.SYSTEM_PREFIX) and not frames.is_global(event):
            return
        await self._websocket.send_text(frames.event_frame(event))
        if thread in self._cursors:
            self._cursors[thread] = event.seq

    async def _catch_up(self, thread: str) -> None:
        after = self._cursors.get(thread)
        if after is None:
            return
        read, subscription = self._server.reader.events, self._subscription
        pages = backfill(subscription, read, self._caller.tenant, thread, after)
        async with contextlib.aclosing(pages):
            await self._send_pages(thread, pages)
        # What other threads of this socket said while their queue was off has to be read as well.
        for other, (first, newest) in subscription.missed.items():
            last = self._cursors.get(other)
            if other in self._cursors and (last is None or newest > last):
                self._cursors[other] = first - 1 if last is None else last
                self._behind.add(other)
        subscription.missed.clear()

    async def _send_pages(self, thread: str, pages: AsyncGenerator[list[Event]]) -> None:
        asked = self._filters
        async for page in pages:
            for event in page:
                if self._filters != asked:
                    return
                await self._websocket.send_text(frames.event_frame(event))
                if self._filters == asked:
                    self._cursors[thread] = event.seq

    async def _watch_for_overflow(self, sending: "asyncio.Task[None]") -> None:
        """A send to a peer that does not read never returns; the overflow ends it."""
        await self._subscription.overflow.wait()
        sending.cancel()
