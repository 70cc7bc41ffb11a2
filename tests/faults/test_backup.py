"""`holdfast backup` next to a server that writes without a pause: it ends, the writer goes on, the copy is whole."""

import asyncio
import os
import stat
import time
from pathlib import Path

import httpx2
import pytest

from app.core.principal import DEFAULT_TENANT
from app.core.settings import Settings
from app.events.catalog.request import TERMINAL
from app.store.engine import Sql
from app.store.migrate import migrate
from app.wiring.store import open_database, open_store
from tests.faults.audit import audit
from tests.faults.conftest import Report
from tests.faults.processes import serving, started

WRITERS = 4
ENDS_WITHIN = 60.0
BACKED_UP_WITHIN = 30.0
"""Seconds: ten times what it takes here. In steps that begin anew after each write it does not end."""
LONG = "word " * 60
BALLAST = [(f"ballast-{n}", os.urandom(1024 * 1024)) for n in range(80)]
"""Some thousand pages, so that copying them takes longer than the pause between two commits."""


class _Writers:
    """Clients that submit one run after the other and note how long each acceptance took, which is one append."""

    def __init__(self, url: str) -> None:
        self._url = url
        self.accepted: list[str] = []
        self.took: list[float] = []
        self.enough = asyncio.Event()

    async def write(self) -> None:
        async with httpx2.AsyncClient(base_url=self._url, timeout=30) as http:
            while not self.enough.is_set():
                began = time.monotonic()
                answer = await http.post("/api/runs", json={"agent": "echo", "input": LONG})
                self.took.append(time.monotonic() - began)
                assert answer.status_code == 202, answer.text
                self.accepted.append(answer.json()["id"])


async def _make_large(settings: Settings) -> None:
    await migrate(settings)
    database = open_database(settings)
    put = Sql("INSERT INTO workspaces (digest, files) VALUES ($1, $2)")
    for row in BALLAST:
        await database.write(lambda tx, row=row: tx.many(put, [row]))  # type: ignore[misc]
    await database.close()


@pytest.mark.requirement("SH-23", "G1")
async def test_a_backup_next_to_a_writing_server_ends_and_can_be_restored(tmp_path: Path, report: Report) -> None:
    settings, copy = Settings(data_dir=tmp_path / "data"), tmp_path / "copy"
    settings.data_dir.mkdir()
    await _make_large(settings)
    async with serving(settings) as (_, url):
        writers = _Writers(url)
        async with asyncio.TaskGroup() as tasks:
            for _ in range(WRITERS):
                tasks.create_task(writers.write())
            while len(writers.took) < 30:  # noqa: ASYNC110  # the load as it is without a backup
                await asyncio.sleep(0.01)
            before, known = max(writers.took), list(writers.accepted)
            writers.took.clear()
            began = time.monotonic()
            async with started("app.main", "backup", str(copy), "--data-dir", str(settings.data_dir)) as backup:
                code = await backup.end(BACKED_UP_WITHIN)
            took, during = time.monotonic() - began, max(writers.took)
            writers.enough.set()
        assert code == 0, backup.said
        report(f"{took:.2f} s; longest append {before * 1000:.0f} ms before, {during * 1000:.0f} ms during the backup")
    _assert_private(copy)
    await _assert_restorable(copy, known)


def _assert_private(copy: Path) -> None:
    assert stat.S_IMODE(copy.stat().st_mode) == 0o700
    for path in copy.rglob("*"):
        assert stat.S_IMODE(path.stat().st_mode) == (0o700 if path.is_dir() else 0o600), path


async def _assert_restorable(copy: Path, known: list[str]) -> None:
    """Every run that was accepted before is there and ends, and every chain is sound."""
    restored = Settings(data_dir=copy)
    async with serving(restored) as (_, url), httpx2.AsyncClient(base_url=url, timeout=30) as http:
        async with asyncio.timeout(ENDS_WITHIN):
            for run_id in known:
                while (run := await http.get(f"/api/runs/{run_id}")).json().get("status") != "completed":
                    assert run.status_code == 200, run.text
                    await asyncio.sleep(0.05)
    async with open_store(restored) as store:
        (await audit(store, [])).assert_sound()
        events = await store.reader.run_events(DEFAULT_TENANT, known[0], 0, 1000)
        assert events[-1].type in TERMINAL


async def test_a_link_in_the_data_folder_is_copied_as_a_link(tmp_path: Path) -> None:
    """A tool may have made it: what it leads to is not ours to copy."""
    settings, copy = Settings(data_dir=tmp_path / "data"), tmp_path / "copy"
    (settings.data_dir / "files").mkdir(parents=True)
    await migrate(settings)
    (tmp_path / "private").write_text("somebody else's")
    (settings.data_dir / "files" / "link").symlink_to(tmp_path / "private")
    os.mkfifo(settings.data_dir / "files" / "pipe")
    async with started("app.main", "backup", str(copy), "--data-dir", str(settings.data_dir)) as backup:
        assert await backup.end(ENDS_WITHIN) == 0, backup.said
    assert (copy / "files" / "link").is_symlink() and not (copy / "files" / "pipe").exists()
