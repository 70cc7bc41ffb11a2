"""The files of an embedded database: one server for them whatever its folder is called, a log that is watched, and
space that comes back.
"""

import asyncio
import os
import signal
import sqlite3
from pathlib import Path

import httpx2
import pytest

from app.core.principal import LOCAL
from app.core.settings import Settings
from app.runtime.intake.threads import NewThread
from app.store import sqlite
from app.store.blobs import Blobs
from app.store.folder import DataFolder, FolderLocked
from app.store.vacuum import _KIND, PAGES_AT_ONCE, shrink
from app.views.thread import Thread
from app.wiring.runtime import open_holdfast
from app.wiring.store import open_store
from tests.faults.load import Producer
from tests.faults.processes import serving, started

MIB = 1024 * 1024


@pytest.mark.requirement("G10")
async def test_a_deleted_lock_file_or_another_name_of_the_folder_lets_no_second_server_in(tmp_path: Path) -> None:
    settings = Settings(data_dir=tmp_path / "data")
    linked, hard = tmp_path / "linked", tmp_path / "hard"
    async with serving(settings) as (server, url), httpx2.AsyncClient(base_url=url, timeout=20) as http:
        run = (await http.post("/api/runs?wait=15", json={"agent": "echo", "input": "x"})).json()
        (settings.data_dir / "lock").unlink()
        linked.symlink_to(settings.data_dir)
        hard.mkdir()
        os.link(settings.sqlite_path, hard / "holdfast.db")
        for folder in (settings.data_dir, linked, hard):
            async with started("app.main", "serve", "--port", "0", "--data-dir", str(folder)) as second:
                assert await second.end() == 1
            assert "DATA_DIR_LOCKED" in second.said, second.said
        # And the first one still has its own locks: it reads and writes on.
        assert (await http.get(f"/api/runs/{run['id']}")).status_code == 200
        again = await http.post("/api/runs?wait=15", json={"agent": "echo", "input": "y"})
        assert again.status_code == 200, again.text
        server.signal(signal.SIGTERM)
        assert await server.end() == 0


@pytest.mark.requirement("G10")
def test_whoever_is_refused_leaves_the_lock_file_to_its_owner(tmp_path: Path) -> None:
    owner = DataFolder(tmp_path)
    owner.take()
    owner.announce("http://127.0.0.1:1")
    with pytest.raises(FolderLocked):
        DataFolder(tmp_path).take()
    assert DataFolder(tmp_path).running_server() == {"pid": os.getpid(), "url": "http://127.0.0.1:1"}
    owner.release()
    following = DataFolder(tmp_path)
    following.take()
    following.release()


async def test_a_reader_outside_that_keeps_the_log_growing_is_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sqlite, "WAL_BYTES", 64 * 1024)
    monkeypatch.setattr(sqlite, "WAL_WARNING_BYTES", 128 * 1024)
    settings = Settings(data_dir=tmp_path)
    async with open_store(settings) as store:
        producer = Producer(store.recorder, lambda event: None)
        await producer.produce(1)
        outside = sqlite3.connect(settings.sqlite_path, isolation_level=None)
        outside.execute("BEGIN")
        outside.execute("SELECT count(*) FROM events").fetchall()
        try:
            async with asyncio.timeout(60):
                while "storage.wal_large" not in capsys.readouterr().out:
                    await producer.produce(1)
        finally:
            outside.close()


@pytest.mark.requirement("G13")
async def test_a_purge_gives_its_space_back_in_steps_where_that_is_asked_for(tmp_path: Path) -> None:
    settings = Settings(data_dir=tmp_path, sqlite_vacuum="incremental", retention_deleted_days=0)
    async with open_holdfast(settings) as holdfast:
        made = await holdfast.threads.create(LOCAL, NewThread())
        assert isinstance(made, Thread)
        blobs = Blobs(holdfast.store.database)
        for _ in range(16):
            await blobs.put("default", made.id, os.urandom(MIB), "application/octet-stream")
        full = settings.sqlite_path.stat().st_size + settings.sqlite_path.with_name("holdfast.db-wal").stat().st_size
        await holdfast.threads.delete(LOCAL, made.id)
        assert await holdfast.store.retention.purge() == 1
        assert await shrink(holdfast.store.database, asyncio.Event()) > 8 * PAGES_AT_ONCE
    assert full > 16 * MIB > 8 * MIB > settings.sqlite_path.stat().st_size


async def test_a_database_made_without_the_setting_is_compacted_by_the_command(tmp_path: Path) -> None:
    settings = Settings(data_dir=tmp_path)
    async with open_store(settings):
        pass
    with sqlite3.connect(settings.sqlite_path) as database:
        database.execute("INSERT INTO workspaces VALUES ('bulk', zeroblob(16777216))")
        database.execute("DELETE FROM workspaces WHERE digest = 'bulk'")
    database.close()
    before = settings.sqlite_path.stat().st_size
    async with started("app.main", "compact", "--data-dir", str(tmp_path)) as command:
        assert await command.end() == 0, command.said
    assert settings.sqlite_path.stat().st_size < before / 4
    async with open_store(settings.model_copy(update={"sqlite_vacuum": "incremental"})) as store:
        kind = await store.database.read(lambda tx: tx.rows(_KIND))
        assert int(kind[0][0]) == 2
        refused = await _compacted(tmp_path)
    assert "DATA_DIR_LOCKED" in refused


async def _compacted(folder: Path) -> str:
    async with started("app.main", "compact", "--data-dir", str(folder)) as command:
        assert await command.end() == 1
    return command.said
