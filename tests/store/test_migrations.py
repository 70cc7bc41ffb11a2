"""The line of migrations: one after the other, and the program knows the last of them."""

import re
from pathlib import Path

from app.core.resources import shipped
from app.store.migrate import NEWEST, known_revisions


def test_the_newest_revision_is_the_last_file() -> None:
    assert max(known_revisions()) == NEWEST


def test_each_migration_follows_the_one_before() -> None:
    files = sorted((Path(shipped("migrations")) / "versions").glob("[0-9]*.py"))
    line = [re.findall(r'^(?:down_)?revision = "?(\w+)"?$', file.read_text(), re.MULTILINE) for file in files]
    assert line == [
        [f"{number:04}", f"{number - 1:04}" if number > 1 else "None"] for number in range(1, len(files) + 1)
    ]
