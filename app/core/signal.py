"""A flag that is set once and tells whoever asked to be told.

Unlike an `asyncio.Event` it costs neither a task nor a future to be told, so every model call can afford it.
"""

import asyncio
from collections.abc import Callable


class Signal:
    def __init__(self) -> None:
        self._set = False
        self._told: list[Callable[[], None]] = []

    def is_set(self) -> bool:
        return self._set

    def set(self) -> None:
        if self._set:
            return
        self._set = True
        for tell in tuple(self._told):
            tell()

    def tell(self, listener: Callable[[], None]) -> None:
        """Call it when the signal is set, at once if it is."""
        if self._set:
            listener()
        else:
            self._told.append(listener)

    def forget(self, listener: Callable[[], None]) -> None:
        if listener in self._told:
            self._told.remove(listener)

    async def wait(self) -> None:
        woken = asyncio.Event()
        self.tell(woken.set)
        try:
            await woken.wait()
        finally:
            self.forget(woken.set)
