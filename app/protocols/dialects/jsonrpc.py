"""JSON-RPC 2.0 messages: requests as they were sent, results, errors and notifications.

What MCP and A2A share. Leaves to others: methods, their parameters, and how a message travels.
"""

from collections.abc import Mapping
from dataclasses import field
from typing import Any, Final, TypeAlias

from app.core import json
from app.core.errors import Failure
from app.core.json import JsonObject
from app.core.value import value
from app.protocols.dialects.retry_after import wait_seconds

PARSE_ERROR: Final = -32700
INVALID_REQUEST: Final = -32600
METHOD_NOT_FOUND: Final = -32601
INVALID_PARAMS: Final = -32602
INTERNAL_ERROR: Final = -32603
REFUSED: Final = -32010
"""Of the range for servers: the request is understood and cannot be served; `data.code` says why."""

RequestId: TypeAlias = str | int | None
_MAX_ID: Final = 200
"""Characters of a request's id."""


class RpcError(Exception):
    """Raised to answer a request with an error object."""

    def __init__(self, code: int, message: str, data: Any = None) -> None:
        super().__init__(message)
        self.code, self.message, self.data = code, message, data

    @property
    def body(self) -> JsonObject:
        return {"code": self.code, "message": self.message} | ({} if self.data is None else {"data": self.data})


@value(frozen=True, slots=True)
class RpcMessage:
    """One message of a client. A notification has no id; a response has no method."""

    id: RequestId
    method: str | None
    params: JsonObject = field(default_factory=dict)
    result: Any = None
    error: Any = None
    is_notification: bool = False


def read_message(value: Any) -> RpcMessage:
    """The message, or RpcError for what is none: a batch, another version, an id that cannot be one."""
    if not isinstance(value, dict) or value.get("jsonrpc") != "2.0":
        raise RpcError(INVALID_REQUEST, "The body must be one JSON-RPC 2.0 message.")
    request_id = value.get("id")
    if "id" in value and (isinstance(request_id, bool) or not isinstance(request_id, str | int)):
        raise RpcError(INVALID_REQUEST, "The id of a request must be a string or an integer.")
    if isinstance(request_id, str) and len(request_id) > _MAX_ID:
        raise RpcError(INVALID_REQUEST, f"The id of a request has at most {_MAX_ID} characters.")
    method = value.get("method")
    if method is None and "id" in value and ("result" in value or "error" in value):
        return RpcMessage(request_id, None, result=value.get("result"), error=value.get("error"))
    if not isinstance(method, str) or len(method) > _MAX_ID:
        raise RpcError(INVALID_REQUEST, "A request must name its method.")
    params = value.get("params")
    if params is not None and not isinstance(params, dict):
        raise RpcError(INVALID_PARAMS, "The parameters must be an object.")
    return RpcMessage(request_id, method, params or {}, is_notification="id" not in value)


def result_message(request_id: RequestId, result: Any) -> JsonObject:
    return {"jsonrpc": "2.0", "id": request_id, "result": result}


def error_message(request_id: RequestId, error: RpcError) -> JsonObject:
    return {"jsonrpc": "2.0", "id": request_id, "error": error.body}


def notification(method: str, params: Mapping[str, Any]) -> JsonObject:
    return {"jsonrpc": "2.0", "method": method, "params": dict(params)}


def request_message(request_id: RequestId, method: str, params: Mapping[str, Any]) -> JsonObject:
    return {"jsonrpc": "2.0", "id": request_id, "method": method, "params": dict(params)}


def failure_data(failure: Failure, more: Mapping[str, Any] | None = None, status: int = 400) -> JsonObject:
    """What an error's `data` says of a failure of ours, which has this status over HTTP."""
    waits = wait_seconds(failure, status)
    said = {} if waits is None else {"retryAfter": waits}
    return {"code": failure.code, "remedy": failure.remedy, **said, **(more or {})}


def sse_message(message: JsonObject, event_id: str | None = None) -> bytes:
    """A message as one server-sent event; with an id a client can resume after it."""
    head = b"" if event_id is None else b"id: %b\n" % event_id.encode()
    return b"%bevent: message\ndata: %b\n\n" % (head, json.dumps(message))
