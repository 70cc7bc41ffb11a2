"""The files of a workspace as one frozen value, read from a folder or from what was stored of it.

Reading stays beneath the folder whatever links say, and within limits. The digest is over paths and
contents only, so that it is the same on any machine. What the files mean is the compiler's business.
"""

import hashlib
import os
import stat
import time
from collections.abc import Mapping
from dataclasses import field
from pathlib import Path
from types import MappingProxyType
from typing import Final

from app.core import json
from app.core.value import value
from app.workspace.diagnostics import Diagnostic

MAX_FILE_BYTES: Final = 1024 * 1024
MAX_FILES: Final = 20_000
MAX_TOTAL_BYTES: Final = 256 * 1024 * 1024
MAX_FOLDER_DEPTH: Final = 16
SUFFIXES: Final = (".yaml", ".yml", ".md", ".py", ".json")
_IGNORED_FOLDERS: Final = frozenset({"__pycache__", "node_modules"})
# A file changed within the clock's grain of the read may look unchanged next time, so it is read again.
_SETTLED_NS: Final = 2_000_000_000


@value(frozen=True, slots=True)
class SourceFile:
    path: str
    content: bytes
    sha256: str
    # Identity on disk when read (device, inode, size, mtime, ctime); None when it must be read again.
    stamp: tuple[int, ...] | None = field(default=None, compare=False)


@value(frozen=True, slots=True)
class WorkspaceFiles:
    """Relative POSIX path to file, in sorted order, and what could not be read."""

    files: Mapping[str, SourceFile]
    problems: tuple[Diagnostic, ...] = ()
    digest: str = ""

    @classmethod
    def of(cls, files: list[SourceFile], problems: tuple[Diagnostic, ...] = ()) -> "WorkspaceFiles":
        ordered = {file.path: file for file in sorted(files, key=lambda file: file.path)}
        return cls(MappingProxyType(ordered), problems, _digest(ordered))

    @classmethod
    def from_contents(cls, contents: Mapping[str, bytes]) -> "WorkspaceFiles":
        """From stored blobs: same contents, same digest as when they were read from the folder."""
        return cls.of([SourceFile(path, data, hashlib.sha256(data).hexdigest()) for path, data in contents.items()])

    @property
    def size(self) -> int:
        """Bytes of all files together."""
        return sum(len(file.content) for file in self.files.values())

    def contents(self) -> dict[str, bytes]:
        return {path: file.content for path, file in self.files.items()}


def _digest(files: Mapping[str, SourceFile]) -> str:
    listing = [[path, file.sha256] for path, file in files.items()]
    return hashlib.sha256(b"holdfast/v1\n" + json.canonical(listing)).hexdigest()


def read_folder(root: Path, previous: WorkspaceFiles | None = None) -> WorkspaceFiles:
    """Read what belongs to a workspace; files that did not change since `previous` are not read again."""
    reader = _FolderReader(root, previous.files if previous is not None else {})
    try:
        root_fd = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as error:
        reader.problem("FILE_UNREADABLE", "", f"the folder cannot be read: {error.strerror}")
        return WorkspaceFiles.of([], tuple(reader.problems))
    try:
        reader.folder(root_fd, "", 0)
    finally:
        os.close(root_fd)
    return WorkspaceFiles.of(reader.found, tuple(reader.problems))


