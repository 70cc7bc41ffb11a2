"""Threads of the LangGraph interface: create, search, count, show, change, copy, delete, prune."""

import re
from typing import Any, Final

from fastapi import APIRouter, Request, Response

from app.core.json import JsonObject
from app.core.principal import Principal
from app.protocols.context import ServerContext
from app.protocols.dialects.langgraph_states import TEMPORARY
from app.protocols.http.caller import Caller
from app.protocols.http.errors import HttpProblem
from app.protocols.http.lookups import existing_thread
from app.protocols.http.submission import THREAD_ID
from app.protocols.langgraph import fields
from app.protocols.langgraph.errors import Declined
from app.protocols.langgraph.thread_reading import shown_thread
from app.runtime.intake.rejection import Rejected
from app.runtime.intake.threads import NewThread, ThreadChange
from app.views.thread import Thread

STATUSES: Final = ("idle", "busy", "interrupted", "error")
_SORTED_BY: Final = ("thread_id", "status", "created_at", "updated_at", "state_updated_at")
_PAGE: Final = 500
_MAX_LOOKED_AT: Final = 20_000
"""Threads that one search looks at; a tenant with more narrows it by `ids`."""
_ID: Final = re.compile(THREAD_ID)
_UNSERVED: Final = {
    "supersteps": "a thread begins empty; send its messages with the first run.",
    "ttl": "how long threads are kept is the workspace's retention; delete the thread when it is no longer needed.",
    "extract": "select takes the fields of a thread; what is within its values is found by its client.",
}
"""Fields that would promise what nothing keeps, and what to do instead."""


def add_threads(router: APIRouter, server: ServerContext) -> None:
    @router.post("/threads", summary="Create a thread", openapi_extra=_CREATE)
    async def create_thread(request: Request, caller: Caller) -> Response:
        body = await fields.read_object(request)
        _refuse_unserved(body)
        wanted, keep = (
            fields.text(body, "thread_id"),
            fields.choice(body, "if_exists", ("raise", "do_nothing"), "raise"),
        )
        if wanted is not None and not _ID.fullmatch(wanted):
            raise Declined("thread_id must not contain a slash or control characters.")
        made = await server.threads.create(caller, NewThread(wanted, metadata=fields.metadata(body)))
        if isinstance(made, Rejected):
            if made.failure.code != "THREAD_EXISTS" or keep != "do_nothing" or wanted is None:
                raise HttpProblem(made.failure)
            made = await existing_thread(server, caller, wanted)
        return fields.reply(await shown_thread(server, caller, made))

    @router.post("/threads/search", summary="Find threads", openapi_extra=_SEARCH)
    async def search_threads(request: Request, caller: Caller) -> Response:
        body = await fields.read_object(request)
        _refuse_unserved(body)
        found = await _found(server, caller, body)
        limit, offset = (
            fields.whole(body, "limit", 10, fields.MAX_LIMIT),
            fields.whole(body, "offset", 0, fields.MAX_OFFSET),
        )
        page = found[offset : offset + limit]
        select = fields.texts(body, "select")
        with_values = not select or "values" in select or "interrupts" in select
        wanted = fields.mapping(body, "values")
        shown = [await shown_thread(server, caller, one, with_values=with_values or bool(wanted)) for one in page]
        shown = [one for one in shown if not wanted or fields.contains(one["values"], wanted)]
        headers = {"x-pagination-total": str(len(found))}
        if offset + limit < len(found):
            headers["x-pagination-next"] = str(offset + limit)
        return fields.reply([fields.selected(one, select) for one in shown], headers)

    @router.post("/threads/count", summary="Count threads", openapi_extra=_SEARCH)
    async def count_threads(request: Request, caller: Caller) -> Response:
        body = await fields.read_object(request)
        found = await _found(server, caller, body)
        wanted = fields.mapping(body, "values")
        if wanted:
            shown = [await shown_thread(server, caller, one) for one in found]
            return fields.reply(sum(fields.contains(one["values"], wanted) for one in shown))
        return fields.reply(len(found))

    @router.post("/threads/prune", summary="Delete threads", openapi_extra=_PRUNE)
    async def prune_threads(request: Request, caller: Caller) -> Response:
        body = await fields.read_object(request)
        if fields.choice(body, "strategy", ("delete", "keep_latest"), "delete") != "delete":
            raise Declined("strategy: a log is kept whole or deleted; only `delete` is available.")
        ids = fields.texts(body, "thread_ids")
        if not ids:
            raise Declined("thread_ids must name the threads to delete.")
        pruned = 0
        for thread_id in ids:
            done = await server.threads.delete(caller, thread_id, "pruned by a LangGraph client")
            if not isinstance(done, Rejected):
                pruned += 1
            elif done.failure.code not in ("THREAD_NOT_FOUND", "THREAD_DELETED"):
                raise HttpProblem(done.failure)
        return fields.reply({"pruned_count": pruned})


