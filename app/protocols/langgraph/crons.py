"""Crons of the LangGraph interface: our schedules, by which runs are submitted on a thread or on one of their own.

Those of the workspace are shown as well and change with its files. Leaves to others: firing (`automation`).
"""

from datetime import UTC, datetime
from typing import Any, Final
from uuid import uuid4

from fastapi import APIRouter, Request, Response
from pydantic import ValidationError

from app.core import json
from app.core.clock import is_spelled, iso
from app.core.errors import Failure
from app.core.json import JsonObject
from app.core.principal import Principal
from app.protocols.context import ServerContext
from app.protocols.dialects.langgraph_states import TEMPORARY, assistant_id
from app.protocols.http.caller import Caller
from app.protocols.http.errors import HttpProblem
from app.protocols.http.lookups import existing_thread
from app.protocols.langgraph import fields
from app.protocols.langgraph.errors import Declined
from app.protocols.langgraph.inputs import split
from app.protocols.langgraph.run_request import GraphRunRequest, graph_named, read_run, run_labels
from app.protocols.langgraph.run_start import run_webhook
from app.runtime.automation.schedule_desk import Schedule
from app.views.schedule import ScheduledWith
from app.workspace.resolve import schedule_issues
from app.workspace.specs.others import ScheduleSpec

MAX_CRON_BYTES: Final = 64 * 1024
_WORKFLOW: Final = "workflow:"
_SORTED_BY: Final = ("cron_id", "assistant_id", "thread_id", "created_at", "updated_at", "next_run_date", "end_time")
_KEPT: Final[tuple[str, ...]] = (
    "assistant_id", "input", "config", "context", "metadata", "stream_mode", "stream_subgraphs", "multitask_strategy",
    "interrupt_before", "interrupt_after", "durability", "schedule", "timezone", "end_time", "enabled",
    "on_run_completed", "webhook", "checkpoint_during", "stream_resumable",
)  # fmt: skip
"""What a cron's payload has of its request."""


def add_crons(router: APIRouter, server: ServerContext) -> None:
    @router.post("/runs/crons", summary="Submit a run again and again", openapi_extra=_CREATE)
    async def create_cron(request: Request, caller: Caller) -> Response:
        return fields.reply(await _created(server, caller, None, await fields.read_object(request)))

    @router.post(
        "/threads/{thread_id}/runs/crons", summary="Submit a run on a thread again and again", openapi_extra=_CREATE
    )
    async def create_thread_cron(thread_id: str, request: Request, caller: Caller) -> Response:
        await existing_thread(server, caller, thread_id)
        return fields.reply(await _created(server, caller, thread_id, await fields.read_object(request)))

    @router.post("/runs/crons/search", summary="Find crons", openapi_extra=_SEARCH)
    async def search_crons(request: Request, caller: Caller) -> Response:
        body = await fields.read_object(request)
        limit = fields.whole(body, "limit", 10, fields.MAX_LIMIT)
        offset, select = fields.whole(body, "offset", 0, fields.MAX_OFFSET), fields.texts(body, "select")
        found = await _found(server, caller, body)
        by = fields.choice(body, "sort_by", _SORTED_BY, "created_at")
        down = fields.choice(body, "sort_order", ("asc", "desc"), "desc") == "desc"
        found.sort(key=lambda one: one[by] or "", reverse=down)
        headers = {"x-pagination-total": str(len(found))}
        if offset + limit < len(found):
            headers["x-pagination-next"] = str(offset + limit)
        return fields.reply([fields.selected(one, select) for one in found[offset : offset + limit]], headers)

    @router.post("/runs/crons/count", summary="Count crons", openapi_extra=_SEARCH)
    async def count_crons(request: Request, caller: Caller) -> Response:
        return fields.reply(len(await _found(server, caller, await fields.read_object(request))))

    @router.patch("/runs/crons/{cron_id}", summary="Change a cron", openapi_extra=_PATCH)
    async def update_cron(cron_id: str, request: Request, caller: Caller) -> Response:
        body = await fields.read_object(request)
        known = await _existing(server, caller, cron_id)
        if known.attached is None:
            message = "The schedule is none that a LangGraph client made; it is changed where it was made."
            raise Declined(message, code="SCHEDULE_DECLARED", status=409)
        given: JsonObject = {name: body[name] for name in _KEPT if name in body}
        document, attached = _read(server, {**known.attached.payload, **given}, known.attached.thread)
        attached.created_at = known.attached.created_at
        attached.updated_at = server.clock.now_ms()
        attached.webhook = await run_webhook(server, caller, attached.webhook)
        _ok(await server.schedules.change(caller, cron_id, document, attached))
        return fields.reply(_shown(server, await _existing(server, caller, cron_id)))

    @router.delete("/runs/crons/{cron_id}", status_code=204, summary="Delete a cron")
    async def delete_cron(cron_id: str, caller: Caller) -> Response:
        await _existing(server, caller, cron_id)
        _ok(await server.schedules.delete(caller, cron_id))
        return Response(status_code=204)


async def _created(server: ServerContext, caller: Principal, thread_id: str | None, body: JsonObject) -> JsonObject:
    document, attached = _read(server, {name: body[name] for name in _KEPT if name in body}, thread_id)
    name = str(uuid4())
    document["tenant"] = caller.tenant
    attached.created_at = attached.updated_at = server.clock.now_ms()
    attached.webhook = await run_webhook(server, caller, attached.webhook)
    _ok(await server.schedules.create(caller, name, document, attached))
    return _shown(server, await _existing(server, caller, name))


