"""What goes wrong with a disk is called by its name, is logged, and stops no more than it has to."""

import asyncio
import contextlib
import os
import signal
import sqlite3
from pathlib import Path

import httpx2
import pytest

from app.core.settings import Settings
from tests.faults.processes import Child, serving, started
from tests.faults.test_disk_full import _fill, small_disk  # noqa: F401  # a fixture


@pytest.mark.requirement("G16")
@pytest.mark.parametrize(
    ("error", "code"), [("EIO", "STORAGE_FAILED"), ("EPERM", "STORAGE_FAILED"), ("ENOSPC", "STORAGE_FULL")]
)
async def test_a_refused_write_is_called_full_only_when_the_disk_is(tmp_path: Path, error: str, code: str) -> None:
    async with started("tests.faults.refusing_disk", "--data-dir", str(tmp_path), "--error", error) as child:
        assert await child.line("refused ") == code
        assert await child.line("read ") == "True"
        await child.end()
    assert code in child.said


@pytest.mark.requirement("G16")
@pytest.mark.parametrize("knows_its_consumers", [True, False])
async def test_a_server_starts_on_a_full_disk_serves_reads_and_becomes_ready_when_there_is_room(
    small_disk: Path,  # noqa: F811
    knows_its_consumers: bool,
) -> None:
    settings = Settings(data_dir=small_disk / "data")
    async with serving(settings) as (server, url), httpx2.AsyncClient(base_url=url, timeout=20) as http:
        run = (await http.post("/api/runs?wait=15", json={"agent": "echo", "input": "before"})).json()
        await _stopped(server)
    if not knows_its_consumers:  # as after an upgrade that brings one
        with contextlib.closing(sqlite3.connect(settings.sqlite_path, isolation_level=None)) as database:
            database.execute("DELETE FROM consumers")
    _fill(small_disk)
    (small_disk / "more").write_bytes(b"")  # names are still to be had, room is not
    async with serving(settings) as (server, url), httpx2.AsyncClient(base_url=url, timeout=20) as http:
        for path in (f"/api/runs/{run['id']}", f"/api/threads/{run['threadId']}/events", "/api/runs"):
            answer = await http.get(path)
            assert answer.status_code == 200, answer.text
        answer = await http.post("/api/runs", json={"agent": "echo", "input": "in vain"})
        assert (answer.status_code, answer.json()["error"]["code"]) == (503, "STORAGE_FULL"), answer.text
        ready = await http.get("/readyz")
        assert (ready.status_code, ready.json()["code"]) == (503, "STORAGE_FULL")

        (small_disk / "ballast").unlink()

        async with asyncio.timeout(30):
            while (await http.get("/readyz")).status_code != 200:  # noqa: ASYNC110  # there is no event for it
                await asyncio.sleep(0.05)
        answer = await http.post("/api/runs?wait=15", json={"agent": "echo", "input": "there is room again"})
        assert (answer.status_code, answer.json()["status"]) == (200, "completed"), answer.text
        assert (await http.get(f"/api/runs/{run['id']}")).json()["output"] == "before"
        await _stopped(server)
    assert "storage.has_room_again" in server.said
    async with serving(settings) as (server, _):  # the next start stores what this one may not have had the time to
        await _stopped(server)
    with contextlib.closing(sqlite3.connect(settings.sqlite_path)) as database:
        assert database.execute("SELECT count(*) FROM consumers").fetchone() == (1,)


@pytest.mark.requirement("G16")
async def test_a_damaged_page_has_a_code_of_its_own_and_the_log_says_what_to_do(tmp_path: Path) -> None:
    settings = Settings(data_dir=tmp_path)
    async with serving(settings) as (server, url), httpx2.AsyncClient(base_url=url, timeout=20) as http:
        run = (await http.post("/api/runs?wait=15", json={"agent": "echo", "input": "before"})).json()
        await _stopped(server)
    _damage(settings.sqlite_path)
    async with serving(settings) as (server, url), httpx2.AsyncClient(base_url=url, timeout=20) as http:
        answer = await http.get(f"/api/threads/{run['threadId']}/transcript")
        assert (answer.status_code, answer.json()["error"]["code"]) == (503, "STORAGE_CORRUPT"), answer.text
        await _stopped(server)
    assert "storage.refused" in server.said and "holdfast log verify" in server.said


@pytest.mark.requirement("G16")
async def test_a_data_folder_that_cannot_be_written_is_one_line_and_no_traceback(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    folder.mkdir()
    (folder / "lock").mkdir()  # what may not be written may be root's as well
    async with started("app.main", "serve", "--port", "0", "--data-dir", str(folder)) as child:
        assert await child.end() == 1
    assert "DATA_DIR_UNUSABLE" in child.said and "Traceback" not in child.said


async def test_a_file_that_is_no_database_is_called_damaged_at_the_start(tmp_path: Path) -> None:
    (tmp_path / "holdfast.db").write_bytes(b"this was something else" * 500)
    async with started("app.main", "serve", "--port", "0", "--data-dir", str(tmp_path)) as child:
        assert await child.end() == 1
    assert "STORAGE_CORRUPT" in child.said and "Traceback" not in child.said


async def _stopped(server: Child) -> None:
    server.signal(signal.SIGTERM)
    assert await server.end() == 0, server.said


def _damage(path: Path) -> None:
    """Overwrites the root of a table that is not needed to start, as a failing disk may."""
    with sqlite3.connect(path) as database:
        (page,) = database.execute("SELECT rootpage FROM sqlite_master WHERE name = 'transcript_entries'").fetchone()
        (size,) = database.execute("PRAGMA page_size").fetchone()
    database.close()
    with path.open("r+b") as file:
        file.seek((page - 1) * size)
        file.write(os.urandom(size))
