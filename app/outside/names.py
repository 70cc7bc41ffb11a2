"""From a host's name to its addresses, remembered for a short while. Leaves to `pool`: which ones may be used."""

import asyncio
import socket
from collections.abc import Callable, Coroutine, Sequence
from typing import Any, Final

# Long enough to spare a burst of calls the lookup, short enough to follow a provider that moves.
_REMEMBERED_SECONDS: Final = 10.0
_MAX_NAMES: Final = 1024

Lookup = Callable[[str, int], Coroutine[Any, Any, Sequence[str]]]
"""Addresses of a host, in the order in which to try them."""


class Names:
    """Whoever asks for a name that is being looked up waits for the same answer."""

    def __init__(self, lookup: Lookup | None = None) -> None:
        self._lookup = lookup or _system
        self._asked: dict[tuple[str, int], tuple[float, asyncio.Task[Sequence[str]]]] = {}

    async def addresses(self, host: str, port: int) -> Sequence[str]:
        now = asyncio.get_running_loop().time()
        until, task = self._asked.get((host, port), (0.0, None))
        if task is None or until <= now:
            if len(self._asked) >= _MAX_NAMES:
                self._asked.clear()
            task = asyncio.create_task(self._lookup(host, port))
            task.add_done_callback(lambda done: self._forget_failure((host, port), done))
            self._asked[host, port] = now + _REMEMBERED_SECONDS, task
        return await asyncio.shield(task)  # one who no longer waits does not end it for the others

    def _forget_failure(self, asked: tuple[str, int], task: asyncio.Task[Sequence[str]]) -> None:
        failed = task.cancelled() or task.exception() is not None
        if failed and self._asked.get(asked, (0.0, None))[1] is task:
            del self._asked[asked]


async def _system(host: str, port: int) -> Sequence[str]:
    found = await asyncio.get_running_loop().getaddrinfo(
        host, port, type=socket.SOCK_STREAM, flags=socket.AI_ADDRCONFIG
    )
    return list(dict.fromkeys(str(address[4][0]) for address in found))
