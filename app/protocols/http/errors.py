"""Failures to HTTP answers: the one place where a code becomes a status. An error never echoes input."""

from typing import Any, Final

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import Response
from starlette.exceptions import HTTPException

from app.core import json
from app.core.error_codes import CODES
from app.core.errors import Failure, HoldfastError
from app.core.schemas import Issue

STATUS: Final[dict[str, int]] = {
    "THREAD_RESERVED": 403,
    "NOT_FOUND": 404,
    "AGENT_NOT_FOUND": 404,
    "RUN_NOT_FOUND": 404,
    "THREAD_NOT_FOUND": 404,
    "INTERRUPT_NOT_FOUND": 404,
    "BLOB_NOT_FOUND": 404,
    "TOOL_NOT_FOUND": 404,
    "ARTIFACT_NOT_FOUND": 404,
    "ARTIFACT_HAS_NO_CONTENT": 404,
    "UPLOAD_NOT_FOUND": 404,
    "METHOD_NOT_ALLOWED": 405,
    "BACKEND_NOT_AVAILABLE": 409,
    "THREAD_BUSY": 409,
    "THREAD_CLOSED": 409,
    "THREAD_EXISTS": 409,
    "RUN_TERMINAL": 409,
    "INTERRUPT_NOT_OPEN": 409,
    "THREAD_DELETED": 410,
    "UPLOAD_DELETED": 410,
    "BODY_TOO_LARGE": 413,
    "VIEW_TOO_LARGE": 413,
    "IDEMPOTENCY_KEY_REUSED": 422,
    "QUEUE_FULL": 429,
    "TENANT_BUSY": 429,
    "INTERNAL": 500,
    "STORAGE_FULL": 503,
    "STORAGE_DOWN": 503,
    "STORAGE_BROKEN": 503,
    "QUEUE_OVERFLOW": 503,
    "SERVER_BUSY": 503,
    "NOT_READY": 503,
    "WORKSPACE_NOT_LOADED": 503,
}
"""Codes that are not here are the client's mistake: 400."""

_RETRY_AFTER: Final = frozenset({429, 503})


class Problem(HoldfastError):
    """Raised by a route to answer with a failure; `more` joins the error object."""

    def __init__(self, failure: Failure, issues: list[Issue] | None = None, **more: Any) -> None:
        super().__init__(failure.code, failure.message, retryable=failure.retryable)
        self.issues = issues
        self.more = more


def answer(failure: Failure, issues: list[Issue] | None = None, more: dict[str, Any] | None = None) -> Response:
    status = STATUS.get(failure.code, 400)
    error: dict[str, Any] = {
        "code": failure.code,
        "message": failure.message,
        "remedy": CODES[failure.code].remedy,
    }
    if issues:
        error["issues"] = [{"path": issue.path, "message": issue.message} for issue in issues]
    headers = {"retry-after": "1"} if status in _RETRY_AFTER else {}
    return Response(json.dumps({"error": error | (more or {})}), status, headers, "application/json")


def install(app: FastAPI) -> None:
    @app.exception_handler(Problem)
    async def _problem(_request: Request, problem: Problem) -> Response:
        return answer(problem.failure, problem.issues, problem.more)

    @app.exception_handler(HoldfastError)
    async def _known(_request: Request, error: HoldfastError) -> Response:
        return answer(error.failure)

    @app.exception_handler(RequestValidationError)
    async def _invalid(_request: Request, error: RequestValidationError) -> Response:
        # The framework's own body repeats what was sent; ours names the places only.
        issues = [Issue("/" + "/".join(map(str, e["loc"])), e["msg"]) for e in error.errors()]
        return answer(Failure("INVALID_REQUEST", "a parameter is missing or wrong"), issues)

    @app.exception_handler(HTTPException)
    async def _framework(_request: Request, error: HTTPException) -> Response:
        if error.status_code == 405:
            refused = answer(Failure("METHOD_NOT_ALLOWED", "the path exists, the method does not"))
            refused.headers.update(error.headers or {})  # the framework knows which methods there are
            return refused
        if error.status_code == 404:
            return answer(Failure("NOT_FOUND", "there is nothing at this path"))
        return answer(Failure("INVALID_REQUEST", "the request cannot be read"))

    @app.exception_handler(Exception)
    async def _unexpected(_request: Request, _error: Exception) -> Response:
        return answer(Failure("INTERNAL", "something failed that should not"))
