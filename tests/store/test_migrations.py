"""The line of migrations: one after the other, and the program knows the last of them."""

import asyncio
import re
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Literal

import pytest

from app.core.resources import shipped
from app.core.settings import Settings
from app.store.migrate import NEWEST, known_revisions, migrate, upgrade_sqlite


def test_the_newest_revision_is_the_last_file() -> None:
    assert max(known_revisions()) == NEWEST


def test_each_migration_follows_the_one_before() -> None:
    files = sorted((Path(shipped("migrations")) / "versions").glob("[0-9]*.py"))
    line = [re.findall(r'^(?:down_)?revision = "?(\w+)"?$', file.read_text(), re.MULTILINE) for file in files]
    assert line == [
        [f"{number:04}", f"{number - 1:04}" if number > 1 else "None"] for number in range(1, len(files) + 1)
    ]


@pytest.mark.parametrize("vacuum", ["off", "incremental"])
async def test_a_new_file_is_what_the_migrations_come_to(tmp_path: Path, vacuum: Literal["off", "incremental"]) -> None:
    settings = Settings(data_dir=tmp_path, sqlite_vacuum=vacuum)
    await migrate(settings)
    upgrade_sqlite(tmp_path / "upgraded.db")

    def tables(path: Path) -> list[tuple[object, ...]]:
        with closing(sqlite3.connect(path)) as connection:
            revision = connection.execute("SELECT version_num, oldest FROM alembic_version, schema_support").fetchall()
            kept = connection.execute("SELECT type, name, tbl_name, sql FROM sqlite_master ORDER BY name").fetchall()
            return [*revision, *((*rest, " ".join((sql or "").split())) for *rest, sql in kept)]

    assert tables(settings.sqlite_path) == tables(tmp_path / "upgraded.db")
    with closing(sqlite3.connect(settings.sqlite_path)) as connection:
        assert connection.execute("PRAGMA auto_vacuum").fetchone() == (2 if vacuum == "incremental" else 0,)


async def test_of_processes_that_make_a_new_file_at_once_one_does(tmp_path: Path) -> None:
    settings = Settings(data_dir=tmp_path)
    await asyncio.gather(*(migrate(settings) for _ in range(8)))
    with closing(sqlite3.connect(settings.sqlite_path)) as connection:
        assert connection.execute("SELECT version_num FROM alembic_version").fetchall() == [(NEWEST,)]
