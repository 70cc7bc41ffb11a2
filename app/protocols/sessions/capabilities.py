"""/api/capabilities: which methods of the published session interface this server has, and why not the others.

Nothing is probed: what is here is known, so an answer is always fresh and `refresh` changes nothing.
"""

from typing import Annotated, Final, Literal

from fastapi import APIRouter, Query, Response

from app.core.clock import iso
from app.protocols.context import ServerContext
from app.protocols.http.answers import json_answer
from app.protocols.http.caller import Caller
from app.protocols.sessions import shapes
from app.protocols.sessions.route import SessionRoute

_SERVED: Final = (
    "thread/start",
    "thread/resume",
    "thread/fork",
    "thread/list",
    "thread/read",
    "thread/archive",
    "thread/unarchive",
    "thread/name/set",
    "turn/interrupt",
    "turn/steer",
)
_NEED_AN_AGENT: Final = ("turn/start",)
_ELSEWHERE: Final = {
    "model/list": "ask GET /v1/models or GET /api/agents",
    "app/list": "ask GET /api/agents",
    "skills/list": "ask GET /api/workspace",
    "mcpServerStatus/list": "ask GET /api/tools",
    "config/read": "ask GET /api/workspace",
    "thread/compact/start": "an agent's contextPolicy says when its conversation is summed up",
    "thread/rollback": "fork the thread at a seq, or send a message with the busy policy `rollback`",
}
_ABSENT: Final = (
    "thread/backgroundTerminals/clean",
    "review/start",
    "command/exec",
    "config/value/write",
    "config/batchWrite",
    "collaborationMode/list",
    "experimentalFeature/list",
    "mcpServer/oauth/login",
    "config/mcpServer/reload",
    "account/read",
    "account/login/start",
    "account/login/cancel",
    "account/logout",
    "account/rateLimits/read",
    "feedback/upload",
)
_FEATURES: Final = {
    "threadFork": "thread/fork",
    "turnSteer": "turn/steer",
    "threadCompact": "thread/compact/start",
    "threadRollback": "thread/rollback",
    "threadBackgroundTerminalClean": "thread/backgroundTerminals/clean",
    "reviewStart": "review/start",
}

Detail = dict[str, str | None]


def routes(server: ServerContext) -> APIRouter:
    router = APIRouter(prefix="/api", tags=["sessions"], route_class=SessionRoute)

    @router.get(
        "/capabilities", response_model=shapes.CapabilitiesShape, summary="What of the session interface is served"
    )
    async def capabilities(
        _caller: Caller, refresh: Annotated[Literal["true", "false"], Query()] = "false"
    ) -> Response:
        workspace = server.workspace.current
        details = _details(has_agent=workspace.default_agent is not None)
        body = {
            "status": "ok",
            "runtime": {"initialized": True, "capabilitiesLastUpdatedAt": iso(server.clock.now_ms())},
            "methods": {method: detail["status"] for method, detail in details.items()},
            "details": details,
            "features": {name: details[method]["status"] == "available" for name, method in _FEATURES.items()},
        }
        return json_answer(body)

    return router


def _details(*, has_agent: bool) -> dict[str, Detail]:
    made: dict[str, Detail] = {method: {"status": "available", "reason": None} for method in _SERVED}
    for method in _NEED_AN_AGENT:
        reason = None if has_agent else "the workspace has no default agent: name one as the session's model"
        made[method] = {"status": "available", "reason": reason}
    made |= {method: {"status": "disabled", "reason": reason} for method, reason in _ELSEWHERE.items()}
    made |= {method: {"status": "disabled", "reason": "this server has nothing like it"} for method in _ABSENT}
    return dict(sorted(made.items()))
