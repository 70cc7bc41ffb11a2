"""What a client may rely on about an error code."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Code:
    meaning: str
    remedy: str
