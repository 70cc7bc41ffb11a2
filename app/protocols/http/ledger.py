"""/api/ledger: what was recorded about the tenant as a whole, newest first: keys, reloads, denied accesses.

The same events as those of the thread `sys_ledger`, which exists only once something was recorded.
"""

from fastapi import APIRouter, Response

from app.protocols.context import ServerContext
from app.protocols.http.answers import events_answer
from app.protocols.http.body import Cursor
from app.protocols.http.caller import Caller
from app.protocols.http.deferred_route import DeferredRoute
from app.protocols.http.late_shapes import shapes
from app.protocols.http.parameters import EventType, Limit, of_type
from app.runtime.intake.ledger import LEDGER_THREAD
from app.views.thread import Thread


def routes(server: ServerContext) -> APIRouter:
    router = APIRouter(route_class=DeferredRoute, prefix="/api", tags=["access"])

    @router.get("/ledger", response_model=shapes.EventPage, summary="What was recorded about the tenant, newest first")
    async def ledger(caller: Caller, after: Cursor = 0, limit: Limit = 100, type: EventType = None) -> Response:
        """`after` is the `seq` of the last entry of the page before. With `type` a page may be empty though there is
        more: only `nextCursor` says whether there is."""
        thread = await server.reader.thread(caller.tenant, LEDGER_THREAD)
        if not isinstance(thread, Thread):
            return events_answer([], None)
        before = after or thread.last_seq + 1
        first = max(0, before - 1 - limit)
        found = await server.reader.events(caller.tenant, LEDGER_THREAD, first, limit)
        page = [event for event in reversed(found) if event.seq < before]
        keep = of_type(type)
        cursor = first + 1 if first else None
        return events_answer(page if keep is None else list(filter(keep, page)), cursor)

    return router
