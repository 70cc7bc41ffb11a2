"""The connection that a bus keeps open: it ends when it is closed, whatever the library under it does."""

import asyncio
import contextlib
from collections.abc import Awaitable, Callable

from app.bus.connection import KeptConnection


async def test_connection_closes_although_connecting_swallows_that_it_was_cancelled() -> None:
    """As `asyncio.wait_for` does before Python 3.12, if what it waits for comes at that moment."""
    connecting, connected = asyncio.Event(), list[bool]()

    async def connect() -> Callable[[], Awaitable[object]]:
        connecting.set()
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.Event().wait()
        return asyncio.Event().wait

    kept = KeptConnection("test", connect)  # type: ignore[arg-type]  # what it answers is not looked at
    kept.start(lambda: connected.append(True))
    await connecting.wait()
    async with asyncio.timeout(30):
        await kept.close()
    assert not connected and not kept.connected
