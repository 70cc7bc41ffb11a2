"""/api/doctor and /api/retention: how the server is, and how long it keeps what.

Leaves to others: the checks (`wiring.checkup`), deleting what is due (`runtime.schedule`).
"""

from fastapi import APIRouter, Response

from app.core.json import JsonObject
from app.protocols.context import ServerContext
from app.protocols.http.answers import json_answer
from app.protocols.http.caller import Caller
from app.protocols.http.deferred_route import DeferredRoute
from app.protocols.http.late_shapes import shapes
from app.runtime.schedule.effective_settings import EffectiveSettings


def routes(server: ServerContext) -> APIRouter:
    router = APIRouter(route_class=DeferredRoute, prefix="/api", tags=["operation"])
    effective = EffectiveSettings(server.settings, server.workspace)

    @router.get("/doctor", response_model=shapes.DoctorReport, summary="Check everything that this server needs")
    async def doctor(_caller: Caller) -> Response:
        """The checks of `holdfast doctor`, done by the server itself; they change nothing. An answer is kept for 10
        seconds, and all checks together take at most 30."""
        return json_answer(await server.doctor())

    @router.get("/retention", response_model=shapes.RetentionReport, summary="How long this server keeps what")
    async def retention(_caller: Caller) -> Response:
        """Of a setting of the server and a value of the workspace the smaller counts."""
        given, ceilings = server.workspace.current.runtime.retention, server.settings
        return json_answer(
            {
                "items": [
                    _rule("deltas", effective.delta_days, given.delta_days, ceilings.retention_delta_days),
                    _rule("threads", effective.threads_days, given.threads_days, ceilings.retention_threads_days),
                    _rule("deleted", effective.deleted_days, given.deleted_days, ceilings.retention_deleted_days),
                ]
            }
        )

    return router


def _rule(what: str, days: int | None, workspace: int | None, setting: int | None) -> JsonObject:
    return {"what": what, "days": days, "workspaceDays": workspace, "settingDays": setting}
