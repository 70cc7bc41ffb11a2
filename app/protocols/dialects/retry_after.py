"""When a client that was refused may come back: what `Retry-After` says, and whatever a dialect has beside it.

Leaves to others: which status a failure has, and where the number is written.
"""

from app.core.errors import Failure


def wait_seconds(failure: Failure, status: int) -> int | None:
    """None where waiting does not help; without a better figure a client comes back in a second."""
    return int(failure.detail.get("retryAfter", 1)) if status in (429, 503) else None
