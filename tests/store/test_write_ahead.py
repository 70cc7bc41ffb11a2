"""The file into which SQLite writes ahead: its size is watched without making commits dearer."""

from pathlib import Path

import pytest

from app.core.ids import new_id
from app.core.settings import Settings
from app.events.catalog import request, thread
from app.events.catalog.execution import StepCompleted
from app.events.ports import Appended
from app.events.recorder import Scope
from app.store import sqlite
from app.wiring.store import open_store


async def test_the_log_that_is_written_ahead_is_used_from_its_beginning_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its size is asked of a descriptor that stays open: also in a folder in which there was no database."""
    monkeypatch.setattr(sqlite, "WAL_BYTES", 64 * 1024)
    settings = Settings(data_dir=tmp_path)
    async with open_store(settings) as store:
        scope = Scope("default", new_id("thread"), new_id("run"))
        began = await store.recorder.record(scope, thread.ThreadCreated(), request.RequestQueued(agent="x", input="hi"))
        assert isinstance(began, Appended)
        for n in range(100):
            step = StepCompleted(step="s", key=f"{n}:{'x' * 4096}")
            assert isinstance(await store.recorder.record(scope, step), Appended)
        size = settings.sqlite_path.with_name("holdfast.db-wal").stat().st_size
        assert 0 < size < 4 * 64 * 1024 < settings.sqlite_path.stat().st_size
