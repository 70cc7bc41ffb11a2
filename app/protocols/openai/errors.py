"""Failures as OpenAI clients expect them: `{"error": {message, type, param, code}}` and headers that steer retries.

Their clients retry 408, 409, 429 and 5xx unless a header says otherwise; answers that a retry cannot change have it.
"""

from collections.abc import Mapping
from typing import Any, Final

from fastapi import Request, Response
from fastapi.exceptions import RequestValidationError

from app.core import json
from app.core.errors import Failure, HoldfastError
from app.protocols.dialects.retry_after import wait_seconds
from app.protocols.http.errors import STATUS, HttpProblem
from app.protocols.http.straight import Handler, StraightRoute

_TYPES: Final = {
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    409: "conflict_error",
    429: "rate_limit_error",
}
_CODES: Final = {
    "UNAUTHENTICATED": "invalid_api_key",
    "AGENT_NOT_FOUND": "model_not_found",
    "WORKFLOW_NOT_FOUND": "model_not_found",
    "MODEL_NOT_FOUND": "model_not_found",
    "INPUT_TOO_LONG": "context_length_exceeded",
}
_PARAMS: Final = {
    "AGENT_NOT_FOUND": "model",
    "WORKFLOW_NOT_FOUND": "model",
    "MODEL_NOT_FOUND": "model",
    "AGENT_REQUIRED": "model",
    "THREAD_NOT_FOUND": "metadata.thread_id",
    "UPLOAD_NOT_FOUND": "file_id",
    "UPLOAD_DELETED": "file_id",
}
_OF_A_RUN: Final = {
    "INPUT_TOO_LONG": 400,
    "NEGOTIATION_FAILED": 400,
    "RUN_CANCELLED": 409,
    "BUDGET_EXCEEDED": 429,
    "PROVIDER_ERROR": 502,
}
"""How a run's own failure is answered; the rest is 500."""
_WORTH_A_RETRY: Final = frozenset({429, 503})


class Refusal(HoldfastError):
    """Raised to answer in this dialect; `param` names the field that is wrong, never its value."""

    def __init__(self, code: str, message: str, *, param: str | None = None, status: int = 400, **more: Any) -> None:
        super().__init__(code, message)
        self.param, self.status, self.more = param, status, more


def body(code: str, message: str, status: int, param: str | None = None, more: Mapping[str, Any] = {}) -> bytes:
    kind = _TYPES.get(status, "server_error" if status >= 500 else "invalid_request_error")
    spelled = _CODES.get(code, code.lower())
    return json.dumps({"error": {"message": message, "type": kind, "param": param, "code": spelled, **more}})


def answer(failure: Failure, *, status: int | None = None, param: str | None = None, **more: Any) -> Response:
    status = STATUS.get(failure.code, 400) if status is None else status
    param = param or _PARAMS.get(failure.code)
    retry = status in _WORTH_A_RETRY and failure.code != "BUDGET_EXCEEDED"
    headers = {"x-should-retry": "true" if retry else "false"} | (
        {"retry-after": str(wait_seconds(failure, status) or 1)} if retry else {}
    )
    return Response(body(failure.code, failure.message, status, param, more), status, headers, "application/json")


def failed_run(error: Mapping[str, Any], run_id: str) -> Response:
    """A retry would only meet the same run again."""
    failure = Failure(error["code"], error["message"])
    made = answer(failure, status=_OF_A_RUN.get(failure.code, 500), runId=run_id)
    made.headers["x-should-retry"] = "false"
    return made


class OpenAiRoute(StraightRoute):
    """Every failure of a route, its dependencies included, is answered in this dialect."""

    def answering(self, handle: Handler) -> Handler:
        async def answered(request: Request) -> Response:
            try:
                return await handle(request)
            except Refusal as refusal:
                return answer(refusal.failure, status=refusal.status, param=refusal.param, **refusal.more)
            except HttpProblem as problem:
                issue = problem.issues[0].path if problem.issues else None
                return answer(problem.failure, param=issue, **problem.more)
            except HoldfastError as error:
                return answer(error.failure)
            except RequestValidationError as error:
                places = [".".join(map(str, issue["loc"][1:])) for issue in error.errors()[:1]]
                failure = Failure("INVALID_REQUEST", "A parameter is missing or invalid.")
                return answer(failure, param=places[0] if places else None)

        return answered
