"""Programs in a sandbox: a scrubbed environment, their own session and limits, and whatever walls the kernel has.

`run` starts one through a small supervisor (`sandbox`), feeds it, bounds what it says and how long it takes,
and leaves no process behind, whatever the program tried. `probe` says which walls there are on this machine.
Leaves to others: what the output means.

A cancelled `run` asks the program to stop, kills it after the grace, and only then lets the cancel through.
"""

import asyncio
import contextlib
import os
import shutil
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import field, replace
from functools import cache
from pathlib import Path
from typing import Final, Literal

from app.core import json
from app.core.errors import HoldfastError
from app.core.value import value

CANCEL_GRACE: Final = 10.0  # seconds, as promised for a cancelled tool
TIMEOUT_GRACE: Final = 1.0  # a program that used up its time gets only as long as a clean exit takes
_REAP: Final = 5.0  # after a kill the supervisor has nothing left to wait for; longer means a stuck kernel
_SAME_MOMENT: Final = 0.1  # two timers set for one deadline go off this close together
_STDERR_BYTES: Final = 64 * 1024

_SUPERVISOR: Final = Path(__file__).with_name("sandbox") / "__main__.py"
# Programs need their loader, libraries, certificates and time zones, not the machine's secrets.
_SYSTEM: Final = (
    "/usr",
    "/bin",
    "/sbin",
    "/lib",
    "/lib32",
    "/lib64",
    "/libx32",
    "/opt",
    "/etc/ld.so.cache",
    "/etc/ld.so.conf",
    "/etc/ld.so.conf.d",
    "/etc/alternatives",
    "/etc/localtime",
    "/etc/ssl/certs",
    "/etc/pki/tls/certs",
    "/etc/mime.types",
    "/etc/nsswitch.conf",
)
# A program with limits on processes needs a user nobody else is; only root can give it one. The range is
# above what distributions and container runtimes hand out by habit.
_UID_BASE, _UID_COUNT = 2_000_000_000, 100_000_000
_FEW_UIDS: Final = 10_000  # from the end of what a container has, where it has not these


class ProcessError(HoldfastError):
    """The program could not be started."""


@value(frozen=True, slots=True)
class ProcessLimits:
    wall_seconds: float = 30.0
    cpu_seconds: int = 20
    memory_bytes: int = 512 * 1024 * 1024
    processes: int = 32
    output_bytes: int = 1024 * 1024
    file_bytes: int = 64 * 1024 * 1024
    open_files: int = 256
    disk_bytes: int = 128 * 1024 * 1024
    """Of all that it writes, counted in blocks: a small file takes one."""
    disk_files: int = 10_000


@value(frozen=True, slots=True)
class Program:
    argv: Sequence[str]
    cwd: Path
    """Where it runs, and the one folder it may write to. Root gives it away to the program's user."""
    stdin: bytes = b""
    env: Mapping[str, str] = field(default_factory=dict)
    """Added to PATH, HOME, LANG and TMPDIR; nothing else of the server's environment is passed."""
    read: Sequence[Path] = ()
    """Further files and folders it may read, beyond the system's and the interpreter's."""
    write: Sequence[Path] = ()
    """Further folders it may write to."""
    network: bool = False
    limits: ProcessLimits = ProcessLimits()
    hidden: Sequence[Path] = ()
    """Files and folders that it must not read, wherever they are; `read` and `write` beneath them still count."""
    scratch: bool = False
    """`cwd` is empty and nobody looks at it afterwards: it may be memory of a fixed size instead."""
    required: bool = False
    """Refuse to run where a wall is missing."""


@value(frozen=True, slots=True)
class Finished:
    status: int
    """Exit status; 128 + n when a signal n ended it."""
    stdout: bytes
    stderr: bytes
    timed_out: bool = False
    too_large: bool = False
    disk_full: bool = False
    """It was ended because it wrote more, or more files, than its limits say."""


@value(frozen=True, slots=True)
class SandboxStatus:
    """Which walls a program has on this machine."""

    uses: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()

    @property
    def level(self) -> Literal["full", "partial", "none"]:
        if not self.missing:
            return "full"
        return "none" if len(self.missing) == len(MISSING) else "partial"


MISSING: Final = {
    "files": "Programs can read what the server's user can: there is neither Landlock nor a mount namespace.",
    "network": "Programs without `network: true` can still use UDP, or TCP on kernels before 6.7.",
    "signals": "Programs can signal other processes of the server's user, though not the server.",
    "system calls": "System calls are not filtered.",
    "capabilities": "Programs of a root server may read past permission bits, within what they may read at all.",
}
"""What each wall that may be missing would have kept out."""


async def run(program: Program, *, grace: float = CANCEL_GRACE) -> Finished:
    """Raises ProcessError when the program could not be started."""
    path = _find(program)
    uid = await asyncio.to_thread(_hand_over, program)
    return await _supervised(program, _policy(program, path, uid), grace)