def add_one_thread(router: APIRouter, server: ServerContext) -> None:
    @router.get("/threads/{thread_id}", summary="One thread")
    async def get_thread(thread_id: str, caller: Caller) -> Response:
        return fields.reply(await shown_thread(server, caller, await existing_thread(server, caller, thread_id)))

    @router.patch("/threads/{thread_id}", summary="Change a thread's metadata", openapi_extra=_PATCH)
    async def update_thread(thread_id: str, request: Request, caller: Caller) -> Response:
        body = await fields.read_object(request)
        _refuse_unserved(body)
        changed = await server.threads.update(caller, thread_id, ThreadChange(metadata=fields.metadata(body)))
        return fields.reply(await shown_thread(server, caller, _accepted(changed)))

    @router.delete("/threads/{thread_id}", status_code=204, summary="Delete a thread")
    async def delete_thread(thread_id: str, caller: Caller) -> Response:
        _accepted(await server.threads.delete(caller, thread_id))
        return Response(status_code=204)

    @router.post("/threads/{thread_id}/copy", summary="A new thread with this one's history")
    async def copy_thread(thread_id: str, caller: Caller) -> Response:
        made = _accepted(await server.threads.fork(caller, thread_id))
        return fields.reply(await shown_thread(server, caller, made))


def _refuse_unserved(body: JsonObject) -> None:
    for name, message in _UNSERVED.items():
        if body.get(name):
            raise Declined(f"{name}: {message}")


async def _found(server: ServerContext, caller: Principal, body: JsonObject) -> list[Thread]:
    """Those that a search names, in its order; without the ones of runs that had no thread."""
    status = body.get("status")
    if status is not None and status not in STATUSES:
        raise Declined(f"status must be one of {', '.join(STATUSES)}.")
    wanted, ids = fields.metadata(body), fields.texts(body, "ids")
    found: list[Thread] = []
    for thread in await _looked_at(server, caller, ids):
        if TEMPORARY in thread.labels:
            continue
        if status is None and not wanted:
            found.append(thread)
            continue
        shown = await shown_thread(server, caller, thread, with_values=False)
        if status in (None, shown["status"]) and fields.contains(shown["metadata"], wanted):
            found.append(thread)
    return _sorted(found, body)


async def _looked_at(server: ServerContext, caller: Principal, ids: list[str] | None) -> list[Thread]:
    if ids is not None:
        known = [await server.reader.thread(caller.tenant, one) for one in dict.fromkeys(ids)]
        return [one for one in known if isinstance(one, Thread) and one.deleted_at is None and one.owner == "user"]
    found: list[Thread] = []
    before: int | None = None
    while len(found) < _MAX_LOOKED_AT:
        page = await server.reader.newest_threads(caller.tenant, before=before, system=False, limit=_PAGE)
        found += [thread for _, thread in page]
        if len(page) < _PAGE:
            break
        before = page[-1][0]
    return found


def _sorted(found: list[Thread], body: JsonObject) -> list[Thread]:
    by = fields.choice(body, "sort_by", _SORTED_BY, "created_at")
    up = fields.choice(body, "sort_order", ("asc", "desc"), "desc") == "asc"
    keys: dict[str, Any] = {
        "thread_id": lambda thread: thread.id,
        "status": lambda thread: thread.status,
        "created_at": lambda thread: thread.created_at,
    }
    return sorted(found, key=keys.get(by, lambda thread: thread.updated_at), reverse=not up)


def _accepted(answer: Thread | Rejected) -> Thread:
    if isinstance(answer, Rejected):
        raise HttpProblem(answer.failure)
    return answer


_CREATE: Final = fields.takes(
    thread_id=fields.STRING, metadata=fields.OBJECT, if_exists={"enum": ["raise", "do_nothing"]}
)
_SEARCH: Final = fields.takes(
    metadata=fields.OBJECT,
    values=fields.OBJECT,
    ids=fields.STRINGS,
    status={"enum": list(STATUSES)},
    limit=fields.NUMBER,
    offset=fields.NUMBER,
    sort_by={"enum": list(_SORTED_BY)},
    sort_order={"enum": ["asc", "desc"]},
    select=fields.STRINGS,
)
_PRUNE: Final = fields.takes("thread_ids", thread_ids=fields.STRINGS, strategy={"enum": ["delete"]})
_PATCH: Final = fields.takes(metadata=fields.OBJECT)
