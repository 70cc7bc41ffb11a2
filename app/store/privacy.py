"""The data folder belongs to the server's user alone: folders 0700, files 0600.

SQLite gives its side files the mode of the database, so it is enough to look after what is already there.
"""

import os
import stat
from collections.abc import Iterator
from pathlib import Path

import structlog

from app.store.folder import FolderUnusable

log = structlog.get_logger("holdfast.store")


def open_privately(folder: Path) -> None:
    """Make the folder, or take the rights of others from it and the files in it, and say so in the log."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        loose, stuck = tighten(folder)
    except OSError as error:
        raise FolderUnusable(folder, error) from error
    if loose:
        log.warning(
            "data_dir.tightened",
            folder=str(folder),
            names=sorted(loose)[:20],
            reason="other users of the machine could read or change these",
        )
    if stuck:
        remedy = (
            "Give the folder to the server's user (chown): others can reach these, and the server cannot change it."
        )
        log.warning("data_dir.not_private", folder=str(folder), names=sorted(stuck)[:20], remedy=remedy)


def tighten(folder: Path) -> tuple[list[str], list[str]]:
    """The folder and what is directly in it; answers the names that were open to others, and those that still are."""
    loose: list[str] = []
    stuck: list[str] = []
    for path, mode in [(folder, 0o700), *_entries(folder)]:
        tightened = _tighten(path, mode)
        if tightened is not None:
            (loose if tightened else stuck).append(path.name)
    return loose, stuck


def _entries(folder: Path) -> Iterator[tuple[Path, int]]:
    with os.scandir(folder) as entries:
        for entry in entries:
            yield Path(entry.path), 0o700 if entry.is_dir(follow_symlinks=False) else 0o600


def _tighten(path: Path, mode: int) -> bool | None:
    """Whether the rights of others could be taken; None when they had none, or it is neither file nor folder."""
    try:
        found = path.lstat().st_mode
        if not (stat.S_ISREG(found) or stat.S_ISDIR(found)) or not found & 0o077:
            return None
        path.chmod(mode & found)
    except FileNotFoundError:
        return None
    except OSError:
        return False
    return True
