"""What keeps the servers of fault tests running: as a supervisor would, and no fault of the servers is hidden by it."""

import asyncio
import contextlib
import signal
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from tests.databases import create_database
from tests.faults.replicas import replica as supervision
from tests.faults.replicas.proxy import FaultyProxy
from tests.faults.replicas.replica import Kept, Replica
from tests.faults.witness import Witness
from tests.postgres import PostgresServer
from tests.server import secret_file


@contextlib.asynccontextmanager
async def _replica(postgres: PostgresServer, folder: Path, workspace: Path, kept: Kept) -> AsyncIterator[Replica]:
    await create_database(postgres, folder.name)
    to_database = await FaultyProxy(postgres.port).start()
    variables = {
        "HOLDFAST_WORKSPACE": str(workspace),
        "HOLDFAST_SECRET_FILE": str(secret_file(folder)),
        "HOLDFAST_DATABASE_URL": f"postgresql://postgres@127.0.0.1:{to_database.port}/{folder.name}",
        "HOLDFAST_DRAIN_SECONDS": "1",
    }
    replica = Replica(folder / "data", variables, kept, to_database)
    try:
        yield replica
    finally:
        await replica.close()
        await to_database.close()


async def _until_it_is_left(replica: Replica) -> None:
    with pytest.raises(AssertionError):
        await replica.is_up()


async def test_server_that_finds_no_database_is_started_again_and_one_that_was_ended_too(
    postgres_server: PostgresServer, witness: Witness, tmp_path: Path
) -> None:
    kept = Kept()
    async with _replica(postgres_server, tmp_path, witness.workspace, kept) as replica:
        replica.to_database.refuse()
        replica.disturb()
        replica.start()
        async with asyncio.timeout(60):
            while not kept.restarts:  # noqa: ASYNC110  # nobody says it: it is only counted
                await asyncio.sleep(0.05)
        await replica.to_database.start()
        await replica.is_up()
        restarts = kept.restarts
        for number in (signal.SIGKILL, signal.SIGTERM):
            replica.end(number)
            await replica.is_up()
        assert (kept.restarts, kept.killed, kept.wrong) == (restarts, 0, [])
        assert [len(kept.ending["kill"]), len(kept.ending["drain"]), len(kept.starting)] == [1, 1, 3]


async def test_server_that_gives_up_for_another_reason_is_not_started_again(
    postgres_server: PostgresServer, witness: Witness, tmp_path: Path
) -> None:
    kept = Kept()
    async with _replica(postgres_server, tmp_path, tmp_path / "no such workspace", kept) as replica:
        replica.disturb()
        replica.start()
        await _until_it_is_left(replica)
    (wrong,) = kept.wrong
    assert "WORKSPACE_INVALID" in wrong and not kept.restarts


async def test_server_that_finds_no_database_although_no_fault_took_it_away_is_not_started_again(
    postgres_server: PostgresServer, witness: Witness, tmp_path: Path
) -> None:
    kept = Kept()
    async with _replica(postgres_server, tmp_path, witness.workspace, kept) as replica:
        replica.to_database.refuse()
        replica.start()
        await _until_it_is_left(replica)
    (wrong,) = kept.wrong
    assert "STORAGE_DOWN" in wrong and not kept.restarts


async def test_server_that_gives_up_too_often_is_left(
    postgres_server: PostgresServer, witness: Witness, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(supervision, "MAX_STARTS", 1)
    kept = Kept()
    async with _replica(postgres_server, tmp_path, witness.workspace, kept) as replica:
        replica.to_database.refuse()
        replica.disturb()
        replica.start()
        await _until_it_is_left(replica)
    (wrong,) = kept.wrong
    assert "gave up too often" in wrong and kept.restarts == 1


async def test_server_that_ends_by_itself_is_written_down(
    postgres_server: PostgresServer, witness: Witness, tmp_path: Path
) -> None:
    kept = Kept()
    async with _replica(postgres_server, tmp_path, witness.workspace, kept) as replica:
        replica.start()
        await replica.is_up()
        assert replica.child is not None
        replica.child.signal(signal.SIGABRT)  # as an error in native code would
        async with asyncio.timeout(60):
            while not kept.wrong:  # noqa: ASYNC110  # nobody says it: it is only counted
                await asyncio.sleep(0.05)
    assert "ended by itself with -6" in kept.wrong[0]
