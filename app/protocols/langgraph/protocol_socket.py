"""The websocket of the second LangGraph protocol: commands in, their answers and the thread's events out.

A reader that falls behind is closed and comes back with the last `seq` it saw. Leaves to others: what the commands do
(`protocol_commands`) and what the events are (`event_subscriptions`).
"""

import asyncio
import contextlib
from dataclasses import replace
from typing import Any, Final

from fastapi import WebSocket, WebSocketDisconnect

from app.core import json
from app.core.errors import HoldfastError
from app.core.json import JsonObject
from app.core.principal import Principal
from app.protocols.auth.permissions import may_follow
from app.protocols.auth.shown import SUBPROTOCOL
from app.protocols.context import ServerContext
from app.protocols.dialects.langgraph_events import ChannelFilter
from app.protocols.langgraph.event_subscriptions import SubscribedFrames, read_filter
from app.protocols.langgraph.protocol_commands import ProtocolCommands, failed
from app.protocols.wire.asgi import AsgiSocket
from app.protocols.wire.connection import CONNECTION, Connection
from app.protocols.wire.follower import End, ThreadFollower
from app.protocols.wire.websocket import text_frame
from app.views.thread import Thread

MAX_SUBSCRIPTIONS: Final = 32
_CLOSE_SECONDS: Final = 5.0
_STALL_SECONDS: Final = 30.0
_CODES: Final = {End.OVERFLOWED: 1013, End.DRAINED: 1012, End.REVOKED: 4401}


async def serve_events(server: ServerContext, caller: Principal, websocket: WebSocket) -> None:
    """The thread need not exist yet: a command may start its first run."""
    thread_id: str = websocket.path_params["thread_id"]  # declared, it would cost every start an import
    found = await server.reader.thread(caller.tenant, thread_id)
    gone = found is not None and (not isinstance(found, Thread) or found.deleted_at is not None)
    if gone or not may_follow(caller, thread_id):
        await websocket.close(4404)
        return
    await websocket.accept(SUBPROTOCOL if SUBPROTOCOL in websocket.scope["subprotocols"] else None)
    await ProtocolSocket(server, caller, websocket, thread_id).serve()


class ProtocolSocket:
    def __init__(self, server: ServerContext, caller: Principal, websocket: WebSocket, thread_id: str) -> None:
        self._websocket, self._thread_id = websocket, thread_id
        self._connection: Connection = websocket.scope["extensions"].get(CONNECTION) or AsgiSocket(websocket.send)
        self._connection.credentials = server.access.credentials_of(caller)
        self._commands = ProtocolCommands(server, caller, thread_id)
        self._frames = SubscribedFrames(server, caller.tenant, thread_id, socket=True)
        self._filters: dict[str, ChannelFilter] = {}
        self._numbered = 0
        self._listening: asyncio.Task[None] | None = None
        subscription = server.hub.subscribe(caller.tenant, ())
        self._follower = ThreadFollower(
            self._connection, subscription, server.reader.events, self._frames, {}, stall_seconds=_STALL_SECONDS
        )

    async def serve(self) -> None:
        self._listening = asyncio.current_task()
        try:
            self._follower.start(self._ended)
            await self._listen()
        except (WebSocketDisconnect, OSError):
            pass  # the peer is gone
        except asyncio.CancelledError:
            if self._follower.end_reason is None or self._listening is None:
                raise
            self._listening.uncancel()  # it was our own way to stop listening
        finally:
            self._listening = None
            await self._follower.close()
            await self._close()

    def _ended(self, _reason: End) -> None:
        if self._listening is not None:
            self._listening.cancel()

    async def _close(self) -> None:
        reason = self._follower.end_reason
        code = 1013 if self._follower.error is not None else None if reason is None else _CODES.get(reason)
        if not await self._connection.flushed(_CLOSE_SECONDS if code is not None else 0) or code is None:
            return
        with contextlib.suppress(OSError, RuntimeError, WebSocketDisconnect, TimeoutError):
            async with asyncio.timeout(_CLOSE_SECONDS):
                await self._websocket.close(code)

    async def _listen(self) -> None:
        while True:
            message = await self._websocket.receive()
            if message["type"] == "websocket.disconnect":
                return
            data = message.get("bytes") or (message.get("text") or "").encode()
            # A client that does not read its answers is not listened to until it does.
            await self._connection.room()
            self._write(await self._answer(data))

    def _write(self, answer: JsonObject) -> None:
        self._connection.write(text_frame(json.dumps(answer)))

    async def _answer(self, data: bytes) -> JsonObject:
        try:
            command: Any = json.loads_strict(data, max_values=json.MAX_VALUES)
        except HoldfastError:
            return failed(None, "invalid_argument", "A command must be a JSON object.")
        method = command.get("method") if isinstance(command, dict) else None
        if method in ("subscription.subscribe", "subscription.unsubscribe") and isinstance(command.get("id"), int):
            params = command.get("params")
            given = params if isinstance(params, dict) else {}
            change = self._subscribe if method == "subscription.subscribe" else self._unsubscribe
            return await change(command["id"], given)
        return await self._commands.answer(command)

    async def _subscribe(self, number: int, params: JsonObject) -> JsonObject:
        try:
            wanted = read_filter(params)
        except HoldfastError as error:
            return failed(number, "invalid_argument", error.failure.message)
        if len(self._filters) >= MAX_SUBSCRIPTIONS:
            return failed(number, "invalid_argument", f"A connection may have {MAX_SUBSCRIPTIONS} subscriptions.")
        self._numbered += 1
        named = f"sub-{self._numbered}"
        seen = self._frames.seen
        # The others go on where they are; this one gets what it asked for from its own cursor on.
        self._filters = {name: replace(one, since=max(one.since, seen)) for name, one in self._filters.items()}
        self._filters[named] = wanted
        await self._follow()
        return _done(number, {"subscription_id": named, "replayed_events": 0}, seen)

    async def _unsubscribe(self, number: int, params: JsonObject) -> JsonObject:
        if self._filters.pop(str(params.get("subscription_id")), None) is None:
            return failed(number, "no_such_subscription", "There is no such subscription.")
        seen = self._frames.seen
        self._filters = {name: replace(one, since=max(one.since, seen)) for name, one in self._filters.items()}
        await self._follow()
        return _done(number, {}, seen)

    async def _follow(self) -> None:
        if not self._filters:
            self._follower.replace({})
            return
        # Nothing is read into the new reading before it knows the thread up to its own beginning.
        self._follower.replace({})
        first = await self._frames.begin(list(self._filters.values()))
        self._follower.replace({self._thread_id: first})


def _done(number: int, result: JsonObject, seq: int) -> JsonObject:
    return {"type": "success", "id": number, "result": result, "meta": {"applied_through_seq": seq}}
