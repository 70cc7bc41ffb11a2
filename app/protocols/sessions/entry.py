"""/api and /api/health: what a client of the codex-manager sessions API asks first.

`/healthz` and `/readyz` are for operators; these say the same in that API's words.
"""

from fastapi import APIRouter, Response

from app import __version__
from app.core.clock import iso
from app.protocols.context import ServerContext
from app.protocols.http.answers import json_answer
from app.protocols.http.caller import Caller
from app.protocols.sessions.late_shapes import discovery_shapes as shapes
from app.protocols.sessions.route import SessionRoute


def routes(server: ServerContext) -> APIRouter:
    router = APIRouter(tags=["sessions"], route_class=SessionRoute)

    @router.get("/api", response_model=shapes.ApiEntry, summary="The server's name and version")
    async def entry(_caller: Caller) -> Response:
        return json_answer({"name": "holdfast", "version": __version__})

    @router.get("/api/health", response_model=shapes.ApiHealth, summary="Whether the server works")
    async def health(_caller: Caller) -> Response:
        """`codex` is this server itself: no other process has to run. A model's own credentials are its provider's."""
        workspace = server.workspace.current
        has_key = any(model.spec.api_key is not None for model in workspace.models.values())
        return json_answer(
            {
                "status": "ok",
                "service": "holdfast",
                "codex": {"running": True, "pid": None, "initialized": server.workspace.unavailable is None},
                "orchestratorQueue": {"enabled": True, "draining": server.lifecycle.draining},
                "auth": {"hasOpenAiApiKey": has_key, "codexHomeAuthFile": False, "likelyUnauthenticated": False},
                "timestamp": iso(server.clock.now_ms()),
            }
        )

    return router
