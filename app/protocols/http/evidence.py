"""/api/.../evidence: everything about a run or a thread as one archive. Leaves to others: its content (the dialect)."""

from fastapi import APIRouter, Response
from fastapi.responses import StreamingResponse

from app.core.principal import Principal
from app.protocols.context import ServerContext
from app.protocols.dialects.evidence_pack import EvidencePack
from app.protocols.http.caller import Caller
from app.protocols.http.deferred_route import DeferredRoute
from app.protocols.http.documents import may_answer, streams
from app.protocols.http.lookups import existing_run, existing_thread
from app.views.run import Run
from app.views.thread import Thread

_ZIP = "application/zip"


def routes(server: ServerContext) -> APIRouter:
    router = APIRouter(route_class=DeferredRoute, tags=["evidence"])
    described = streams(_ZIP, "A ZIP archive; `holdfast evidence verify` checks it.")

    @router.get(
        "/api/threads/{thread_id}/evidence",
        response_class=StreamingResponse,
        summary="The evidence of a thread",
        responses={**described, **may_answer("THREAD_NOT_FOUND", "THREAD_DELETED")},
    )
    async def thread_evidence(thread_id: str, caller: Caller) -> Response:
        return _answer(server, caller, await existing_thread(server, caller, thread_id), None)

    @router.get(
        "/api/runs/{run_id}/evidence",
        response_class=StreamingResponse,
        summary="The evidence of a run",
        responses={**described, **may_answer("RUN_NOT_FOUND", "THREAD_DELETED")},
    )
    async def run_evidence(run_id: str, caller: Caller) -> Response:
        run = await existing_run(server, caller, run_id)
        return _answer(server, caller, await existing_thread(server, caller, run.thread_id), run)

    return router


def _answer(server: ServerContext, caller: Principal, thread: Thread, run: Run | None) -> Response:
    pack = EvidencePack(server.reader, caller.tenant, thread, run, server.workspace_files)
    headers = {
        "content-disposition": 'attachment; filename="evidence.zip"',
        "x-content-type-options": "nosniff",
        "cache-control": "no-store",
    }
    return StreamingResponse(pack.pieces(), headers=headers, media_type=_ZIP)
