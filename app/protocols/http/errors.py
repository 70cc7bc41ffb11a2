"""Failures to HTTP answers: the one place where a code becomes a status. An error never echoes input.

The body follows the dialect of the address: our own, OpenAI's under `/v1/`, LangGraph's, MCP's, A2A's, the
published one for sessions. Whoever answers, a route or the gate, calls `answer` with the path.
"""

import re
from collections.abc import Callable
from functools import partial
from typing import Any, Final, TypeAlias
from urllib.parse import unquote

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import Response
from starlette.exceptions import HTTPException

from app.core import json
from app.core.error_codes import remedy_of
from app.core.errors import Failure, HoldfastError
from app.core.schemas import Issue
from app.protocols.auth.shown import BROWSER_PATHS
from app.protocols.dialects.a2a_errors import of_failure
from app.protocols.dialects.jsonrpc import REFUSED, RpcError, error_message, failure_data
from app.protocols.dialects.retry_after import wait_seconds

MAX_ISSUES: Final = 20
"""Places that an answer lists; who sends more mistakes corrects these first."""

STATUS: Final[dict[str, int]] = {
    "UNAUTHENTICATED": 401,
    "FORBIDDEN": 403,
    "CSRF_TOKEN_INVALID": 403,
    "SIGN_IN_REFUSED": 403,
    "APPROVER_NOT_ALLOWED": 403,
    "ORIGIN_REFUSED": 403,
    "THREAD_RESERVED": 403,
    "NOT_FOUND": 404,
    "AGENT_NOT_FOUND": 404,
    "WORKFLOW_NOT_FOUND": 404,
    "ROUTE_NOT_FOUND": 404,
    "JOB_NOT_FOUND": 404,
    "WEBHOOK_NOT_FOUND": 404,
    "DELIVERY_NOT_FOUND": 404,
    "MCP_SERVER_NOT_FOUND": 404,
    "MCP_OAUTH_NOT_DECLARED": 409,
    "MCP_LOGIN_FAILED": 422,
    "WEBHOOK_ADDRESS_REFUSED": 422,
    "WEBHOOK_DECLARED": 409,
    "WEBHOOK_OF_RUNS": 409,
    "JOB_MERGE_TOO_LARGE": 422,
    "SCHEDULE_NOT_FOUND": 404,
    "SCHEDULE_EXISTS": 409,
    "SCHEDULE_DECLARED": 409,
    "SCHEDULE_LIMIT": 409,
    "WEBHOOK_LIMIT": 409,
    "PUSH_LIMIT": 409,
    "RUN_NOT_FOUND": 404,
    "THREAD_NOT_FOUND": 404,
    "INTERRUPT_NOT_FOUND": 404,
    "BLOB_NOT_FOUND": 404,
    "TOOL_NOT_FOUND": 404,
    "MODEL_NOT_FOUND": 404,
    "ARTIFACT_NOT_FOUND": 404,
    "ARTIFACT_HAS_NO_CONTENT": 404,
    "ARTIFACT_HAS_NO_DIFF": 404,
    "UPLOAD_NOT_FOUND": 404,
    "KEY_NOT_FOUND": 404,
    "MEMORY_NOT_FOUND": 404,
    "DATASET_NOT_FOUND": 404,
    "EVALUATION_NOT_FOUND": 404,
    "EVALUATOR_NOT_FOUND": 404,
    "SKILL_CANDIDATE_NOT_FOUND": 404,
    "PROJECT_NOT_FOUND": 404,
    "PROJECT_EXISTS": 409,
    "MEMORY_NOT_DECLARED": 404,
    "MEMORY_RECORD_EXISTS": 409,
    "MEMORY_RECORD_CHANGED": 409,
    "MEMORY_REJECTED": 422,
    "METHOD_NOT_ALLOWED": 405,
    "BODY_TIMEOUT": 408,
    "BACKEND_NOT_AVAILABLE": 409,
    "THREAD_BUSY": 409,
    "THREAD_CLOSED": 409,
    "THREAD_EXISTS": 409,
    "RUN_TERMINAL": 409,
    "REPLAY_MISMATCH": 409,
    "WORKSPACE_GONE": 409,
    "RUN_IS_A_SUBAGENT": 409,
    "RUN_NOT_ENDED": 409,
    "EVENT_NOT_FOUND": 404,
    "ENTRY_CHANGED": 409,
    "TOO_MANY_AMENDMENTS": 409,
    "UNDO_RUN_ACTIVE": 409,
    "RUN_IS_AN_UNDO": 409,
    "UNDO_CONFLICT": 409,
    "CHECKPOINT_NOT_FOUND": 404,
    "UNDO_TOO_LARGE": 413,
    "RUN_HAS_NO_GRAPH": 409,
    "EVALUATION_RUNNING": 409,
    "DATASET_BUSY": 409,
    "INTERRUPT_NOT_OPEN": 409,
    "THREAD_DELETED": 410,
    "UPLOAD_DELETED": 410,
    "BODY_TOO_LARGE": 413,
    "VIEW_TOO_LARGE": 413,
    "RANGE_NOT_SATISFIABLE": 416,
    "IDEMPOTENCY_KEY_REUSED": 422,
    "QUEUE_FULL": 429,
    "RATE_LIMITED": 429,
    "RUNS_PER_MINUTE": 429,
    "TENANT_BUSY": 429,
    "EVALUATION_LIMIT": 429,
    "HEADERS_TOO_LARGE": 431,
    "INTERNAL": 500,
    "STORAGE_FULL": 503,
    "STORAGE_DOWN": 503,
    "STORAGE_FAILED": 503,
    "STORAGE_CORRUPT": 503,
    "STORAGE_BROKEN": 503,
    "QUEUE_OVERFLOW": 503,
    "SERVER_BUSY": 503,
    "NOT_READY": 503,
    "OVERLOADED": 503,
    "WORKSPACE_NOT_LOADED": 503,
    "WORKSPACE_UNAVAILABLE": 503,
}
"""Codes that are not here are the client's mistake: 400."""


