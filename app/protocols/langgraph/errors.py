"""Failures as LangGraph Server answers them: `{"detail": text}` with 404, 409 or 422."""

from typing import Final

from fastapi.exceptions import RequestValidationError
from fastapi.requests import Request
from fastapi.responses import Response

from app.core import json
from app.core.errors import Failure, HoldfastError
from app.core.schemas import Issue
from app.protocols.dialects.retry_after import wait_seconds
from app.protocols.http.errors import HttpProblem, status_of
from app.protocols.http.straight import Handler, StraightRoute

_STATUS: Final = {
    "AGENT_NOT_FOUND": 422,
    "AGENT_REQUIRED": 422,
    "WORKFLOW_NOT_FOUND": 422,
    "THREAD_DELETED": 404,
    "CURSOR_INVALID": 422,
    "UNKNOWN_PARAMETER": 422,
}
"""Where theirs differ from ours. A mistake of the client's that ours answers with 400 is 422 there."""


class Declined(HoldfastError):
    """Raised to answer in this dialect with a status of its own."""

    def __init__(self, message: str, *, code: str = "INVALID_REQUEST", status: int = 422) -> None:
        super().__init__(code, message)
        self.status = status


def status_there(code: str) -> int:
    status = _STATUS.get(code) or status_of(code)
    return 422 if status == 400 else status


def answer(failure: Failure, issues: list[Issue] | None = None, *, status: int | None = None) -> Response:
    places = "".join(f"; {issue.path}: {issue.message}" for issue in issues or ())
    body, status = {"detail": failure.message + places, "code": failure.code}, status or status_there(failure.code)
    waits = wait_seconds(failure, status)
    headers = None if waits is None else {"retry-after": str(waits)}
    return Response(json.dumps(body), status, headers, "application/json")


class LangGraphRoute(StraightRoute):
    """Every failure of a route, its dependencies included, is answered in this dialect."""

    def answering(self, handle: Handler) -> Handler:
        async def answered(request: Request) -> Response:
            try:
                return await handle(request)
            except Declined as refusal:
                return answer(refusal.failure, status=refusal.status)
            except HttpProblem as problem:
                return answer(problem.failure, problem.issues)
            except HoldfastError as error:
                return answer(error.failure)
            except RequestValidationError as error:
                places = [".".join(map(str, issue["loc"][1:])) for issue in error.errors()[:1]]
                return answer(Failure("INVALID_REQUEST", f"A parameter is missing or invalid: {', '.join(places)}."))

        return answered