def _read(server: ServerContext, body: JsonObject, thread_id: str | None) -> tuple[JsonObject, ScheduledWith]:
    if len(json.dumps(body)) > MAX_CRON_BYTES:
        raise Declined(f"A cron may have {MAX_CRON_BYTES} bytes.", code="BODY_TOO_LARGE", status=413)
    schedule = fields.text(body, "schedule")
    if schedule is None:
        raise Declined("schedule is required.")
    wanted = read_run(server, body)
    graph = wanted.graph_id
    named = {"workflow": graph.removeprefix(_WORKFLOW)} if graph.startswith(_WORKFLOW) else {"agent": graph}
    document: JsonObject = {
        "cron": schedule,
        "timezone": fields.text(body, "timezone") or "UTC",
        "run": {**named, "input": _input(wanted)},
        "enabled": body.get("enabled") is None or fields.flag(body, "enabled"),
    }
    _check(document)
    keeps = fields.choice(body, "on_run_completed", ("delete", "keep"), "delete") == "keep"
    attached = ScheduledWith(
        thread=thread_id,
        metadata=wanted.metadata,
        labels=run_labels(wanted),
        thread_labels={} if keeps or thread_id is not None else {TEMPORARY: "1"},
        busy=wanted.strategy,
        webhook=wanted.webhook,
        until=_moment(body, "end_time"),
        payload=body,
    )
    return document, attached


def _input(wanted: GraphRunRequest) -> Any:
    given = wanted.given
    if given is None or wanted.resume is not None:
        raise Declined("A cron needs an input.")
    if given.data is not None:
        return given.data
    history, said = split(given.messages, continued=False)
    if history or given.instructions or any("parts" in message for message in said):
        raise Declined("The input of a cron is what the user says: texts, without earlier messages or media.")
    return "\n\n".join(message["content"] for message in said)


def _check(document: JsonObject) -> None:
    try:
        spec = ScheduleSpec.model_validate_json(json.dumps(document))
    except ValidationError as error:
        raise Declined(f"The cron is invalid: {error.errors()[0]['msg']}") from None
    names = {"cron": "schedule"}
    for field, message, expected in schedule_issues(spec):
        raise Declined(f"{names.get(field, field)}: {message}; expected {expected}")


def _moment(body: JsonObject, name: str) -> int | None:
    given = fields.text(body, name)
    if given is None:
        return None
    try:
        found = datetime.fromisoformat(given)
        moment = round((found if found.tzinfo is not None else found.replace(tzinfo=UTC)).timestamp() * 1000)
    except (ValueError, OverflowError):
        moment = -1
    if not is_spelled(moment):
        raise Declined(f"{name} must be a time in ISO 8601, from 1970 to 9999.")
    return moment


async def _existing(server: ServerContext, caller: Principal, name: str) -> Schedule:
    found = await server.schedules.find(caller.tenant, name)
    if found is None or found.spec.run.tool is not None:
        raise Declined("There is no such cron.", code="SCHEDULE_NOT_FOUND", status=404)
    return found


async def _found(server: ServerContext, caller: Principal, body: JsonObject) -> list[JsonObject]:
    named, thread_id = fields.text(body, "assistant_id"), fields.text(body, "thread_id")
    graph = None if named is None else graph_named(server, named)
    wanted, enabled = fields.metadata(body), body.get("enabled")
    schedules = [one for one in await server.schedules.of_tenant(caller.tenant) if one.spec.run.tool is None]
    shown = [_shown(server, one) for one in schedules]
    return [
        one
        for one in shown
        if (named is None or (graph is not None and one["assistant_id"] == assistant_id(graph)))
        and thread_id in (None, one["thread_id"])
        and enabled in (None, one["enabled"])
        and fields.contains(one["metadata"], wanted)
    ]


def _shown(server: ServerContext, one: Schedule) -> JsonObject:
    spec, attached = one.spec, one.attached or ScheduledWith()
    graph = f"{_WORKFLOW}{spec.run.workflow}" if spec.run.workflow is not None else spec.run.agent or ""
    due = server.schedules.next_times(one, 1)
    times = spec.cron or (f"@every {spec.every_seconds:g}s" if spec.every_seconds is not None else f"@at {spec.at}")
    return {
        "cron_id": one.name,
        "assistant_id": assistant_id(graph),
        "thread_id": attached.thread,
        "on_run_completed": attached.payload.get("on_run_completed"),
        "end_time": None if attached.until is None else iso(attached.until),
        "schedule": times,
        "timezone": spec.timezone,
        "created_at": iso(attached.created_at),
        "updated_at": iso(attached.updated_at),
        "payload": attached.payload or {"assistant_id": assistant_id(graph), "input": spec.run.input},
        "user_id": None,
        "next_run_date": iso(due[0]) if due else None,
        "metadata": dict(attached.metadata),
        "enabled": one.active,
    }


def _ok(answer: Any) -> Any:
    if isinstance(answer, Failure):
        raise HttpProblem(answer)
    return answer


_CREATE: Final = fields.takes(
    "schedule", "assistant_id", schedule=fields.STRING, assistant_id=fields.STRING, input=fields.ANYTHING,
    metadata=fields.OBJECT, timezone=fields.STRING, end_time=fields.STRING, enabled=fields.FLAG,
    on_run_completed={"enum": ["delete", "keep"]},
)  # fmt: skip
_PATCH: Final = fields.takes(
    schedule=fields.STRING, input=fields.ANYTHING, metadata=fields.OBJECT, timezone=fields.STRING,
    end_time=fields.ANYTHING, enabled=fields.FLAG,
)  # fmt: skip
_SEARCH: Final = fields.takes(
    assistant_id=fields.STRING, thread_id=fields.STRING, enabled=fields.FLAG, metadata=fields.OBJECT,
    limit=fields.NUMBER, offset=fields.NUMBER, sort_by={"enum": list(_SORTED_BY)}, select=fields.STRINGS,
)  # fmt: skip
