"""What is forgotten is gone: from every table and index at once, and from the files after a purge."""

import subprocess
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
async def test_after_a_purge_no_file_table_or_log_holds_the_text(settings: Settings, tmp_path: Path) -> None:
    await _learn_and_forget(settings, facts(tmp_path / "ws"))
    folder = settings.data_dir
    if settings.is_postgres:
        assert settings.database_url is not None
        connection = await asyncpg.connect(settings.database_url)
        tables = await connection.fetch("SELECT tablename FROM pg_tables WHERE schemaname = 'public'")
        for (table,) in tables:
            rows = await connection.fetch(f"SELECT * FROM {table}")
            stored = b" ".join(_bytes(value) for row in rows for value in row.values())
            assert not any(word.encode() in stored for word in WORDS), table
        folder = Path(await connection.fetchval("SHOW data_directory"))
        await connection.close()
        assert _holding(folder), "the write-ahead log still has it"
    assert "rewritten" in await purge_memory(settings)
    # Of Postgres all files of the server, with its write-ahead log.
    assert _holding(folder) == []
    assert settings.is_postgres or settings.sqlite_path.is_file()


def _holding(folder: Path) -> list[str]:
    """The files that have one of the words."""
    wanted = [part for word in WORDS for part in ("-e", word)]
    found = subprocess.run(["grep", "-rlaF", *wanted, str(folder)], capture_output=True, text=True, check=False)
    return found.stdout.split()


def _bytes(value: object) -> bytes:
    return bytes(value) if isinstance(value, bytes | memoryview) else str(value).encode()
