"""What ties a run to the request that asked for it: the caller's trace and the request's name, kept in its first event.

Leaves to others: naming requests (the gate), reading a trace's headers (`core.tracing`).
"""

from typing import Final

from starlette.requests import HTTPConnection

from app.core import tracing
from app.protocols.auth.shown import Headers

REQUEST_ID: Final = "requestId"
"""In `traceContext`; the answer's `x-request-id` and every line that is logged for the request say the same name."""
_TRACE: Final = (tracing.PARENT, tracing.STATE)
_PARENT: Final = tracing.PARENT.encode()
NAME_KEY: Final = "holdfast.request_id"
HEADERS_KEY: Final = "holdfast.headers"
"""In the scope: the request's headers by name. The gate made them; looking them up there costs no search."""


def headers_of(request: HTTPConnection) -> Headers:
    found: Headers | None = request.scope.get(HEADERS_KEY)
    return dict(request.scope["headers"]) if found is None else found


def correlation(request: HTTPConnection) -> dict[str, str] | None:
    """For `Submission.trace_context`; None for a request that came by no gate and says nothing of a trace."""
    headers = headers_of(request)
    found: dict[str, str] = {}
    if _PARENT in headers:
        found = tracing.accepted({name: headers.get(name.encode(), b"").decode("latin-1") for name in _TRACE}) or {}
    name: str | None = request.scope.get(NAME_KEY)
    return (found if name is None else found | {REQUEST_ID: name}) or None
