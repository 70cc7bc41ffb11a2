"""Three real server processes, each with its own way to the database and the bus, and the faults that befall them.

A server that was killed comes back while the next faults befall the others, or the database that it starts with. Leaves
to others: keeping a process running (`replica`).
"""

import asyncio
import contextlib
import random
import signal
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Final

from tests.bus.servers import NatsServer
from tests.faults.replicas.proxy import FaultyProxy
from tests.faults.replicas.replica import Kept, Replica
from tests.postgres import PostgresServer
from tests.server import secret_file

LEASE_SECONDS: Final = 2.0
NOWHERE: Final = "http://127.0.0.1:1"


class Fleet:
    def __init__(self, folder: Path, workspace: Path, postgres: PostgresServer, database: str, bus: str) -> None:
        self.folder, self.workspace, self.database, self.bus = folder, workspace, database, bus
        self._postgres = postgres
        self.nats: NatsServer | None = NatsServer() if bus == "nats" else None
        self.replicas: list[Replica] = []
        self.urls: list[str] = []
        self.kept = Kept()
        self.faults = Counter[str]()
        self.seconds = defaultdict[str, float](float)
        """What the faults took, by kind."""

    @contextlib.asynccontextmanager
    async def running(self, count: int = 3) -> AsyncIterator["Fleet"]:
        async with contextlib.AsyncExitStack() as ending:
            if self.nats is not None:
                ending.callback(self.nats.stop)
                await asyncio.to_thread(self.nats.start)
            self.urls = [NOWHERE] * count
            for number in range(count):
                self.replicas.append(await self._replica(number, ending))
            for replica in self.replicas:
                ending.push_async_callback(replica.close)
                replica.start()
            await self.all_up()
            yield self

    async def _replica(self, number: int, ending: contextlib.AsyncExitStack) -> Replica:
        to_database, to_bus, bus = await FaultyProxy(self._postgres.port).start(), None, self.bus
        ending.push_async_callback(to_database.close)
        if self.nats is not None:
            to_bus = await FaultyProxy(self.nats.port).start()
            ending.push_async_callback(to_bus.close)
            bus = f"nats://127.0.0.1:{to_bus.port}"
        variables = {
            "HOLDFAST_WORKSPACE": str(self.workspace),
            "HOLDFAST_SECRET_FILE": str(secret_file(self.folder)),
            "HOLDFAST_DATABASE_URL": f"postgresql://postgres@127.0.0.1:{to_database.port}/{self.database}",
            "HOLDFAST_BUS": bus,
            "HOLDFAST_LEASE_SECONDS": str(LEASE_SECONDS),
            "HOLDFAST_DRAIN_SECONDS": "1",
            "HOLDFAST_LOG_LEVEL": "warning",
        }
        data = self.folder / f"data-{number}"

        def listens(url: str) -> None:
            self.urls[number] = url

        return Replica(data, variables, self.kept, to_database, to_bus, listens)

    async def all_up(self) -> None:
        await asyncio.gather(*(replica.is_up() for replica in self.replicas))

    def move_to(self, postgres: PostgresServer) -> None:
        """The database is elsewhere from now on, as an address that fails over."""
        for replica in self.replicas:
            replica.disturb()
            replica.to_database.target = postgres.port
            replica.to_database.cut()
        self.faults["fail-over"] += 1

    # -- faults ----------------------------------------------------------------------------------------

    async def fault(self, chance: random.Random) -> None:
        """One of them. When this returns everything is whole again but for what it did, and for a server that was ended
        and starts meanwhile."""
        replica = chance.choice(self.replicas)
        faults: list[tuple[int, str, Callable[[], Awaitable[None]]]] = [
            (4, "kill", lambda: self._end(replica, signal.SIGKILL)),
            (2, "drain", lambda: self._end(replica, signal.SIGTERM)),
            (4, "suspend", lambda: self._suspend(replica, chance.choice([0.3, 1.0, 3.0]))),
            (4, "cut database", lambda: self._cut_database(replica)),
            (3, "freeze database", lambda: self._freeze_database(replica, chance.choice([0.3, 2.5]))),
            (1, "restart database", self._restart_database),
        ]
        if replica.to_bus is not None and self.nats is not None:
            to_bus, nats = replica.to_bus, self.nats
            faults += [
                (3, "cut bus", lambda: self._cut(to_bus)),
                (2, "freeze bus", lambda: self._freeze(to_bus, chance.choice([0.3, 3.5]))),
                (1, "restart bus", lambda: self._restart_bus(nats)),
            ]
        weights = [weight for weight, _, _ in faults]
        _, name, act = chance.choices(faults, weights)[0]
        began = asyncio.get_running_loop().time()
        await act()
        self.faults[name] += 1
        self.seconds[name] += asyncio.get_running_loop().time() - began
        self.kept.assert_sound()

    async def _end(self, replica: Replica, number: signal.Signals) -> None:
        """One at a time: the other two serve, whatever else befalls them."""
        await self.all_up()
        replica.end(number)

    async def _suspend(self, replica: Replica, seconds: float) -> None:
        await replica.is_up()
        assert replica.child is not None
        replica.child.signal(signal.SIGSTOP)
        await asyncio.sleep(seconds)
        replica.child.signal(signal.SIGCONT)

    async def _cut(self, proxy: FaultyProxy) -> None:
        proxy.cut()

    async def _freeze(self, proxy: FaultyProxy, seconds: float) -> None:
        proxy.freeze()
        await asyncio.sleep(seconds)
        proxy.thaw()

    async def _cut_database(self, replica: Replica) -> None:
        replica.disturb()
        replica.to_database.cut()

    async def _freeze_database(self, replica: Replica, seconds: float) -> None:
        await self._freeze(replica.to_database, seconds)
        replica.disturb()

    async def _restart_database(self) -> None:
        await asyncio.to_thread(self._postgres.restart, "QUIT")
        for replica in self.replicas:
            replica.disturb()

    async def _restart_bus(self, nats: NatsServer) -> None:
        await asyncio.to_thread(nats.stop)
        await asyncio.to_thread(nats.start)
