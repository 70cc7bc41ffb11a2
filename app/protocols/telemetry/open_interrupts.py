"""How many pauses wait for an answer: counted in the database when somebody looks, so that it is right after a restart.

The figure is of the whole database: every replica gives the same one. Asked for at most every ten seconds; when the
database cannot be asked, the last figure stays. Leaves to others: the counting (the store's reader).
"""

from collections.abc import Awaitable, Callable, Mapping
from time import monotonic
from typing import Final

from app.events.ports import StoreError

KEEP_SECONDS: Final = 10.0
MAX_COUNTED: Final = 10_000
"""More than this are counted as this many: whoever has so many open approvals needs no exact figure."""
_KINDS: Final = ("approval", "question", "recovery", "external")


class OpenInterrupts:
    def __init__(self, count: Callable[[int], Awaitable[Mapping[str, float]]]) -> None:
        self._count = count
        self._counts: dict[str, float] = dict.fromkeys(_KINDS, 0.0)
        self._asked: float | None = None

    def counts(self) -> Mapping[str, float]:
        return self._counts

    async def refresh(self) -> None:
        now = monotonic()
        if self._asked is not None and now - self._asked < KEEP_SECONDS:
            return
        self._asked = now
        try:
            found = await self._count(MAX_COUNTED)
        except StoreError:
            return
        self._counts = dict.fromkeys((*_KINDS, *found), 0.0) | dict(found)
