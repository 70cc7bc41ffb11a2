"""One real server per database, shared: each test uses threads of its own. At the end the log explains the tables."""

import asyncio
from collections.abc import AsyncIterator, Iterator

import httpx2
import pytest

from tests.langgraph.space import empty_database, start_server
from tests.scenarios.proof import assert_replay_equals_tables
from tests.server import ServerProcess


@pytest.fixture(scope="session", params=["sqlite", "postgres"])
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    server = start_server(empty_database(request.param, request, tmp_path_factory))
    try:
        yield server
        with asyncio.Runner() as runner:
            runner.run(assert_replay_equals_tables(server.url))
    finally:
        server.stop()


@pytest.fixture
async def client(server: ServerProcess) -> AsyncIterator[httpx2.AsyncClient]:
    async with httpx2.AsyncClient(base_url=f"{server.url}/langgraph", timeout=30, verify=False) as client:
        yield client
