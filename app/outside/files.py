"""Files beneath one folder: every path is resolved by the kernel under that root, and never leaves it.

A write is compare-and-swap on the content's hash and replaces the file atomically. Failures are values
with a code. Leaves to others: who may write and why, and how much of a file a model sees.
"""

import ctypes
import errno
import fcntl
import hashlib
import os
import secrets
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from app.core.errors import Failure
from app.core.value import value

DEFAULT_MAX_BYTES: Final = 8 * 1024 * 1024

_SYS_OPENAT2: Final = 437  # the same number on every Linux architecture
_RESOLVE_NO_MAGICLINKS: Final = 0x02
_RESOLVE_NO_SYMLINKS: Final = 0x04
_RESOLVE_BENEATH: Final = 0x08
# A pipe that nobody writes to must not hold the reader up, nor a terminal become the server's.
_READ_ANY: Final = os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY
_LOST_RACE: Final = 8  # the kernel asks to try again when a folder is renamed under the walk


class _OpenHow(ctypes.Structure):
    _fields_ = [("flags", ctypes.c_uint64), ("mode", ctypes.c_uint64), ("resolve", ctypes.c_uint64)]


@value(frozen=True, slots=True)
class Written:
    path: str
    hash: str
    size: int
    former: str = ""
    """The hash of what it replaced; empty where there was no file."""


def hash_of(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def tenant_folder(files: Path, tenant: str) -> Path:
    """Where a tenant's files are. Its name comes from a token; the hash is a folder name whatever it contains."""
    folder = files / f"tenant-{hash_of(tenant.encode())[:16]}"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


class Rooted:
    """A folder and nothing above it. Safe against a link that is swapped in between check and use.

    Without `links` none is followed: a path that was compared as text then leads where its text says.
    """

    def __init__(self, root: Path, *, links: bool = True) -> None:
        self.root, self._links = root.resolve(), links

    def read(self, path: str, max_bytes: int = DEFAULT_MAX_BYTES) -> bytes | Failure:
        with self._folder() as root:
            try:
                with _closing(_open_beneath(root, path, _READ_ANY, links=self._links)) as file:
                    return _content(file, max_bytes)
            except OSError as error:
                return _failure(error)

    def names(self, path: str = ".", limit: int = 1_000) -> list[str] | Failure:
        """The entries of a folder, folders with a trailing slash, sorted."""
        with self._folder() as root:
            try:
                with (
                    _closing(_open_beneath(root, path, os.O_RDONLY | os.O_DIRECTORY, links=self._links)) as folder,
                    os.scandir(folder) as entries,
                ):
                    found = [e.name + ("/" if e.is_dir(follow_symlinks=False) else "") for e in entries]
            except OSError as error:
                return _failure(error)
            return sorted(found)[:limit]

    def replace(self, path: str, content: bytes, expected_hash: str) -> Written | Failure:
        """Write if the file still is what `expected_hash` says; an empty one says it must not exist yet.

        A missing file has the hash of no bytes as well, so that "what I read was empty" also matches it.
        """
        parent, _, name = path.rpartition("/")
        if name in ("", ".", "..") or path.startswith("/") or "\x00" in path:
            return Failure("PATH_REFUSED", "The path does not name a file beneath the folder.")
        with self._folder() as root:
            try:
                with _parent(root, parent, links=self._links) as folder, _locked(folder):
                    return _swap(folder, name, path, content, expected_hash)
            except OSError as error:
                return _failure(error)

    def remove(self, path: str, expected_hash: str) -> Failure | None:
        """Delete the file if its content still has this hash. A file that is not there is no failure."""
        parent, _, name = path.rpartition("/")
        if name in ("", ".", "..") or path.startswith("/") or "\x00" in path:
            return Failure("PATH_REFUSED", "The path does not name a file beneath the folder.")
        with self._folder() as root:
            try:
                with (
                    _closing(
                        _open_beneath(root, parent or ".", os.O_RDONLY | os.O_DIRECTORY, links=self._links)
                    ) as folder,
                    _locked(folder),
                ):
                    return _unlink(folder, name, expected_hash)
            except FileNotFoundError:
                return None
            except OSError as error:
                return _failure(error)

    @contextmanager
    def _folder(self) -> Iterator[int]:
        with _closing(os.open(self.root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)) as root:
            yield root


@contextmanager
def _closing(file: int) -> Iterator[int]:
    """`os.fdopen` does not close what it refuses (a folder), so descriptors are used bare and closed here."""
    try:
        yield file
    finally:
        os.close(file)


def _swap(folder: int, name: str, path: str, content: bytes, expected_hash: str) -> Written | Failure:
    current = _current(folder, name)
    if isinstance(current, Failure):
        return current
    actual = hash_of(current or b"")
    fits = current is None if expected_hash == "" else actual == expected_hash.lower()
    if not fits:
        shown = actual if current is not None else ""
        return Failure(
            "WRITE_CONFLICT",
            "The file has changed since it was read; read it again.",
            detail={"currentHash": shown},
        )
    temporary = f".{name[:100]}.{secrets.token_hex(8)}.tmp"
    file = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW, 0o644, dir_fd=folder)
    try:
        with os.fdopen(file, "wb") as stream:
            _same_owner(folder, stream.fileno())
            stream.write(content)
            stream.flush()
            os.fsync(stream.fileno())
        os.replace(temporary, name, src_dir_fd=folder, dst_dir_fd=folder)
    except BaseException:
        os.unlink(temporary, dir_fd=folder)
        raise
    os.fsync(folder)  # the new name itself must survive a power loss
    return Written(path, hash_of(content), len(content), actual if current is not None else "")


