"""The data folder's lock: one process per embedded database, and how the command line finds that process.

There are two: the lock file, in which the process says where it listens, and the database itself, because the file can
be deleted and a folder can be reached by several names.
"""

import contextlib
import fcntl
import os
import sys
from pathlib import Path
from typing import Any

from app.core import json
from app.core.errors import HoldfastError


class FolderLocked(HoldfastError):
    def __init__(self, folder: Path) -> None:
        super().__init__("DATA_DIR_LOCKED", f"Another Holdfast process uses {folder}.")


class FolderUnusable(HoldfastError):
    def __init__(self, folder: Path, error: OSError) -> None:
        reason = error.strerror or type(error).__name__
        super().__init__("DATA_DIR_UNUSABLE", f"The data folder {folder} cannot be written: {reason}.")


class DataFolder:
    """Held from `take` until the process ends; the kernel gives it back even after `kill -9`."""

    def __init__(self, folder: Path) -> None:
        self.path = folder
        self._file: int | None = None
        self._database: int | None = None

    @property
    def _lock(self) -> Path:
        return self.path / "lock"

    def take(self) -> None:
        file = self._locked(self._lock)
        try:
            self._database = self._take_database()
        except BaseException:
            os.close(file)
            raise
        os.ftruncate(file, 0)
        self._file = file

    def _take_database(self) -> int | None:
        """A lock of another kind than SQLite's own (`flock`, not `fcntl`): on Linux the two do not see each other.

        The file stays open until everything else has closed it: closing it earlier would drop SQLite's locks.
        """
        if sys.platform != "linux":
            return None
        return self._locked(self.path / "holdfast.db")

    def _locked(self, path: Path) -> int:
        """The open file, which nobody else holds."""
        try:
            self.path.mkdir(mode=0o700, parents=True, exist_ok=True)
            file = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
        except OSError as error:
            raise FolderUnusable(self.path, error) from error
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(file)
            raise FolderLocked(self.path) from None
        return file

    def announce(self, url: str) -> None:
        """Write where this server listens, for the command line."""
        assert self._file is not None, "take the folder first"
        # On a full disk the command line has to be given the address; that is no reason not to serve.
        with contextlib.suppress(OSError):
            os.pwrite(self._file, json.dumps({"pid": os.getpid(), "url": url}), 0)

    def release(self) -> None:
        if self._file is not None:
            os.ftruncate(self._file, 0)
            os.close(self._file)
            self._file = None
        if self._database is not None:
            os.close(self._database)
            self._database = None

    def running_server(self) -> dict[str, Any] | None:
        """Where the process listens that holds the lock; None if nobody does."""
        try:
            file = os.open(self._lock, os.O_RDONLY)
        except FileNotFoundError:
            return None
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            announced = os.pread(file, 4096, 0)
            return json.loads(announced) if announced else {}
        else:
            return None
        finally:
            os.close(file)
