"""/api/capabilities: which methods of the published session interface this server has, and why not the others.

Nothing is probed: what is here is known, so an answer is always fresh and `refresh` changes nothing.
"""

from typing import Annotated, Final, Literal

from fastapi import APIRouter, Query, Response

from app.core.clock import iso
from app.protocols.context import ServerContext
from app.protocols.http.answers import json_answer
from app.protocols.http.caller import Caller
from app.protocols.sessions.late_shapes import shapes
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
    "thread/rollback",
    "thread/compact/start",
    "turn/interrupt",
    "turn/steer",
    "item/tool/call",
    "item/tool/requestUserInput",
    "tool/requestUserInput",
    "model/list",
    "app/list",
    "skills/list",
    "mcpServerStatus/list",
    "config/read",
    "configRequirements/read",
    "config/mcpServer/reload",
)
_NEED_AN_AGENT: Final = ("turn/start",)
_ABSENT: Final = (
    "thread/backgroundTerminals/clean",
    "review/start",
    "command/exec",
    "config/value/write",
    "config/batchWrite",
    "skills/config/write",
    "skills/remote/read",
    "skills/remote/write",
    "collaborationMode/list",
    "experimentalFeature/list",
    "mcpServer/oauth/login",
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
    "toolUserInput": "item/tool/requestUserInput",
    "dynamicToolCall": "item/tool/call",
    "commandExec": "command/exec",
    "feedbackUpload": "feedback/upload",
    "mcpOauth": "mcpServer/oauth/login",
    "mcpReload": "config/mcpServer/reload",
    "accountLifecycle": "account/login/start",
    "configRead": "config/read",
    "configWrite": "config/value/write",
    "configRequirements": "configRequirements/read",
    "apps": "app/list",
    "skills": "skills/list",
    "collaborationModes": "collaborationMode/list",
    "experimentalFeatures": "experimentalFeature/list",
    "planUpdates": "turn/start",
    "diffUpdates": "turn/start",
    "tokenUsage": "turn/start",
}
"""A feature of the stream is there when turns are."""

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
    made |= {method: {"status": "disabled", "reason": "This server has no equivalent."} for method in _ABSENT}
    return dict(sorted(made.items()))
