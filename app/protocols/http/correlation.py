"""What ties a run to the request that asked for it: the caller's trace and the request's name, kept in its first event.

Leaves to others: naming requests (the gate), reading a trace's headers (`core.tracing`).
"""

from typing import Final

from starlette.requests import Request

from app.core import tracing

REQUEST_ID: Final = "requestId"
"""In `traceContext`; the answer's `x-request-id` and every line that is logged for the request say the same name."""
SCOPE_KEY: Final = "holdfast.request_id"


def correlation(request: Request) -> dict[str, str] | None:
    """For `Submission.trace_context`; None for a request that came by no gate and says nothing of a trace."""
    found = tracing.accepted(request.headers) or {}
    name: str | None = request.scope.get(SCOPE_KEY)
    return (found if name is None else found | {REQUEST_ID: name}) or None
