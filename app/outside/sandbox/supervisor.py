"""The supervisor of one sandboxed program: starts it, watches what it writes, and leaves nothing of it behind.

It becomes the reaper of everything its program leaves behind; where there are pid namespaces, the kernel ends
them all with the first. When the program ends, or the control pipe does (the server closed it, or died), all that is
left is killed. A program may double-fork and change its session: it stays a descendant of ours.

Arguments: the descriptors of the policy (one JSON document, see `process._policy`), of the control pipe's read end and
of a report. The exit status is the program's; 125 says that the sandbox could not be built, the report why.
"""

import contextlib
import json
import mmap
import os
import select
import signal
import stat
import sys
import time
from typing import Any, Final

from app.outside.sandbox import kernel, namespaces
from app.outside.sandbox.confinement import Confinement, Incomplete

CANNOT: Final = 125
_LOOK_SECONDS: Final = 0.05
"""How often the written files are counted. What a program can write meanwhile is the most it can have too much."""
_LOOK_SHARE: Final = 10  # counting takes at most about a tenth of the time
_LOOK_ENTRIES: Final = 200_000


def main() -> None:
    policy_file, control, report = map(int, sys.argv[1:4])
    with os.fdopen(policy_file, "rb") as file:
        policy = json.load(file)
    users = -1
    if policy["uid"] is not None:
        with contextlib.suppress(OSError):
            users = namespaces.users_for(policy["uid"])
    kernel.control(kernel.PR_SET_CHILD_SUBREAPER, 1)
    spaces = namespaces.enter(policy["network"])
    wake_read, wake_write = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    signal.set_wakeup_fd(wake_write)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # meant for the program; we outlive it to clean up
    bounded = mmap.mmap(-1, 1)
    confinement = Confinement(policy, spaces, users, bounded)
    child = os.fork()
    if child == 0:
        os.close(control)
        if spaces.processes:
            first(confinement, report)
        become(confinement, report)
    for stream in (0, 1, 2):
        os.close(stream)  # the pipes must end with the program, not with us
    status = Watch(policy, child, report, bounded, alone=spaces.processes).to_the_end(control, wake_read)
    if not spaces.processes:
        sweep(child)
    leave(status)


def leave(status: int) -> None:
    os._exit(128 + os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status))


def first(confinement: Confinement, report: int) -> None:
    """The first process of a pid namespace: reaps, passes the request to stop on, and ends with the program."""
    kernel.control(kernel.PR_SET_PDEATHSIG, signal.SIGKILL)
    program = os.fork()
    if program == 0:
        become(confinement, report)
    signal.set_wakeup_fd(-1)

    def stop(_number: int, _frame: object) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(program, signal.SIGTERM)

    signal.signal(signal.SIGTERM, stop)
    os.close(report)
    for stream in (0, 1, 2):
        os.close(stream)
    while True:
        ended, status = os.wait()
        if ended == program:
            leave(status)


def become(confinement: Confinement, report: int) -> None:
    """In the forked child: everything up to the program. Any failure ends it here."""
    os.set_inheritable(report, False)  # closed by a successful exec: silence means it began
    try:
        os.write(report, b"probed " + confinement.begin())
        os._exit(0)
    except Incomplete as error:
        os.write(report, f"incomplete {error}".encode()[:500])
    except BaseException as error:
        os.write(report, f"failed {type(error).__name__}: {error}".encode()[:500])
    os._exit(CANNOT)


