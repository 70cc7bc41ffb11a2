"""What all session routes share: the contract's error bodies, its gates in their order, and reading a body.

A session is a thread. Leaves to others: what a route does, and who may call it.
"""

from collections.abc import Callable, Coroutine
from typing import Any, NoReturn, TypeVar

from fastapi import Request, Response
from pydantic import BaseModel, ConfigDict
from pydantic.alias_generators import to_camel

from app.core import json
from app.core.clock import SystemClock, iso
from app.core.errors import HoldfastError
from app.core.principal import Principal
from app.protocols.context import ServerContext
from app.protocols.dialects.codex import UNTITLED
from app.protocols.http.body import read_body, validated
from app.protocols.http.deferred_route import DeferredRoute
from app.protocols.http.errors import HttpProblem
from app.runtime.intake.rejection import SYSTEM_THREADS, Rejected
from app.views.ports import Tombstone
from app.views.thread import Thread

M = TypeVar("M", bound=BaseModel)


class SessionBody(BaseModel):
    """Unknown fields are ignored, as the contract does."""

    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True, defer_build=True)


class SessionRefused(HoldfastError):
    """Answered with this status and body."""

    def __init__(self, status: int, body: dict[str, Any]) -> None:
        super().__init__("INVALID_REQUEST", str(body.get("message", "refused")))
        self.status, self.body = status, body


class SessionRoute(DeferredRoute):
    """Answers refusals as the contract has them; other failures find their dialect by the path, as everywhere."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handle = super().get_route_handler()

        async def in_dialect(request: Request) -> Response:
            try:
                return await handle(request)
            except SessionRefused as refused:
                return Response(json.dumps(refused.body), refused.status, None, "application/json")

        return in_dialect


# -- gates --------------------------------------------------------------------------------------------


async def session(server: ServerContext, caller: Principal, session_id: str, *, system: bool = False) -> Thread:
    """Deleted, system-owned, missing: in this order. With `system` the system's own are let through."""
    found = await server.reader.thread(caller.tenant, session_id)
    if isinstance(found, Tombstone) or (found is not None and found.deleted_at is not None):
        _deleted(session_id, found)
    if session_id.startswith(SYSTEM_THREADS) and not system:
        _system(session_id)
    if found is None:
        raise SessionRefused(404, {"status": "not_found", "sessionId": session_id})
    return found


def _deleted(session_id: str, found: Thread | Tombstone) -> NoReturn:
    body: dict[str, Any] = {"status": "deleted", "sessionId": session_id, "message": "The session was deleted."}
    # Of one that an earlier version purged it is not known when it was deleted; it was long ago.
    body["deletedAt"] = iso(found.deleted_at or 0)
    if isinstance(found, Thread):
        body["title"] = found.title or UNTITLED
    raise SessionRefused(410, body)


def _system(session_id: str) -> NoReturn:
    message = "The session belongs to the system: it can be read, but not used or changed."
    raise SessionRefused(
        403, {"status": "error", "code": "system_session", "sessionId": session_id, "message": message}
    )


def expect_thread(answer: Thread | Rejected, session_id: str) -> Thread:
    """For what the gates let through and the log refused: something happened in between."""
    if not isinstance(answer, Thread):
        refuse(answer, session_id)
    return answer


def refuse(answer: Rejected, session_id: str) -> NoReturn:
    match answer.failure.code:
        case "THREAD_DELETED":
            _deleted(session_id, Tombstone(session_id, 0, "", SystemClock().now_ms()))
        case "THREAD_RESERVED":
            _system(session_id)
        case "THREAD_NOT_FOUND":
            raise SessionRefused(404, {"status": "not_found", "sessionId": session_id})
        case "THREAD_CLOSED" | "THREAD_BUSY" | "RUN_TERMINAL" | "BACKEND_NOT_AVAILABLE":
            raise SessionRefused(409, {"status": "error", "code": "invalid_state", "message": answer.failure.message})
        case "AGENT_NOT_FOUND" | "AGENT_REQUIRED" | "MODEL_NOT_FOUND" | "CLIENT_TOOLS_REFUSED":
            raise SessionRefused(400, {"status": "error", "code": "invalid_params", "message": answer.failure.message})
    raise HttpProblem(answer.failure)


async def read(request: Request, model: type[M]) -> M:
    """A POST without a body and without a type is one with an empty object; else something must be there."""
    raw = await read_body(request)
    if not raw and "content-type" not in request.headers:
        raw = b"{}"
    return await validated(raw, model)
