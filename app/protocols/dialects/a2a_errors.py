"""Errors of A2A: one reason each, as a JSON-RPC code, an HTTP status and a name.

Leaves to others: where they arise, and which status a failure of ours has (`http.errors`).
"""

from collections.abc import Mapping
from typing import Any, Final

from app.core.errors import Failure
from app.core.json import JsonObject
from app.core.value import value
from app.protocols.dialects.jsonrpc import (
    INTERNAL_ERROR,
    INVALID_PARAMS,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    RpcError,
)
from app.protocols.dialects.retry_after import wait_seconds


@value(frozen=True, slots=True)
class Reason:
    code: int
    status: int
    grpc: str
    name: str


TASK_NOT_FOUND: Final = Reason(-32001, 404, "NOT_FOUND", "TASK_NOT_FOUND")
NOT_CANCELABLE: Final = Reason(-32002, 400, "FAILED_PRECONDITION", "TASK_NOT_CANCELABLE")
NO_PUSH: Final = Reason(-32003, 400, "FAILED_PRECONDITION", "PUSH_NOTIFICATION_NOT_SUPPORTED")
UNSUPPORTED: Final = Reason(-32004, 400, "FAILED_PRECONDITION", "UNSUPPORTED_OPERATION")
CONTENT_TYPE: Final = Reason(-32005, 400, "INVALID_ARGUMENT", "CONTENT_TYPE_NOT_SUPPORTED")
VERSION: Final = Reason(-32009, 400, "FAILED_PRECONDITION", "VERSION_NOT_SUPPORTED")
PARAMS: Final = Reason(INVALID_PARAMS, 400, "INVALID_ARGUMENT", "INVALID_PARAMS")
REQUEST: Final = Reason(INVALID_REQUEST, 400, "INVALID_ARGUMENT", "INVALID_REQUEST")
REFUSED_CODE: Final = -32000
"""Who may not do this, or not now. Of JSON-RPC's range for servers the rest belongs to A2A."""
METHOD: Final = Reason(METHOD_NOT_FOUND, 404, "NOT_FOUND", "METHOD_NOT_FOUND")

_MISSING: Final = frozenset({"RUN_NOT_FOUND", "THREAD_NOT_FOUND", "THREAD_DELETED", "INTERRUPT_NOT_FOUND"})
_GRPC: Final = {401: "UNAUTHENTICATED", 403: "PERMISSION_DENIED", 404: "NOT_FOUND", 429: "RESOURCE_EXHAUSTED"}


class A2aError(Exception):
    """Raised to answer with a reason; `metadata` has the code of ours, if there is one."""

    def __init__(
        self, reason: Reason, message: str, metadata: dict[str, Any] | None = None, retry_after: int | None = None
    ) -> None:
        super().__init__(message)
        self.reason, self.message, self.metadata = reason, message, metadata or {}
        self.retry_after = retry_after
        """Seconds after which the same request may be served."""

    @property
    def rpc(self) -> RpcError:
        return RpcError(self.reason.code, self.message, self._details())

    @property
    def rest(self) -> JsonObject:
        reason = self.reason
        shown = {"code": reason.status, "status": reason.grpc, "message": self.message, "details": self._details()}
        return {"error": shown}

    def _details(self) -> list[JsonObject]:
        metadata = {name: str(value) for name, value in self.metadata.items()}
        kind = "type.googleapis.com/google.rpc.ErrorInfo"
        info = {"@type": kind, "reason": self.reason.name, "domain": "a2a-protocol.org", "metadata": metadata}
        if self.retry_after is None:
            return [info]
        return [info, {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": f"{self.retry_after}s"}]


def of_failure(failure: Failure, status: int, more: Mapping[str, Any] | None = None) -> A2aError:
    """`status` is that of the failure everywhere else."""
    if failure.code in _MISSING:
        reason = TASK_NOT_FOUND
    elif failure.code in ("AGENT_NOT_FOUND", "WORKFLOW_NOT_FOUND", "NOT_FOUND"):
        reason = METHOD
    elif failure.code.startswith("JSON_"):
        reason = Reason(-32700, 400, "INVALID_ARGUMENT", "INVALID_REQUEST")
    elif status < 500 and status not in _GRPC:
        reason = Reason(INVALID_PARAMS, status, "INVALID_ARGUMENT", "INVALID_PARAMS")
    elif status < 500:
        reason = Reason(REFUSED_CODE, status, _GRPC[status], failure.code)
    else:
        reason = Reason(INTERNAL_ERROR, status, "INTERNAL" if status == 500 else "UNAVAILABLE", failure.code)
    return A2aError(reason, failure.message, {"code": failure.code, **(more or {})}, wait_seconds(failure, status))
