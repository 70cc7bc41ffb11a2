"""Whether anybody waits for news of other servers: here, which this server says to them, and at the others.

A server whose listeners all follow runs that it works on itself hears everything from its own log. It says so with
every beat, and whoever hears that from all others gathers its news for longer before it sends it: each message costs
the sender and every hearer more than a line in it. Nothing is left out, and a server that says nothing is taken to
wait: a word that is lost costs a fraction of a second. Leaves to others: sending (`outbox`) and the beat (`replicas`).
"""

import asyncio
from collections.abc import Callable, Iterable
from itertools import islice
from typing import Final, TypeAlias

from app.events.hub import Hub

GRACE_SECONDS: Final = 0.05
"""A listener whose run begins or has just ended here is not taken for one that waits for others."""
CALM_SECONDS: Final = 3.0
"""How long it counts that nobody waits at a server: three of its beats."""
WAIT_SECONDS: Final = 60.0
"""How long a run that waits for another server's is taken to wait, each time that it says so."""
MAX_LOOKED_AT: Final = 1000
"""Listeners that are looked at again after the grace; with more of them this server just says that it waits."""

_Place: TypeAlias = tuple[str, str]
"""A tenant and a thread."""


class Attention:
    def __init__(self, hub: Hub, say: Callable[[bool], None]) -> None:
        """`say` tells the others whether somebody waits here."""
        self._hub, self._say = hub, say
        self._loop = asyncio.get_running_loop()
        self._doubtful: set[_Place] = set()
        """Threads that are followed and that this server did not work on when it looked."""
        self._saw_all = False
        self._look: asyncio.TimerHandle | None = None
        self._waits_until = float("-inf")
        self._calm: dict[str, float] = {}
        """When each server last said that nobody waits there."""
        self.waits = True
        """Somebody here waits for news, as far as the others know."""
        self.works_on: Callable[[str, str], bool] = lambda tenant, thread_id: False
        """Whether a run of the thread is at work here."""

    # -- here ------------------------------------------------------------------------------------------

    def listened(self, tenant: str, threads: Iterable[str] | None) -> None:
        """Somebody begins to listen; to every thread of the tenant, with None."""
        if threads is None:
            self._tell(True)
        elif not self.waits or self._look is not None:
            self._look_again((tenant, thread_id) for thread_id in threads)

    def wait(self) -> None:
        """A run here waits for one of another server."""
        self._waits_until = self._loop.time() + WAIT_SECONDS
        self._tell(True)

    def beat(self) -> None:
        """Says again, or for the first time, that nobody waits here, if that is so."""
        if self._hub.hears_everything or self._loop.time() < self._waits_until:
            self._tell(True)
            return
        self._saw_all = True
        self._look_again(place for place in self._hub.places() if not self.works_on(*place))
        if not self._doubtful:
            self._conclude()

    def _look_again(self, places: Iterable[_Place]) -> None:
        self._doubtful.update(islice(places, MAX_LOOKED_AT - len(self._doubtful) + 1))
        if len(self._doubtful) > MAX_LOOKED_AT:
            self._conclude()
        elif self._doubtful and self._look is None:
            self._look = self._loop.call_later(GRACE_SECONDS, self._conclude)

    def _conclude(self) -> None:
        doubtful, self._doubtful = self._doubtful, set()
        saw_all, self._saw_all = self._saw_all, False
        self.close()
        if len(doubtful) > MAX_LOOKED_AT or any(
            self._hub.wants(*place) and not self.works_on(*place) for place in doubtful
        ):
            self._tell(True)
        elif saw_all:
            self._tell(False)

    def _tell(self, waits: bool) -> None:
        if not (waits and self.waits):
            self.waits = waits
            self._say(waits)

    def close(self) -> None:
        if self._look is not None:
            self._look.cancel()
            self._look = None

    # -- at the others ---------------------------------------------------------------------------------

    def heard(self, server: str, waits: bool) -> None:
        if waits:
            self._calm.pop(server, None)
        else:
            self._calm[server] = self._loop.time()

    def nobody_waits(self, servers: Iterable[str]) -> bool:
        since = self._loop.time() - CALM_SECONDS
        self._calm = {server: at for server, at in self._calm.items() if at > since}
        return all(server in self._calm for server in servers)
