"""A flag that is set once and calls its listeners.

Unlike an `asyncio.Event` it costs neither a task nor a future to be notified, so every model call can afford it.
"""

import asyncio
from collections.abc import Callable


class CancelSignal:
    def __init__(self) -> None:
        self.is_set = False
        """For everybody to read; only `set` changes it."""
        self._listeners: list[Callable[[], None]] = []

    def set(self) -> None:
        if self.is_set:
            return
        self.is_set = True
        for listener in tuple(self._listeners):
            listener()

    def subscribe(self, listener: Callable[[], None]) -> None:
        """Call it when the signal is set, at once if it is."""
        if self.is_set:
            listener()
        else:
            self._listeners.append(listener)

    def forget(self, listener: Callable[[], None]) -> None:
        if listener in self._listeners:
            self._listeners.remove(listener)

    async def wait(self) -> None:
        woken = asyncio.Event()
        self.subscribe(woken.set)
        try:
            await woken.wait()
        finally:
            self.forget(woken.set)
