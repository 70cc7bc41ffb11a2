"""Namespaces: the program's own processes, network and root folder, where the kernel allows them.

Root may have them as it is, everybody else through a user namespace where those are permitted. The new root holds
only what the policy names; what is hidden is covered by something empty. Leaves to `supervisor`: what follows from
not getting them.
"""

import contextlib
import os
import stat
import struct
from collections.abc import Iterator, Sequence
from typing import Any, Final

from app.outside.sandbox import kernel

_MS_RDONLY, _MS_NOSUID, _MS_NODEV, _MS_REC, _MS_PRIVATE = 0x1, 0x2, 0x4, 0x4000, 0x40000
_AT_FDCWD, _AT_EMPTY_PATH, _AT_RECURSIVE = -100, 0x1000, 0x8000
_OPEN_TREE_CLONE, _OPEN_TREE_CLOEXEC, _MOVE_MOUNT_F_EMPTY_PATH = 0x1, os.O_CLOEXEC, 0x4
_ATTR_RDONLY, _ATTR_NOSUID, _ATTR_NODEV, _ATTR_IDMAP = 0x1, 0x2, 0x4, 0x00100000
_MAX_LINKS: Final = 40
_DEVICES: Final = ("/dev/null", "/dev/zero", "/dev/urandom", "/dev/random")


class Namespaces:
    """What was obtained."""

    def __init__(self) -> None:
        self.processes = self.network = self.user = False


def enter(network: bool) -> Namespaces:
    """Processes started from now on are in namespaces of their own; the network of this one is, too."""
    got = Namespaces()
    flags = kernel.CLONE_NEWPID | kernel.CLONE_NEWIPC | (0 if network else kernel.CLONE_NEWNET)
    uid, gid = os.geteuid(), os.getegid()
    if uid == 0:
        with contextlib.suppress(OSError):
            kernel.unshare(flags)
            got.processes, got.network = True, not network
            return got
        if not network:
            with contextlib.suppress(OSError):
                kernel.unshare(kernel.CLONE_NEWNET)
                got.network = True
        return got
    with contextlib.suppress(OSError):
        kernel.unshare(flags | kernel.CLONE_NEWUSER)
        got.processes, got.network, got.user = True, not network, True
        # Somebody without privileges may map only themselves, and has to give up setgroups for the group.
        _write("/proc/self/setgroups", "deny")
        _write("/proc/self/uid_map", f"{uid} {uid} 1")
        _write("/proc/self/gid_map", f"{gid} {gid} 1")
    return got


def _write(path: str, text: str) -> None:
    with open(path, "w") as file:
        file.write(text)


