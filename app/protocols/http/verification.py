"""/api/threads/{id}/verify: whether the thread's chain of hashes holds, and where it breaks.

Leaves to others: the check itself (`events.chain`) and exporting a log to check it elsewhere (`thread_views`).
"""

from typing import Final

from fastapi import APIRouter, Response

from app.core.errors import Failure
from app.events.chain import Broken, ChainCheck
from app.protocols.context import ServerContext
from app.protocols.http.answers import json_answer
from app.protocols.http.caller import Caller
from app.protocols.http.deferred_route import DeferredRoute
from app.protocols.http.documents import may_answer
from app.protocols.http.errors import HttpProblem
from app.protocols.http.late_shapes import shapes
from app.protocols.http.lookups import MAX_EVENTS_OF_A_VIEW, existing_thread

_PAGE: Final = 500
"""Events whose hashes are computed before others get a turn: some milliseconds."""


def routes(server: ServerContext) -> APIRouter:
    router = APIRouter(route_class=DeferredRoute, prefix="/api/threads", tags=["threads"])

    @router.get(
        "/{thread_id}/verify",
        response_model=shapes.ChainVerification,
        summary="Whether the thread's chain of hashes is intact",
        responses=may_answer("THREAD_NOT_FOUND", "THREAD_DELETED", "VIEW_TOO_LARGE"),
    )
    async def verify(thread_id: str, caller: Caller) -> Response:
        """Computes the hash of every stored event again. That the newest events were cut off shows only against a head
        that was kept elsewhere: compare `lastSeq` and `headHash` with it."""
        thread = await existing_thread(server, caller, thread_id)
        if thread.last_seq > MAX_EVENTS_OF_A_VIEW:
            raise HttpProblem(Failure("VIEW_TOO_LARGE", f"There are more than {MAX_EVENTS_OF_A_VIEW} events."))
        check, after, count = ChainCheck(), 0, 0
        while page := await server.reader.events(caller.tenant, thread.id, after, _PAGE):
            check.feed(page)
            after, count = page[-1].seq, count + len(page)
        found = check.finish()
        broken = {"seq": found.seq, "reason": found.reason} if isinstance(found, Broken) else None
        return json_answer(
            {
                "threadId": thread.id,
                "intact": broken is None,
                "events": count,
                "dropped": 0 if isinstance(found, Broken) else found.dropped,
                "lastSeq": after,
                "headHash": None if isinstance(found, Broken) else found.hash,
                "broken": broken,
            }
        )

    return router
