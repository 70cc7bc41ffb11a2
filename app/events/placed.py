"""An event that has its place in the log and is on its way to the disk; whoever awaits it learns what became of it.

Leaves to others: what a refusal means.
"""

import asyncio
from collections.abc import Awaitable, Callable, Generator
from typing import Any, Final

from app.events.ports import Answer


class PlacedEvent:
    """Awaiting it raises what went wrong. Not awaiting it until the next one is there costs a stream nothing: events of
    a thread are stored in their order, and published only when they are stored."""

    __slots__ = ("_check", "_stored")

    def __init__(self, stored: Awaitable[Answer], check: Callable[[Answer], Any]) -> None:
        """`check` raises for an answer that is a refusal."""
        self._stored = stored if isinstance(stored, asyncio.Future) else asyncio.ensure_future(stored)
        self._check = check

    def __await__(self) -> Generator[Any, None, None]:
        stored = self._stored
        self._check(stored.result() if stored.done() else (yield from stored))

    def leave(self) -> None:
        """Nobody will await it: something else has ended the stream."""
        self._stored.add_done_callback(_look_at)


class _HeldEvent:
    """An event that is stored with the one that its run records next."""

    __slots__ = ()

    def __await__(self) -> Generator[Any, None, None]:
        return
        yield


HELD: Final = _HeldEvent()


def _look_at(stored: "asyncio.Future[Answer]") -> None:
    if not stored.cancelled():
        stored.exception()