class Root:
    """The new root folder of one program."""

    def __init__(self, policy: dict[str, Any], users: int = -1) -> None:
        """`users` is what `users_for` gave, or -1."""
        self._policy, self._users = policy, users
        self._base: str = policy["cwd"]  # any folder will do to put the new root on; this one is ours
        self._links: list[tuple[str, str]] = []
        self._binds: list[tuple[str, int]] = []
        self.plain: list[str] = []
        """What the program's own user has to be able to read as it is."""

    def build(self) -> None:
        """Raises OSError where it is not permitted; then nothing has changed that anybody else sees."""
        policy, hidden = self._policy, self._policy["hidden"]
        kernel.unshare(kernel.CLONE_NEWNS)
        kernel.mount(None, "/", _MS_REC | _MS_PRIVATE)
        inside = [path for path in policy["read"] if _beneath(path, hidden)]
        outside = [path for path in policy["read"] if path not in inside]
        self._plan([*outside, *_DEVICES])
        covered = [path for path, _ in self._binds]
        first = len(self._binds)
        self._plan([*inside, *policy["write"]])
        cwd = _clone(self._base)
        kernel.mount("tmpfs", self._base, _MS_NOSUID | _MS_NODEV, "mode=755,size=4m,nr_inodes=20k")
        try:
            self._fill(first, cwd, covered, inside)
            os.chdir(self._base)
            kernel.pivot_to_here()
        except OSError:
            kernel.unmount(self._base)  # the folder beneath it is needed
            raise

    def _fill(self, first: int, cwd: int, covered: Sequence[str], inside: Sequence[str]) -> None:
        """The first binds, then what hides a part of them, then the binds that are inside of what is hidden."""
        hidden = self._policy["hidden"]
        for target, path in self._links:
            self._parents(path)
            with contextlib.suppress(FileExistsError):
                os.symlink(target, self._base + path)
        for path, tree in self._binds[:first]:
            self._attach(path, tree)
        self._hide([path for path in hidden if _beneath(path, covered)])
        for path, tree in self._binds[first:]:
            self._attach(path, tree)
        self._hide([path for path in hidden if _beneath(path, inside)])
        self._working_folder(cwd)
        self._protect()

    def _plan(self, paths: Sequence[str]) -> None:
        shared = (*self._policy["system"], *self._policy["write"], *_DEVICES)
        before = len(self._binds)  # those may have something hidden between them and these
        for path in sorted(set(paths)):
            self._links += _links_of(path)
            real, own = os.path.realpath(path), self._users >= 0 and path not in shared
            if os.path.exists(real) and (own or not _beneath(real, [bound for bound, _ in self._binds[before:]])):
                self._binds.append((real, self._own(real) if own else _clone(real)))
                if not own and path not in shared:
                    self.plain.append(real)

    def _own(self, path: str) -> int:
        """A view of what belongs to root in which it belongs to the program's user; it is attached read-only."""
        tree = _clone(path, recursive=False)
        try:
            _set(tree, "", _AT_EMPTY_PATH, add=_ATTR_IDMAP | _ATTR_RDONLY, users=self._users)
        except OSError:  # not every file system can
            os.close(tree)
            self.plain.append(path)
            return _clone(path)
        return tree

    def _attach(self, path: str, tree: int) -> None:
        self._place(path, folder=stat.S_ISDIR(os.fstat(tree).st_mode))
        kernel.call(kernel.MOVE_MOUNT, tree, b"", _AT_FDCWD, os.fsencode(self._base + path), _MOVE_MOUNT_F_EMPTY_PATH)
        os.close(tree)

    def _place(self, path: str, folder: bool = False) -> None:
        """Make what something can be attached to."""
        self._parents(path)
        target = self._base + path
        if folder:
            os.makedirs(target, exist_ok=True)
        elif not os.path.lexists(target):
            os.close(os.open(target, os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC, 0o644))

    def _parents(self, path: str) -> None:
        os.makedirs(os.path.dirname(self._base + path), mode=0o755, exist_ok=True)

    def _hide(self, paths: Sequence[str]) -> None:
        nothing = self._base + "/.nothing"
        if not os.path.exists(nothing):
            os.close(os.open(nothing, os.O_CREAT | os.O_WRONLY | os.O_CLOEXEC, 0))
        for path in sorted(paths):
            target = self._base + path
            if os.path.isdir(target):
                kernel.mount("tmpfs", target, _MS_NOSUID | _MS_NODEV, "mode=755,size=1m,nr_inodes=1k")
            elif os.path.lexists(target):
                tree = _clone(nothing)
                kernel.call(kernel.MOVE_MOUNT, tree, b"", _AT_FDCWD, os.fsencode(target), _MOVE_MOUNT_F_EMPTY_PATH)
                os.close(tree)

    def _working_folder(self, cwd: int) -> None:
        """Memory of a fixed size where it is thrown away anyhow: small files and deleted ones count too."""
        policy, path = self._policy, self._policy["cwd"]
        if not policy["scratch"]:
            self._attach(path, cwd)
            return
        os.close(cwd)
        self._place(path, folder=True)
        owner = "" if policy["uid"] is None else f",uid={policy['uid']},gid={policy['uid']}"
        size = f"size={policy['disk_bytes']},nr_inodes={policy['disk_files']},mode=700{owner}"
        kernel.mount("tmpfs", self._base + path, _MS_NOSUID | _MS_NODEV, size)

    def _protect(self) -> None:
        _set(_AT_FDCWD, self._base, _AT_RECURSIVE, add=_ATTR_RDONLY | _ATTR_NOSUID)
        for path in [self._policy["cwd"], *map(os.path.realpath, self._policy["write"])]:
            if os.path.isdir(self._base + path):
                _set(_AT_FDCWD, self._base + path, 0, add=_ATTR_NODEV, remove=_ATTR_RDONLY)


def _beneath(path: str, folders: Sequence[str]) -> bool:
    return any(path == folder or path.startswith(folder.rstrip("/") + "/") for folder in folders)


def _links_of(path: str) -> Iterator[tuple[str, str]]:
    """The links on the way to a path, as (target, link), each on a way without links."""
    for _ in range(_MAX_LINKS):
        steps, here = path.strip("/").split("/"), ""
        for number, step in enumerate(steps):
            here = f"{here}/{step}"
            if os.path.islink(here):
                target = os.readlink(here)
                yield target, here
                rest = "/".join(steps[number + 1 :])
                path = os.path.normpath(os.path.join(os.path.dirname(here), target, rest))
                break
        else:
            return


def _clone(path: str, *, recursive: bool = True) -> int:
    flags = _OPEN_TREE_CLONE | _OPEN_TREE_CLOEXEC | (_AT_RECURSIVE if recursive else 0)
    return kernel.call(kernel.OPEN_TREE, _AT_FDCWD, os.fsencode(path), flags)


def _set(folder: int, path: str, flags: int, *, add: int, remove: int = 0, users: int = 0) -> None:
    attributes = struct.pack("QQQQ", add, remove, 0, users)
    kernel.call(kernel.MOUNT_SETATTR, folder, os.fsencode(path), flags, attributes, len(attributes))


def users_for(uid: int) -> int:
    """A user namespace, only as the table that shows what is root's as this user's. Raises OSError.

    Called before there is a pid namespace: /proc has the numbers of the one it was mounted in.
    """
    ready, ready_write = os.pipe()
    done, done_write = os.pipe()
    holder = os.fork()
    if holder == 0:
        os.close(done_write)
        with contextlib.suppress(OSError):
            kernel.unshare(kernel.CLONE_NEWUSER)
            os.write(ready_write, b"y")
            os.close(ready_write)
            os.read(done, 1)
        os._exit(0)
    os.close(ready_write)
    try:
        if not os.read(ready, 1):
            raise OSError("there are no user namespaces")
        _write(f"/proc/{holder}/uid_map", f"0 {uid} 1")
        _write(f"/proc/{holder}/gid_map", f"0 {uid} 1")
        return os.open(f"/proc/{holder}/ns/user", os.O_RDONLY | os.O_CLOEXEC)
    finally:
        for end in (ready, done, done_write):
            os.close(end)
        os.waitpid(holder, 0)
