"""Why somebody was not let in. The audit records it in detail; to the sender every reason looks the same."""

from app.core.value import value


@value(frozen=True, slots=True)
class Denied:
    reason: str
    principal: str | None = None
    """Who it was, where that is known; otherwise the peer is counted."""
    tenant: str | None = None
