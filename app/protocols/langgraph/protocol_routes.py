"""Routes of the second LangGraph protocol over HTTP: commands, and the events of a thread."""

from typing import Final

from fastapi import APIRouter, Request, Response

from app.protocols.context import ServerContext
from app.protocols.http.caller import Caller
from app.protocols.http.correlation import correlation
from app.protocols.http.lookups import existing_thread
from app.protocols.langgraph import fields
from app.protocols.langgraph.event_subscriptions import SubscribedFrames, read_filter
from app.protocols.langgraph.protocol_commands import ProtocolCommands
from app.protocols.langgraph.run_streams import SILENT_SECONDS
from app.protocols.wire.sse import EventStream, Following
from app.views.thread import Thread


def add_protocol(router: APIRouter, server: ServerContext) -> None:
    @router.post("/threads/{thread_id}/commands", summary="A command of the event protocol", openapi_extra=_COMMAND)
    async def command(thread_id: str, request: Request, caller: Caller) -> Response:
        given = await fields.read_any(request)
        found = await server.reader.thread(caller.tenant, thread_id)
        starts = isinstance(given, dict) and given.get("method") == "run.start"
        if not isinstance(found, Thread) and not (starts and found is None):
            await existing_thread(server, caller, thread_id)  # answers as everywhere
        answer = await ProtocolCommands(server, caller, thread_id, correlation(request)).answer(given)
        malformed = answer["type"] == "error" and not (isinstance(given, dict) and isinstance(given.get("method"), str))
        return fields.reply(answer, status=400 if malformed else 200)

    @router.post("/threads/{thread_id}/stream/events", summary="The events of a thread", openapi_extra=_EVENTS)
    async def stream_events(thread_id: str, request: Request, caller: Caller) -> Response:
        wanted = read_filter(await fields.read_object(request))
        await existing_thread(server, caller, thread_id)
        subscription = server.hub.subscribe(caller.tenant, [thread_id])
        frames = SubscribedFrames(server, caller.tenant, thread_id, socket=False)
        try:
            first = await frames.begin([wanted])
        except BaseException:
            subscription.close()
            raise
        following = Following(subscription, server.reader.events, thread_id, first)
        return EventStream(following, frames, at_once=True, keep_alive_seconds=SILENT_SECONDS)


_COMMAND: Final = fields.takes("id", "method", id=fields.NUMBER, method=fields.STRING, params=fields.OBJECT)
_EVENTS: Final = fields.takes(
    "channels",
    channels=fields.STRINGS,
    namespaces={"type": "array", "items": fields.STRINGS},
    depth=fields.NUMBER,
    since=fields.NUMBER,
)