class Watch:
    """Waits for the end of the program, passes on what the server wants, and counts what is written."""

    def __init__(self, policy: dict[str, Any], child: int, report: int, bounded: mmap.mmap, *, alone: bool) -> None:
        self._child, self._report, self._bounded, self._alone = child, report, bounded, alone
        self._folders: list[str] = policy["write"]
        self._most: tuple[int, int] = policy["disk_bytes"], policy["disk_files"]
        self._at_first: tuple[int, int] | None = None
        self._next = 0.0

    def to_the_end(self, control: int, wake: int) -> int:
        while True:
            done, status = os.waitpid(self._child, os.WNOHANG)
            if done:
                return status
            # Where all it may write to has a fixed size, there is nothing to count.
            patience = None if self._bounded[0] else max(0.0, self._next - time.monotonic())
            ready, _, _ = select.select([control, wake], [], [], patience)
            if control in ready:
                asked = os.read(control, 1)
                self._signal(signal.SIGTERM if asked else signal.SIGKILL)
                if not asked:
                    return os.waitpid(self._child, 0)[1]
            if wake in ready:
                with contextlib.suppress(BlockingIOError):
                    while os.read(wake, 512):
                        pass
            if patience is not None and time.monotonic() >= self._next and self._wrote_too_much():
                os.write(self._report, b"full ")
                self._signal(signal.SIGKILL)
                return os.waitpid(self._child, 0)[1]

    def _signal(self, number: signal.Signals) -> None:
        with contextlib.suppress(ProcessLookupError):
            if self._alone:
                os.kill(self._child, number)  # the first process of the namespace: its end is the end of all
            else:
                os.killpg(self._child, number)

    def _wrote_too_much(self) -> bool:
        began = time.monotonic()
        size, count = written(self._folders)
        if self._at_first is None:
            self._at_first = size, count
        now = time.monotonic()
        self._next = now + max(_LOOK_SECONDS, (now - began) * _LOOK_SHARE)
        return size - self._at_first[0] > self._most[0] or count - self._at_first[1] > self._most[1]


def written(folders: list[str]) -> tuple[int, int]:
    """Bytes on disk and number of files beneath the folders, and of deleted files that are still open."""
    size = count = 0
    todo = list(folders)
    while todo and count < _LOOK_ENTRIES:
        with contextlib.suppress(OSError), os.scandir(todo.pop()) as entries:
            for entry in entries:
                with contextlib.suppress(OSError):
                    found = entry.stat(follow_symlinks=False)
                    size, count = size + found.st_blocks * 512, count + 1
                    if stat.S_ISDIR(found.st_mode):
                        todo.append(entry.path)
    seen = set()
    for pid in children(os.getpid()):
        with contextlib.suppress(OSError):
            for name in os.listdir(f"/proc/{pid}/fd"):
                with contextlib.suppress(OSError):
                    found = os.stat(f"/proc/{pid}/fd/{name}")
                    if found.st_nlink == 0 and stat.S_ISREG(found.st_mode) and found.st_ino not in seen:
                        seen.add(found.st_ino)
                        size, count = size + found.st_blocks * 512, count + 1
    return size, count


def sweep(child: int) -> None:
    """Kill what is left: its group, then whoever was handed to us as their reaper, until there is nobody."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(child, signal.SIGKILL)
    while True:
        for pid in descendants():
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        try:
            pid, _ = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return
        if pid == 0:
            select.select([], [], [], 0.005)


def children(pid: int) -> list[int]:
    """Those of a process and theirs, as far as the kernel lists them: quick, and enough to count by."""
    found: list[int] = []
    with contextlib.suppress(OSError):
        for task in os.listdir(f"/proc/{pid}/task"):
            with contextlib.suppress(OSError), open(f"/proc/{pid}/task/{task}/children") as file:
                for child in map(int, file.read().split()):
                    found += [child, *children(child)]
    return found


def descendants() -> list[int]:
    """Everybody below us, whatever they did to be elsewhere."""
    parents: dict[int, list[int]] = {}
    for name in os.listdir("/proc"):
        if name.isdigit():
            with (
                contextlib.suppress(OSError, ValueError, IndexError),
                open(f"/proc/{name}/stat", "rb") as file,
            ):
                parent = int(file.read().rpartition(b")")[2].split()[1])
                parents.setdefault(parent, []).append(int(name))
    found, todo = [], [os.getpid()]
    while todo:
        below = parents.get(todo.pop(), [])
        found += below
        todo += below
    return found