class _FolderReader:
    def __init__(self, root: Path, known: Mapping[str, SourceFile]) -> None:
        self._root = Path(os.path.realpath(root))
        self._known = known
        self._bytes = 0
        # Only compared with file times of the same machine, never shown and never part of a digest.
        self._now_ns = time.time_ns()
        self.found: list[SourceFile] = []
        self.problems: list[Diagnostic] = []

    def problem(self, code: str, path: str, message: str, *, warning: bool = False) -> None:
        shown = path.encode("utf-8", "replace").decode()
        self.problems.append(Diagnostic(code, "warning" if warning else "error", shown, 1, 1, "", message))

    def folder(self, folder_fd: int, prefix: str, depth: int) -> None:
        """Entries are opened relative to the folder's own descriptor: a link swapped in cannot lead out."""
        try:
            with os.scandir(folder_fd) as entries:
                names = sorted(entries, key=lambda entry: entry.name)
        except OSError as error:
            self.problem("FILE_UNREADABLE", prefix, f"the folder cannot be read: {error.strerror}")
            return
        for entry in names:
            if self._full():
                return
            if not entry.name.startswith(".") and entry.name not in _IGNORED_FOLDERS:
                self._entry(folder_fd, entry, f"{prefix}{entry.name}", depth)

    def _full(self) -> bool:
        if len(self.found) < MAX_FILES and self._bytes <= MAX_TOTAL_BYTES:
            return False
        if not any(item.code == "TOO_MANY_FILES" for item in self.problems):
            limit = f"{MAX_FILES} files or {MAX_TOTAL_BYTES // 2**20} MiB"
            self.problem("TOO_MANY_FILES", "", f"the folder holds more than {limit}")
        return True

    def _entry(self, folder_fd: int, entry: os.DirEntry[str], path: str, depth: int) -> None:
        try:
            if entry.is_symlink():
                self._link(path, entry.name)
            elif entry.is_dir(follow_symlinks=False):
                self._subfolder(folder_fd, entry.name, path, depth)
            elif entry.name.endswith(SUFFIXES):
                self._file(folder_fd, entry.name, path, entry.stat(follow_symlinks=False))
        except OSError as error:
            self.problem("FILE_UNREADABLE", path, f"cannot be read: {error.strerror}")

    def _subfolder(self, folder_fd: int, name: str, path: str, depth: int) -> None:
        if depth >= MAX_FOLDER_DEPTH:
            self.problem("FILE_UNREADABLE", path, f"folders are nested deeper than {MAX_FOLDER_DEPTH} levels")
            return
        flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
        sub_fd = os.open(name, flags, dir_fd=folder_fd)
        try:
            self.folder(sub_fd, path + "/", depth + 1)
        finally:
            os.close(sub_fd)

    def _link(self, path: str, name: str) -> None:
        """Followed to a file beneath the root only: mounted configuration consists of such links."""
        target = Path(os.path.realpath(self._root / path))
        if not target.is_relative_to(self._root):
            self.problem("SYMLINK_LEAVES", path, "the symbolic link points out of the workspace")
        elif target.is_dir():
            self.problem("SYMLINK_FOLDER", path, "a symbolic link to a folder is not followed", warning=True)
        elif name.endswith(SUFFIXES):
            steps = target.relative_to(self._root).parts
            self._file_beneath(steps, path)

    def _file_beneath(self, steps: tuple[str, ...], path: str) -> None:
        flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
        opened = [os.open(self._root, flags)]
        try:
            for step in steps[:-1]:
                opened.append(os.open(step, flags, dir_fd=opened[-1]))
            self._file(opened[-1], steps[-1], path, os.stat(steps[-1], dir_fd=opened[-1], follow_symlinks=False))
        finally:
            for fd in opened:
                os.close(fd)

    def _file(self, folder_fd: int, name: str, path: str, info: os.stat_result) -> None:
        if not stat.S_ISREG(info.st_mode):
            self.problem("FILE_UNREADABLE", path, "is not a regular file")
            return
        try:
            path.encode()
        except UnicodeEncodeError:
            self.problem("FILE_NAME", path, "the file's name is not valid UTF-8")
            return
        stamp = (info.st_dev, info.st_ino, info.st_size, info.st_mtime_ns, info.st_ctime_ns)
        known = self._known.get(path)
        if known is not None and known.stamp == stamp:
            self._keep(known)
            return
        content = self._read(folder_fd, name)
        if content is None:
            self.problem("FILE_TOO_LARGE", path, f"the file is larger than {MAX_FILE_BYTES} bytes")
            return
        settled = self._now_ns - max(info.st_mtime_ns, info.st_ctime_ns) > _SETTLED_NS
        digest = hashlib.sha256(content).hexdigest()
        self._keep(SourceFile(path, content, digest, stamp if settled else None))

    def _keep(self, file: SourceFile) -> None:
        self._bytes += len(file.content)
        self.found.append(file)

    @staticmethod
    def _read(folder_fd: int, name: str) -> bytes | None:
        fd = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC, dir_fd=folder_fd)
        with os.fdopen(fd, "rb") as file:
            content = file.read(MAX_FILE_BYTES + 1)
        return content if len(content) <= MAX_FILE_BYTES else None