class HttpProblem(HoldfastError):
    """Raised by a route to answer with a failure; `more` joins the error object."""

    def __init__(self, failure: Failure, issues: list[Issue] | None = None, **more: Any) -> None:
        super().__init__(failure.code, failure.message, retryable=failure.retryable, **failure.detail)
        self.issues = issues
        self.more = more


def status_of(code: str) -> int:
    return STATUS.get(code, 400)


def answer(
    failure: Failure, issues: list[Issue] | None = None, more: dict[str, Any] | None = None, *, path: str = ""
) -> Response:
    """The failure as the caller of that path expects it."""
    status = status_of(failure.code)
    body = dialect_of(path)(failure, status, (issues or [])[:MAX_ISSUES], more or {})
    return Response(json.dumps(body), status, _headers(failure, status, path), "application/json")


def _headers(failure: Failure, status: int, path: str) -> dict[str, str]:
    headers: dict[str, str] = {}
    if (waits := wait_seconds(failure, status)) is not None:
        headers["retry-after"] = str(waits)
    elif status == 401:
        headers["www-authenticate"] = _BASIC if path in BROWSER_PATHS else "Bearer"
    elif status in (408, 431):
        # Not after 413: a client that is still sending would see a broken connection instead of the answer.
        headers["connection"] = "close"
    elif status == 409 and path.startswith("/v1/"):
        headers["x-should-retry"] = "false"  # its clients would repeat a conflict by themselves
    return headers


_BASIC: Final = 'Basic realm="Holdfast: any name, and a key as the password", charset="UTF-8"'

Dialect: TypeAlias = Callable[[Failure, int, list[Issue], dict[str, Any]], dict[str, Any]]


def native(failure: Failure, status: int, issues: list[Issue], more: dict[str, Any]) -> dict[str, Any]:
    error: dict[str, Any] = {
        "code": failure.code,
        "message": failure.message,
        "remedy": remedy_of(failure.code, listed=bool(issues)),
    }
    if issues:
        error["issues"] = _issues(issues)
    return {"error": error | more}


def openai(failure: Failure, status: int, issues: list[Issue], more: dict[str, Any]) -> dict[str, Any]:
    """`code` is what its clients look at; a first wrong field goes into `param`."""
    code = "invalid_api_key" if status == 401 else failure.code.lower()
    places = "".join(f"; {issue.path or '/'}: {issue.message}" for issue in issues)
    param = issues[0].path.lstrip("/").replace("/", ".") or None if issues else None
    error = {"message": failure.message + places, "type": _OPENAI_TYPES.get(status), "param": param, "code": code}
    if error["type"] is None:
        error["type"] = "server_error" if status >= 500 else "invalid_request_error"
    return {"error": error | more}


def sessions(failure: Failure, status: int, issues: list[Issue], more: dict[str, Any]) -> dict[str, Any]:
    """The published contract: `status` says what kind of answer it is, `code` which."""
    code = _SESSION_CODES.get(failure.code, failure.code.lower())
    if failure.code.startswith("JSON_"):
        code = "request_failed"
    body = {"status": _SESSION_STATUS.get(status, "error"), "code": code, "message": failure.message}
    return body | ({"issues": _issues(issues)} if issues else {}) | more


def mcp(failure: Failure, status: int, issues: list[Issue], more: dict[str, Any]) -> dict[str, Any]:
    """A JSON-RPC error of a request whose id nobody has read."""
    return error_message(None, RpcError(REFUSED, failure.message, failure_data(failure, more, status)))


def a2a_rest(failure: Failure, status: int, issues: list[Issue], more: dict[str, Any]) -> dict[str, Any]:
    return of_failure(failure, status, more).rest


