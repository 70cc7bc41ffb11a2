"""Recorded results that re-entry has not used yet, found by the content of what was asked.

Equal requests get their results in the order of the log, so that parallel branches may come back in any order. Leaves
to the memo: what was recorded; to whoever asks: what to do when nothing matches.
"""

import hashlib
from collections import deque
from collections.abc import Iterable
from typing import Any, Final

from app.core import json
from app.core.errors import Failure


class Unused(dict[str, deque[dict[str, Any]]]):
    """By key; false when all of them are used."""

    def __init__(self, recorded: Iterable[tuple[str, dict[str, Any]]]) -> None:
        super().__init__()
        for key, payload in recorded:
            self.setdefault(key, deque()).append(payload)

    def take(self, key: str) -> dict[str, Any] | None:
        """The next one of this content; None when all of them are used."""
        left = self.get(key)
        if left is None:
            return None
        found = left.popleft()
        if not left:
            del self[key]
        return found


NOTHING_UNUSED: Final = Unused(())
"""Of a run that has recorded none of it, as nearly every run has not."""


def content_hash(*parts: Any) -> str:
    return hashlib.sha256(json.canonical(list(parts))).hexdigest()


def not_recorded(what: str) -> Failure:
    """In a strict rerun, where whatever differs from the record ends the run."""
    return Failure("BACKEND_NOT_DETERMINISTIC", f"{what} is not among the recorded ones.")
