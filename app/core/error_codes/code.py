"""What a client may rely on about an error code."""

from app.core.value import value


@value(frozen=True, slots=True)
class Code:
    meaning: str
    remedy: str
