"""/api/stats/series: runs, errors, tokens and cost over time, and how much is going on now.

Computed from runs as they are folded from the log.
Leaves to others: figures of the process (`/metrics`), of one run (`/usage`).
"""

from typing import Annotated, Final, Literal

from fastapi import APIRouter, Query, Response

from app.core.clock import iso
from app.protocols.context import ServerContext
from app.protocols.http.answers import json_answer
from app.protocols.http.caller import Caller
from app.protocols.http.deferred_route import DeferredRoute
from app.protocols.http.late_shapes import shapes
from app.views.ports import SeriesPoint

Range = Literal["15m", "1h", "6h", "24h", "7d"]
_MINUTE: Final = 60_000
_RANGES: Final[dict[str, tuple[int, int]]] = {
    # How far back, and how long each interval is, in milliseconds: at most 96 intervals.
    "15m": (15 * _MINUTE, _MINUTE // 4),
    "1h": (60 * _MINUTE, _MINUTE),
    "6h": (360 * _MINUTE, 5 * _MINUTE),
    "24h": (1440 * _MINUTE, 15 * _MINUTE),
    "7d": (10_080 * _MINUTE, 120 * _MINUTE),
}


def routes(server: ServerContext) -> APIRouter:
    router = APIRouter(route_class=DeferredRoute, prefix="/api/stats", tags=["stats"])

    @router.get("/series", response_model=shapes.StatsSeries, summary="Runs, errors, tokens and cost over time")
    async def series(
        caller: Caller, wanted: Annotated[Range, Query(alias="range", description="how far back from now")] = "1h"
    ) -> Response:
        """A run counts in the interval in which it was created, with the status that it has now. Tokens and cost are
        those of the newest 5,000 runs: `usageSince` says from when on they are complete."""
        back, step = _RANGES[wanted]
        until = server.clock.now_ms()
        since = (until - back) // step * step
        found = await server.reader.run_series(caller.tenant, since, step)
        places = range(since, until + 1, step)
        return json_answer(
            {
                "from": iso(since),
                "until": iso(until),
                "stepSeconds": step / 1000,
                "usageSince": iso(found.summed_since),
                "points": [{"at": iso(at), **_point(found.points.get(at, SeriesPoint()))} for at in places],
                "queued": found.active.get("queued", 0),
                "running": found.active.get("running", 0),
                "waiting": found.active.get("waiting", 0),
                "openInterrupts": found.open_interrupts,
            }
        )

    return router


def _point(point: SeriesPoint) -> dict[str, float]:
    ended = {status: point.statuses.get(status, 0) for status in ("completed", "failed", "cancelled")}
    used = {
        "inputTokens": point.input_tokens,
        "outputTokens": point.output_tokens,
        "costUsd": round(point.cost_usd, 6),
    }
    return {"runs": sum(point.statuses.values()), **ended, **used}
