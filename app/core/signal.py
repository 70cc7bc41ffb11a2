"""A flag that is set once and tells whoever asked to be told.

Unlike waiting for an `asyncio.Event`, being told costs neither a task nor a future, so every model call can afford it.
"""

import asyncio
from collections.abc import Callable


class Signal(asyncio.Event):
    def __init__(self) -> None:
        super().__init__()
        self._told: list[Callable[[], None]] = []

    def set(self) -> None:
        if self.is_set():
            return
        super().set()
        for tell in tuple(self._told):
            tell()

    def tell(self, listener: Callable[[], None]) -> None:
        """Call it when the signal is set, at once if it is."""
        if self.is_set():
            listener()
        else:
            self._told.append(listener)

    def forget(self, listener: Callable[[], None]) -> None:
        if listener in self._told:
            self._told.remove(listener)
