"""The state of a thread in LangGraph's shape: now, at a checkpoint, and through its history."""

from typing import Annotated, Final

from fastapi import APIRouter, Query, Request, Response

from app.core.json import JsonObject
from app.core.principal import Principal
from app.protocols.context import ServerContext
from app.protocols.dialects.langgraph_states import (
    checkpoint_config,
    checkpoint_metadata,
    empty_state,
    parse_checkpoint_id,
    state_object,
)
from app.protocols.dialects.langgraph_values import ThreadValues
from app.protocols.http.caller import Caller
from app.protocols.http.errors import HttpProblem
from app.protocols.http.lookups import existing_thread
from app.protocols.langgraph import fields
from app.protocols.langgraph.errors import Declined
from app.protocols.langgraph.run_request import read_checkpoint
from app.protocols.langgraph.state_updates import StateUpdates
from app.protocols.langgraph.thread_reading import thread_values
from app.runtime.intake.rejection import Rejected

MAX_HISTORY_MESSAGES: Final = 50_000
"""Messages that one page of a history may hold, each counted as often as it occurs; the page is shorter then."""


def add_states(router: APIRouter, server: ServerContext) -> None:
    @router.get("/threads/{thread_id}/state", summary="The thread's state")
    async def get_state(thread_id: str, caller: Caller) -> Response:
        values = await _values(server, caller, thread_id)
        if not values.checkpoints:
            return fields.reply(empty_state(thread_id))
        return fields.reply(state_object(thread_id, values, len(values.checkpoints) - 1))

    @router.get("/threads/{thread_id}/state/{checkpoint_id}", summary="The thread's state at a checkpoint")
    async def get_state_at(thread_id: str, checkpoint_id: str, caller: Caller) -> Response:
        return await _at(server, caller, thread_id, checkpoint_id)

    @router.post(
        "/threads/{thread_id}/state/checkpoint", summary="The thread's state at a checkpoint", openapi_extra=_AT
    )
    async def post_state_at(thread_id: str, request: Request, caller: Caller) -> Response:
        named = named_checkpoint(fields.mapping(await fields.read_object(request), "checkpoint"))
        if named is None:
            return await get_state(thread_id, caller)
        return await _at(server, caller, thread_id, named)

    @router.get("/threads/{thread_id}/history", summary="The thread's states, newest first")
    async def get_history(
        thread_id: str,
        caller: Caller,
        limit: Annotated[int, Query(ge=1, le=fields.MAX_LIMIT)] = 10,
        before: Annotated[str | None, Query(max_length=64)] = None,
    ) -> Response:
        values = await _values(server, caller, thread_id)
        return fields.reply(_history(thread_id, values, limit, before, {}))

    @router.post("/threads/{thread_id}/history", summary="The thread's states, newest first", openapi_extra=_HISTORY)
    async def post_history(thread_id: str, request: Request, caller: Caller) -> Response:
        body = await fields.read_object(request)
        before = body.get("before")
        if isinstance(before, dict):  # as SDKs send it: a config or a checkpoint
            before = named_checkpoint(before.get("configurable") or before)
        limit = fields.whole(body, "limit", 10, fields.MAX_LIMIT, least=1)
        values = await _values(server, caller, thread_id)
        return fields.reply(_history(thread_id, values, limit, before, fields.metadata(body)))

    @router.post("/threads/{thread_id}/state", summary="Change the thread's state", openapi_extra=_UPDATE)
    async def update_state(thread_id: str, request: Request, caller: Caller) -> Response:
        """Messages join the conversation, replace those with the same id or, as `remove`, take them out."""
        body = await fields.read_object(request)
        given, as_node = fields.mapping(body, "values"), fields.text(body, "as_node")
        named = read_checkpoint(body)
        thread = await existing_thread(server, caller, thread_id)
        values = await thread_values(server, caller.tenant, thread_id, thread.last_seq)
        number = None if named is None else checkpoint_number(values, named)
        latest = number is None or number == len(values.checkpoints) - 1
        at = None if number is None or latest else values.checkpoints[number]
        update = await StateUpdates(server, caller, thread, values).update(given, as_node, at)
        made = await server.threads.set_state(caller, thread, update)
        if isinstance(made, Rejected):
            raise HttpProblem(made.failure)
        place = checkpoint_config(thread_id, made.seq)
        return fields.reply({"checkpoint": place, "configurable": place, "checkpoint_id": place["checkpoint_id"]})


def named_checkpoint(place: object) -> str | None:
    named = place.get("checkpoint_id") if isinstance(place, dict) else None
    return named if isinstance(named, str) else None


def checkpoint_number(values: ThreadValues, named: object) -> int:
    """The place of a checkpoint among the thread's; one of another thread is none of its own."""
    seq = parse_checkpoint_id(named) if isinstance(named, str) else None
    for number, point in enumerate(values.checkpoints):
        if point.seq == seq:
            return number
    raise Declined("The thread has no such checkpoint.", code="CHECKPOINT_NOT_FOUND", status=404)


async def _values(server: ServerContext, caller: Principal, thread_id: str) -> ThreadValues:
    thread = await existing_thread(server, caller, thread_id)
    return await thread_values(server, caller.tenant, thread_id, thread.last_seq)


async def _at(server: ServerContext, caller: Principal, thread_id: str, named: str) -> Response:
    values = await _values(server, caller, thread_id)
    return fields.reply(state_object(thread_id, values, checkpoint_number(values, named)))


def _history(
    thread_id: str, values: ThreadValues, limit: int, before: object, metadata: JsonObject
) -> list[JsonObject]:
    number = len(values.checkpoints) if before is None else checkpoint_number(values, before)
    found: list[JsonObject] = []
    held = 0
    while number > 0 and len(found) < limit and held <= MAX_HISTORY_MESSAGES:
        number -= 1
        if fields.contains(checkpoint_metadata(values.checkpoints[number]), metadata):
            found.append(state_object(thread_id, values, number))
            held += len(found[-1]["values"]["messages"])
    return found


_UPDATE: Final = fields.takes(
    values=fields.OBJECT, as_node=fields.STRING, checkpoint=fields.OBJECT, checkpoint_id=fields.STRING
)
_AT: Final = fields.takes("checkpoint", checkpoint=fields.OBJECT)
_HISTORY: Final = fields.takes(limit=fields.NUMBER, before=fields.ANYTHING, metadata=fields.OBJECT)