async def probe() -> SandboxStatus:
    """Puts up the walls once, around nothing. Raises ProcessError where there is no sandbox at all."""
    with tempfile.TemporaryDirectory(prefix="holdfast-probe-") as folder:
        program = Program([sys.executable], Path(folder), limits=ProcessLimits(wall_seconds=10), scratch=True)
        uid = _hand_over(program)
        finished = await _supervised(program, _policy(program, sys.executable, uid) | {"probe": True}, TIMEOUT_GRACE)
    found = json.loads(finished.stdout)
    return SandboxStatus(tuple(found["uses"]), tuple(found["missing"]))


async def _supervised(program: Program, policy: dict[str, object], grace: float) -> Finished:
    with contextlib.ExitStack() as closing:
        try:
            report, report_write = _pipe(closing)
            control_read, control = _pipe(closing)
            policy_file = _policy_file(policy, closing)
            process = await _spawn(policy_file, control_read, report_write)
        except OSError as error:
            message = f"the sandbox could not be started: {error.strerror}"
            raise ProcessError("PROCESS_FAILED", message) from error
        for end in (control_read, report_write, policy_file):
            os.close(end.take())
        finished = await _Running(process, control.take(), program.limits).to_the_end(program.stdin, grace)
        kind, _, text = _read(report.number).partition(b" ")
    message = text.decode(errors="replace")
    match kind:
        case b"failed":
            name = Path(program.argv[0]).name
            raise ProcessError("PROCESS_FAILED", f"{name} could not be started in the sandbox: {message}")
        case b"incomplete":
            raise ProcessError("SANDBOX_INCOMPLETE", message)
        case b"probed":
            return replace(finished, stdout=text)
    return replace(finished, disk_full=kind == b"full")


class _End:
    """A descriptor that is closed at the end unless somebody took it."""

    def __init__(self, number: int) -> None:
        self.number, self._taken = number, False

    def take(self) -> int:
        self._taken = True
        return self.number

    def close(self) -> None:
        if not self._taken:
            os.close(self.number)


def _pipe(closing: contextlib.ExitStack) -> tuple[_End, _End]:
    read, write = map(_End, os.pipe2(os.O_CLOEXEC))
    closing.callback(read.close)
    closing.callback(write.close)
    return read, write


def _policy_file(policy: dict[str, object], closing: contextlib.ExitStack) -> _End:
    """Not as an argument: anybody on the machine can read those, and the environment may hold secrets."""
    made = _End(os.memfd_create("holdfast-policy"))
    closing.callback(made.close)
    with os.fdopen(os.dup(made.number), "wb") as file:
        file.write(json.dumps(policy))
    os.lseek(made.number, 0, os.SEEK_SET)
    return made


def _read(report: int) -> bytes:
    os.set_blocking(report, False)  # whoever else still had it is stuck in the kernel
    with contextlib.suppress(BlockingIOError):
        return os.read(report, 4096)
    return b""


class _Running:
    def __init__(self, process: asyncio.subprocess.Process, control: int, limits: ProcessLimits) -> None:
        self._process = process
        self._control: int | None = control
        self._limits = limits
        self._too_large = False

    async def to_the_end(self, stdin: bytes, grace: float) -> Finished:
        work = asyncio.gather(
            self._feed(stdin),
            self._collect(self._process.stdout, self._limits.output_bytes, stop=True),
            self._collect(self._process.stderr, _STDERR_BYTES, stop=False),
            self._process.wait(),  # its status counts, so its end is waited for, not only the end of its output
        )
        timed_out = False
        loop = asyncio.get_running_loop()
        until = loop.time() + self._limits.wall_seconds
        try:
            try:
                await asyncio.wait_for(asyncio.shield(work), self._limits.wall_seconds)
            except TimeoutError:
                timed_out = True
                await self._stop(work, TIMEOUT_GRACE)
            except asyncio.CancelledError:
                # The program must be gone before the cancel goes on, or nobody would end it. A cancel at the end
                # of its time is its caller's timeout, which does not earn it the long grace.
                overdue = loop.time() >= until - _SAME_MOMENT
                await asyncio.shield(self._stop(work, TIMEOUT_GRACE if overdue else grace))
                raise
        finally:
            self._kill()
            with contextlib.suppress(TimeoutError):
                await asyncio.shield(asyncio.wait_for(self._process.wait(), _REAP))
        try:
            _, stdout, stderr, _ = await asyncio.wait_for(work, _REAP)
        except TimeoutError:
            raise ProcessError("PROCESS_FAILED", "the supervisor of a program does not exit") from None
        return Finished(self._process.returncode or 0, stdout, stderr, timed_out, self._too_large)

    async def _stop(self, work: "asyncio.Future[tuple[None, bytes, bytes, int]]", grace: float) -> None:
        if self._control is not None:
            with contextlib.suppress(BrokenPipeError):
                os.write(self._control, b"t")
        done, _ = await asyncio.wait([work], timeout=grace)
        if not done:
            self._kill()
            await asyncio.wait([work], timeout=_REAP)

    def _kill(self) -> None:
        """The supervisor takes the end of its pipe as the order to kill everything."""
        if self._control is not None:
            os.close(self._control)
            self._control = None

    async def _feed(self, stdin: bytes) -> None:
        stream = self._process.stdin
        assert stream is not None
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):  # it need not read its input
            if not stream.is_closing():  # uvloop's closed pipe raises RuntimeError when it is written to
                stream.write(stdin)
                await stream.drain()
        stream.close()

    async def _collect(self, stream: asyncio.StreamReader | None, limit: int, *, stop: bool) -> bytes:
        assert stream is not None
        kept = bytearray()
        while piece := await stream.read(65536):
            kept += piece[: max(0, limit + 1 - len(kept))]
            if stop and len(kept) > limit and not self._too_large:
                self._too_large = True
                self._kill()
        return bytes(kept[:limit])


