"""A disk that fails to sync: the process stops at once and acknowledges nothing; the log says what is there.

The disk of the embedded database, that is: a Postgres server that cannot sync stops by itself.
"""

from pathlib import Path

import pytest

from app.core.settings import Settings
from app.wiring.store import open_store
from tests.faults.audit import audit, read_seen_events
from tests.faults.conftest import Count
from tests.faults.processes import started

BROKEN = 74
"""EX_IOERR."""


@pytest.mark.requirement("G16", "G1")
@pytest.mark.parametrize("write", ["commits", "leases", "checkpoints"])
async def test_a_failed_sync_stops_the_process_before_it_answers(tmp_path: Path, write: str, count: Count) -> None:
    settings, notes = Settings(data_dir=tmp_path / "data"), tmp_path / "notes"
    arguments = ("--data-dir", str(settings.data_dir), "--notes", str(notes), "--fail", write)
    async with started("tests.faults.failing_disk", *arguments) as child:
        await child.line("loaded")
        before = read_seen_events(notes / "acknowledged")
        await child.send("fail")
        assert await child.end() == BROKEN, child.said
        assert "failing" in child.said and "survived" not in child.said
        assert "STORAGE_BROKEN" in child.said
    acknowledged = read_seen_events(notes / "acknowledged")
    if write == "commits":
        assert acknowledged == before
    async with open_store(settings) as store:
        count(await audit(store, acknowledged))