def a2a_rpc(failure: Failure, status: int, issues: list[Issue], more: dict[str, Any]) -> dict[str, Any]:
    """At the address of an agent itself, where JSON-RPC is spoken."""
    return error_message(None, of_failure(failure, status, more).rpc)


_OPENAI_TYPES: Final = {401: "authentication_error", 403: "permission_error", 429: "rate_limit_error"}
_SESSION_STATUS: Final = {403: "forbidden", 404: "not_found", 410: "deleted"}
_SESSION_CODES: Final = {
    "INTERNAL": "internal_error",
    "UNAUTHENTICATED": "auth_required",
    "FORBIDDEN": "insufficient_role",
    "THREAD_RESERVED": "system_session",
}
_NAMED: Final = re.compile("/api/(?P<kind>sessions|projects)/(?P<id>[^/]+)")
_SESSION_PATHS: Final = (
    "/api/sessions",
    "/api/approvals/",
    "/api/tool-input/",
    "/api/tool-calls/",
    "/api/projects",
    "/api/orchestrator/",
    "/api/capabilities",
    "/api/agents/extensions",
    "/api/features/",
    "/api/collaboration/",
    "/api/apps",
    "/api/skills/config",
    "/api/skills/remote",
    "/api/mcp/",
    "/api/account",
    "/api/config",
    "/api/commands/exec",
    "/api/feedback",
    "/api/models",
)


_A2A: Final = "/a2a/"
_A2A_PATHS: Final = (_A2A, "/.well-known/agent-card.json")
LANGGRAPH_PATHS: Final = ("/langgraph/", "/threads", "/runs", "/assistants", "/store/")
"""Its interface, which the settings may have at the root as well."""


def langgraph(failure: Failure, status: int, issues: list[Issue], more: dict[str, Any]) -> dict[str, Any]:
    """Its clients show `detail`."""
    places = "".join(f"; {issue.path or '/'}: {issue.message}" for issue in issues)
    return {"detail": failure.message + places, "code": failure.code}


def dialect_of(path: str) -> Dialect:
    if path.startswith("/v1/"):
        return openai
    if path.startswith(LANGGRAPH_PATHS):
        return langgraph
    if path == "/mcp":
        return mcp
    if path.startswith(_A2A_PATHS):
        return a2a_rpc if path.startswith(_A2A) and "/" not in path.removeprefix(_A2A) else a2a_rest
    if not is_session_path(path):
        return native
    named = _NAMED.match(path)
    return sessions if named is None else partial(_not_served, f"{named['kind'][:-1]}Id", named["id"])


def is_session_path(path: str) -> bool:
    """Whether the route belongs to the codex-manager sessions API."""
    return path.startswith(_SESSION_PATHS)


def _not_served(
    name: str, value: str, failure: Failure, status: int, issues: list[Issue], more: dict[str, Any]
) -> dict[str, Any]:
    """Clients of the contract look for the session, or the project, in every 404 beneath it."""
    body = sessions(failure, status, issues, more)
    return body | ({name: unquote(value)[:200]} if status == 404 else {})


def _issues(issues: list[Issue]) -> list[dict[str, str]]:
    return [{"path": issue.path, "message": issue.message} for issue in issues]


def unexpected(path: str) -> Response:
    """The answer to an exception that nobody expected."""
    return answer(Failure("INTERNAL", "An unexpected error occurred in the server."), path=path)


def install(app: FastAPI) -> None:
    @app.exception_handler(HttpProblem)
    async def _problem(request: Request, problem: HttpProblem) -> Response:
        return answer(problem.failure, problem.issues, problem.more, path=request.scope["path"])

    @app.exception_handler(HoldfastError)
    async def _known(request: Request, error: HoldfastError) -> Response:
        return answer(error.failure, path=request.scope["path"])

    @app.exception_handler(RequestValidationError)
    async def _invalid(request: Request, error: RequestValidationError) -> Response:
        # The framework's own body repeats what was sent; ours names the places only.
        issues = [Issue("/" + "/".join(map(str, e["loc"])), e["msg"]) for e in error.errors()[:MAX_ISSUES]]
        return answer(
            Failure("INVALID_REQUEST", "A parameter is missing or invalid."), issues, path=request.scope["path"]
        )

    @app.exception_handler(HTTPException)
    async def _framework(request: Request, error: HTTPException) -> Response:
        path = request.scope["path"]
        if error.status_code == 405:
            refused = answer(Failure("METHOD_NOT_ALLOWED", "The path does not support this method."), path=path)
            refused.headers.update(error.headers or {})  # the framework knows which methods there are
            return refused
        if error.status_code == 404:
            more = {"remedy": "See /docs for the paths of this server."}
            return answer(Failure("NOT_FOUND", "There is no route with this path."), more=more, path=path)
        return answer(Failure("INVALID_REQUEST", "The request cannot be read."), path=path)

    @app.exception_handler(Exception)
    async def _unexpected(request: Request, _error: Exception) -> Response:
        return unexpected(request.scope["path"])