async def _spawn(policy: _End, control: _End, report: _End) -> asyncio.subprocess.Process:
    passed = (policy.number, control.number, report.number)
    return await asyncio.create_subprocess_exec(
        sys.executable,
        "-I",
        "-S",
        str(_SUPERVISOR),
        *map(str, passed),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        pass_fds=passed,
        start_new_session=True,
        env={},
        cwd="/",
    )


def _policy(program: Program, path: str, uid: int | None) -> dict[str, object]:
    limits = program.limits
    home = str(program.cwd)
    inherited = {"PATH": os.environ.get("PATH", os.defpath), "HOME": home, "TMPDIR": home, "LANG": "C.UTF-8"}
    read = [*_SYSTEM, sys.prefix, sys.base_prefix, path, os.path.realpath(path), *map(str, program.read)]
    hidden = sorted({os.path.realpath(one) for one in program.hidden})
    if any(os.path.realpath(one) in hidden for one in program.read):
        raise ProcessError("SANDBOX_INCOMPLETE", "what the program may read and what is hidden from it are the same")
    return {
        "program": path,
        "argv": list(program.argv),
        "env": inherited | dict(program.env),
        "cwd": home,
        "uid": uid,
        "network": program.network,
        "required": program.required,
        "probe": False,
        "system": _SYSTEM,
        "read": read + (["/etc/resolv.conf", "/etc/hosts"] if program.network else []),
        "write": [home, *map(str, program.write)],
        "hidden": hidden,
        "scratch": program.scratch,
        "protected": [os.getpid(), os.getppid()],
        "cpu_seconds": limits.cpu_seconds,
        "memory_bytes": limits.memory_bytes,
        "processes": limits.processes,
        "file_bytes": limits.file_bytes,
        "open_files": limits.open_files,
        "disk_bytes": limits.disk_bytes,
        "disk_files": limits.disk_files,
    }


def _find(program: Program) -> str:
    name = program.argv[0]
    found = shutil.which(name) if "/" not in name else str(program.cwd / name)
    if found is None or not os.access(found, os.X_OK):
        raise ProcessError("PROCESS_FAILED", f"there is no program {Path(name).name!r}")
    return found


def _hand_over(program: Program) -> int | None:
    """The user of the program, who has been given the folders it may write to; None where we cannot give one."""
    uid = _own_user(shared=bool(program.write))
    if uid is not None:
        os.chown(program.cwd, uid, uid)
        for folder in program.write:
            _give(folder, uid)
    return uid


def _give(folder: Path, uid: int) -> None:
    """What was in it before belongs to the server. Programs with such folders share one user, so this is done once."""
    if not folder.is_dir() or folder.stat().st_uid == uid:
        return
    # By descriptors: another program may be swapping folders for links in a part of it that it was given before.
    for _, folders, files, parent in os.fwalk(folder):
        for name in (*folders, *files):
            os.chown(name, uid, uid, dir_fd=parent, follow_symlinks=False)
    os.chown(folder, uid, uid)  # last: it says that all of it is done


_next_user = 0


def _own_user(*, shared: bool) -> int | None:
    global _next_user
    if os.geteuid() != 0:
        return None
    base, count = _users()
    if count < 2:
        return None
    if shared:
        return base + count
    _next_user = (_next_user + 1) % 10_000
    return base + (os.getpid() * 10_000 + _next_user) % count


@cache
def _users() -> tuple[int, int]:
    """The first user to give to programs and how many; the one after them is for programs that share folders."""
    with open("/proc/self/uid_map", encoding="ascii") as file:
        ranges = [tuple(map(int, line.split())) for line in file]
    if any(start <= _UID_BASE and start + count > _UID_BASE + _UID_COUNT for start, _, count in ranges):
        return _UID_BASE, _UID_COUNT
    start, _, count = max(ranges, key=lambda mapped: mapped[2])
    few = min(_FEW_UIDS, count // 4)
    return start + count - few - 2, few