def _unlink(folder: int, name: str, expected_hash: str) -> Failure | None:
    current = _current(folder, name)
    if current is None or isinstance(current, Failure):
        return current
    actual = hash_of(current)
    if actual != expected_hash:
        message = "The file has changed since it was written."
        return Failure("WRITE_CONFLICT", message, detail={"currentHash": actual})
    os.unlink(name, dir_fd=folder)
    os.fsync(folder)  # that it is gone must survive a power loss
    return None


def _same_owner(folder: int, made: int) -> None:
    """A server that is root gives folders to the user of sandboxed programs; what it adds to them is theirs too."""
    if os.geteuid() == 0:
        owner = os.fstat(folder)
        os.fchown(made, owner.st_uid, owner.st_gid)


def _current(folder: int, name: str) -> bytes | Failure | None:
    """What a write would replace. A link is refused: replacing it is not what the writer meant."""
    try:
        opened = os.open(name, _READ_ANY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
    except FileNotFoundError:
        return None
    with _closing(opened) as file:
        return _content(file, DEFAULT_MAX_BYTES)


def _content(file: int, max_bytes: int) -> bytes | Failure:
    if not stat.S_ISREG(os.fstat(file).st_mode):
        return Failure("PATH_REFUSED", "The path does not name a plain file.")
    pieces, left = [], max_bytes + 1
    while left > 0 and (piece := os.read(file, min(left, 1 << 20))):
        pieces.append(piece)
        left -= len(piece)
    if left <= 0:
        return Failure("OUTPUT_TOO_LARGE", f"The file is larger than {max_bytes} bytes.")
    return b"".join(pieces)


@contextmanager
def _parent(root: int, parent: str, *, links: bool) -> Iterator[int]:
    """The folder of a file to write, made when it is missing, one checked step at a time."""
    folder = os.dup(root)
    try:
        for step in [part for part in parent.split("/") if part not in ("", ".")] if parent else []:
            if step == "..":
                raise OSError(errno.EXDEV, "leaves the root")
            try:
                below = _open_beneath(folder, step, os.O_RDONLY | os.O_DIRECTORY, links=links)
            except FileNotFoundError:
                os.mkdir(step, 0o755, dir_fd=folder)
                below = _open_beneath(folder, step, os.O_RDONLY | os.O_DIRECTORY, links=links)
                _same_owner(folder, below)
            os.close(folder)
            folder = below
        yield folder
    finally:
        os.close(folder)


@contextmanager
def _locked(folder: int) -> Iterator[None]:
    """Between compare and swap no other writer of ours, in this process or another, may come in."""
    with _closing(os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=folder)) as own:
        fcntl.flock(own, fcntl.LOCK_EX)
        yield


def _open_beneath(root: int, path: str, flags: int, *, links: bool) -> int:
    if "\x00" in path or path.startswith("/"):
        raise OSError(errno.EXDEV, "leaves the root")
    flags |= os.O_CLOEXEC
    resolve = _RESOLVE_BENEATH | _RESOLVE_NO_MAGICLINKS | (0 if links else _RESOLVE_NO_SYMLINKS)
    how = _OpenHow(flags, 0, resolve)
    for _ in range(_LOST_RACE):
        file = _LIBC.syscall(_SYS_OPENAT2, root, path.encode() or b".", ctypes.byref(how), ctypes.sizeof(how))
        if file >= 0:
            return int(file)
        error = ctypes.get_errno()
        if error in (errno.ENOSYS, errno.EPERM):
            return _open_step_by_step(root, path, flags)
        if error != errno.EAGAIN:
            raise OSError(error, os.strerror(error))
    raise OSError(errno.EAGAIN, "the folder keeps changing")


def _open_step_by_step(root: int, path: str, flags: int, *, links: bool = False) -> int:
    """For kernels (or filters) without openat2: stricter, no link is followed at all, whatever `links` says."""
    steps = [step for step in path.split("/") if step not in ("", ".")]
    if ".." in steps or path.startswith("/"):
        raise OSError(errno.EXDEV, "leaves the root")
    folder = os.dup(root)
    try:
        for step in steps[:-1]:
            below = os.open(step, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=folder)
            os.close(folder)
            folder = below
        return os.open(steps[-1] if steps else ".", flags | os.O_NOFOLLOW, dir_fd=folder)
    finally:
        os.close(folder)


def _failure(error: OSError) -> Failure:
    if error.errno == errno.ENOENT:
        return Failure("FILE_NOT_FOUND", "There is no such file.")
    if error.errno in (
        errno.EXDEV,
        errno.ELOOP,
        errno.ENOTDIR,
        errno.EISDIR,
        errno.ENAMETOOLONG,
        errno.EACCES,
        errno.EPERM,
        errno.ENXIO,  # a socket, or a device without a driver
        errno.ENODEV,
    ):
        return Failure("PATH_REFUSED", "The path leaves its folder or is not a plain file in it.")
    raise error


_LIBC = ctypes.CDLL(None, use_errno=True)
