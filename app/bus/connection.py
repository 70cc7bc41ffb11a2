"""Keeps one connection open: connects, waits until it is lost, and connects again, ever more patiently.

Shared by the kinds that have a connection. Leaves to them: what connecting means.
"""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from typing import Final

import structlog

from app.bus.contract import BusDown

FIRST_PAUSE_SECONDS: Final = 0.1
LONGEST_PAUSE_SECONDS: Final = 2.0
"""A bus that comes back is used again within this time."""

log = structlog.get_logger("holdfast.bus")


class KeptConnection:
    def __init__(self, kind: str, connect: Callable[[], Awaitable[Callable[[], Awaitable[None]]]]) -> None:
        """`connect` answers what waits until the connection is lost; it raises `BusDown`."""
        self._kind, self._connect = kind, connect
        self._task: asyncio.Task[None] | None = None
        self._closing = asyncio.Event()
        """Asked for besides cancelling: a client's library may swallow that, if what it waits for comes that moment."""
        self.connected = False

    def start(self, on_connected: Callable[[], None]) -> None:
        self._task = asyncio.create_task(self._keep(on_connected), name=f"bus {self._kind}")

    async def _keep(self, on_connected: Callable[[], None]) -> None:
        pause, said = FIRST_PAUSE_SECONDS, False
        while not self._closing.is_set():
            try:
                lost = await self._connect()
            except BusDown as error:
                if not said:
                    log.warning("bus.lost", kind=self._kind, message=error.failure.message)
                    said = True
                await asyncio.sleep(pause)
                pause = min(2 * pause, LONGEST_PAUSE_SECONDS)
                continue
            if self._closing.is_set():
                return
            log.info("bus.connected", kind=self._kind)
            pause, said, self.connected = FIRST_PAUSE_SECONDS, True, True
            on_connected()
            try:
                await lost()
            finally:
                self.connected = False
            log.warning("bus.lost", kind=self._kind, message="the connection was closed")

    async def close(self) -> None:
        if self._task is not None:
            self._closing.set()
            self._task.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._task
            self._task = None
