"""Three real server processes, each with its own way to the database and the bus, and the faults that befall them."""

import asyncio
import contextlib
import random
import signal
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Final

from tests.bus.servers import NatsServer
from tests.faults.processes import Child, started
from tests.faults.replicas.proxy import FaultyProxy
from tests.postgres import PostgresServer
from tests.server import secret_file

LEASE_SECONDS: Final = 2.0
START_SECONDS: Final = 90.0
"""Three at once, cold, on a busy machine."""


class Replica:
    """A server that is started again whenever it dies."""

    def __init__(self, number: int, fleet: "Fleet", to_database: FaultyProxy, to_bus: FaultyProxy | None) -> None:
        self._number, self._fleet = number, fleet
        self.to_database, self.to_bus = to_database, to_bus
        self._stack = contextlib.AsyncExitStack()
        self._reading: asyncio.Task[None] | None = None
        self.child: Child | None = None

    async def start(self) -> None:
        fleet = self._fleet
        bus = fleet.bus if self.to_bus is None else f"nats://127.0.0.1:{self.to_bus.port}"
        variables = {
            "HOLDFAST_WORKSPACE": str(fleet.workspace),
            "HOLDFAST_SECRET_FILE": str(secret_file(fleet.folder)),
            "HOLDFAST_DATABASE_URL": f"postgresql://postgres@127.0.0.1:{self.to_database.port}/{fleet.database}",
            "HOLDFAST_BUS": bus,
            "HOLDFAST_LEASE_SECONDS": str(LEASE_SECONDS),
            "HOLDFAST_DRAIN_SECONDS": "1",
            "HOLDFAST_LOG_LEVEL": "warning",
        }
        data = fleet.folder / f"data-{self._number}"
        self._stack = contextlib.AsyncExitStack()
        self.child = await self._stack.enter_async_context(
            started("app.main", "serve", "--port", "0", "--data-dir", str(data), variables=variables)
        )
        fleet.urls[self._number] = await self.child.line("listening on ", START_SECONDS)
        self._reading = asyncio.create_task(self._read_on(self.child))

    async def _read_on(self, child: Child) -> None:
        """A full pipe would hold the server up."""
        with contextlib.suppress(AssertionError, TimeoutError):
            await child.line("\0", 36_000)

    async def end(self, number: signal.Signals) -> None:
        assert self.child is not None
        self.child.signal(number)
        if self._reading is not None:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._reading, 15)
        await self._stack.aclose()
        self.child = None

    async def restart(self, number: signal.Signals) -> None:
        await self.end(number)
        await self.start()


class Fleet:
    def __init__(self, folder: Path, workspace: Path, postgres: PostgresServer, database: str, bus: str) -> None:
        self.folder, self.workspace, self.database, self.bus = folder, workspace, database, bus
        self._postgres = postgres
        self.nats: NatsServer | None = NatsServer() if bus == "nats" else None
        self.replicas: list[Replica] = []
        self.urls: list[str] = []
        self.faults: dict[str, int] = {}

    @contextlib.asynccontextmanager
    async def running(self, count: int = 3) -> AsyncIterator["Fleet"]:
        if self.nats is not None:
            await asyncio.to_thread(self.nats.start)
        self.urls = ["http://127.0.0.1:1"] * count
        for number in range(count):
            to_database = await FaultyProxy(self._postgres.port).start()
            to_bus = None if self.nats is None else await FaultyProxy(self.nats.port).start()
            self.replicas.append(Replica(number, self, to_database, to_bus))
        try:
            await asyncio.gather(*(replica.start() for replica in self.replicas))
            yield self
        finally:
            await asyncio.gather(*(replica.end(signal.SIGKILL) for replica in self.replicas if replica.child))
            for replica in self.replicas:
                for proxy in (replica.to_database, replica.to_bus):
                    if proxy is not None:
                        await proxy.close()
            if self.nats is not None:
                self.nats.stop()

    def move_to(self, postgres: PostgresServer) -> None:
        """The database is elsewhere from now on, as an address that fails over."""
        for replica in self.replicas:
            replica.to_database.target = postgres.port
            replica.to_database.cut()
        self.faults["fail-over"] = self.faults.get("fail-over", 0) + 1

    # -- faults ----------------------------------------------------------------------------------------

    async def fault(self, chance: random.Random) -> None:
        """One of them, and everything is whole again when this returns, but for what it did."""
        replica = chance.choice(self.replicas)
        faults: list[tuple[int, str, Callable[[], Awaitable[None]]]] = [
            (4, "kill", lambda: replica.restart(signal.SIGKILL)),
            (2, "drain", lambda: replica.restart(signal.SIGTERM)),
            (4, "suspend", lambda: self._suspend(replica, chance.choice([0.3, 1.0, 3.0]))),
            (4, "cut database", lambda: self._cut(replica.to_database)),
            (3, "freeze database", lambda: self._freeze(replica.to_database, chance.choice([0.3, 2.5]))),
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
        self.faults[name] = self.faults.get(name, 0) + 1
        await act()

    async def _suspend(self, replica: Replica, seconds: float) -> None:
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

    async def _restart_database(self) -> None:
        await asyncio.to_thread(self._postgres.restart, "QUIT")

    async def _restart_bus(self, nats: NatsServer) -> None:
        await asyncio.to_thread(nats.stop)
        await asyncio.to_thread(nats.start)
