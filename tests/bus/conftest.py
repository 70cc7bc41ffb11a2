"""Servers on one Postgres, joined by each kind of bus."""

import asyncio
import contextlib
import itertools
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager
from pathlib import Path

import pytest

from app.bus import replicas
from app.core.settings import Settings
from tests.bus.pace import Paced
from tests.bus.servers import NatsServer, running_nats
from tests.databases import create_database
from tests.postgres import PostgresServer
from tests.server import InProcessServer, in_process, secret_file
from tests.waiting import until

_names = itertools.count(1)

Team = Callable[..., AbstractAsyncContextManager[list[InProcessServer]]]
"""Starts so many servers, which hear each other."""


@pytest.fixture(scope="session")
def nats_server() -> Iterator[NatsServer]:
    with running_nats() as server:
        yield server


@pytest.fixture
async def shared(postgres_server: PostgresServer, tmp_path: Path) -> Settings:
    """A database that several servers use; whichever bus."""
    name = f"bus_{next(_names)}"
    await create_database(postgres_server, name)
    return Settings(data_dir=tmp_path, database_url=postgres_server.url(name), secret_file=secret_file(tmp_path))


@pytest.fixture(params=["postgres", "nats"])
def joined(request: pytest.FixtureRequest, shared: Settings) -> Settings:
    """Each bus that carries messages."""
    if request.param == "nats":
        server: NatsServer = request.getfixturevalue("nats_server")
        return shared.model_copy(update={"bus": f"{server.url}/{next(_names)}"})
    return shared.model_copy(update={"bus": request.param})


@pytest.fixture
def on_bus(shared: Settings) -> Settings:
    """The bus of Postgres: for what does not depend on the kind."""
    return shared.model_copy(update={"bus": "postgres"})


@pytest.fixture
def no_polls(monkeypatch: pytest.MonkeyPatch) -> None:
    """What servers learn of each other they learn from the bus, however long the machine takes."""
    for name in ("CHECK_SECONDS", "SILENCE_SECONDS"):
        monkeypatch.setattr(replicas, name, 3600.0)
    monkeypatch.setattr(replicas, "DOUBT_SECONDS", 0.0)
    monkeypatch.setattr(replicas, "COMMAND_SECONDS", 30.0)


@pytest.fixture
def pace() -> Paced:
    return Paced()


@contextlib.asynccontextmanager
async def team(settings: Settings, count: int, pace: Paced) -> AsyncIterator[list[InProcessServer]]:
    async with contextlib.AsyncExitStack() as stack:
        servers = [await stack.enter_async_context(in_process(settings, {"echo": pace})) for _ in range(count)]
        if settings.bus != "local":
            await until(lambda: all(_hears(server, count - 1) for server in servers))
        yield servers
        pace.finish()
        await asyncio.sleep(0)


def _hears(server: InProcessServer, peers: int) -> bool:
    found = server.holdfast.replicas
    return found is not None and found.connected and found.peers >= peers
