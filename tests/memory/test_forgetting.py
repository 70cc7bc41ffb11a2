"""What is forgotten is gone: from every table and index at once, and from the files after a purge."""

from pathlib import Path

import asyncpg
import pytest

from app.core.principal import LOCAL
from app.core.settings import Settings
from app.runtime.intake.memory_desk import ForgetRequest
from app.store.memory_purge import purge_memory
from tests.memory.test_runs_with_memory import facts
from tests.runs import ended, opened, submit

WORDS = ("xylophoneism", "quokkaville")


async def _learn_and_forget(settings: Settings, workspace: Path) -> None:
    async with opened(settings, workspace) as holdfast:
        said = await submit(holdfast, "clerk", "hello")
        place = {"memory": "facts", "agent": "clerk"}
        from app.runtime.intake.memory_desk import MemoryPlace, NewRecord

        desk = holdfast.memory_desk
        made = [
            await desk.put(LOCAL, MemoryPlace(**place), NewRecord(f"The {word} is number {n}.", attributes={"w": word}))
            for n, word in enumerate(WORDS)
        ]
        assert all(isinstance(one, dict) for one in made)
        # Recalled by a run, so that its thread holds a context with the text.
        await ended(holdfast, said)
        await ended(holdfast, await submit(holdfast, "clerk", "Which number has the other one?"))
        gone = await desk.forget(LOCAL, ForgetRequest(user="local"))
        assert isinstance(gone, list) and len(gone) == 2


@pytest.mark.requirement("S23")
async def test_after_a_purge_no_file_or_table_holds_the_text(settings: Settings, tmp_path: Path) -> None:
    await _learn_and_forget(settings, facts(tmp_path / "ws"))
    if settings.is_postgres:
        assert settings.database_url is not None
        connection = await asyncpg.connect(settings.database_url)
        tables = await connection.fetch("SELECT tablename FROM pg_tables WHERE schemaname = 'public'")
        for (table,) in tables:
            rows = await connection.fetch(f"SELECT * FROM {table}")
            stored = b" ".join(_bytes(value) for row in rows for value in row.values())
            assert not any(word.encode() in stored for word in WORDS), table
        await connection.close()
        assert "tables were rewritten" in await purge_memory(settings)
        return
    await purge_memory(settings)
    for file in settings.data_dir.iterdir():
        if file.is_file():
            data = file.read_bytes()
            assert not any(word.encode() in data for word in WORDS), file.name
    assert settings.sqlite_path.is_file()


def _bytes(value: object) -> bytes:
    return bytes(value) if isinstance(value, bytes | memoryview) else str(value).encode()
