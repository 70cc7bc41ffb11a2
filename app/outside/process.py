"""Programs in a sandbox: a scrubbed environment, their own session, limits, Landlock where the kernel has it.

`run` starts one through a small supervisor (`sandbox`), feeds it, bounds what it says and how long it takes,
and leaves no process behind, whatever the program tried. Leaves to others: what the output means.

A cancelled `run` asks the program to stop, kills it after the grace, and only then lets the cancel through.
"""

import asyncio
import contextlib
import os
import shutil
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from app.core import json
from app.core.errors import HoldfastError

CANCEL_GRACE: Final = 10.0  # seconds, as promised for a cancelled tool
TIMEOUT_GRACE: Final = 1.0  # a program that used up its time gets only as long as a clean exit takes
_REAP: Final = 5.0  # after a kill the supervisor has nothing left to wait for; longer means a stuck kernel
_SAME_MOMENT: Final = 0.1  # two timers set for one deadline go off this close together
_STDERR_BYTES: Final = 64 * 1024

_SANDBOX: Final = Path(__file__).with_name("sandbox.py")
# Programs need their loader, libraries, certificates and time zones, not the machine's secrets.
_SYSTEM: Final = (
    "/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/opt",
    "/etc/ld.so.cache", "/etc/ld.so.conf", "/etc/ld.so.conf.d", "/etc/alternatives", "/etc/localtime",
    "/etc/ssl/certs", "/etc/pki/tls/certs", "/etc/mime.types", "/etc/nsswitch.conf",
)  # fmt: skip
# A program with limits on processes needs a user nobody else is; only root can give it one. The range is
# above what distributions and container runtimes hand out by habit.
_UID_BASE, _UID_COUNT = 2_000_000_000, 100_000_000


class ProcessError(HoldfastError):
    """The program could not be started."""


@dataclass(frozen=True, slots=True)
class Limits:
    wall_seconds: float = 30.0
    cpu_seconds: int = 20
    memory_bytes: int = 512 * 1024 * 1024
    processes: int = 32
    output_bytes: int = 1024 * 1024
    file_bytes: int = 64 * 1024 * 1024
    open_files: int = 256


@dataclass(frozen=True, slots=True)
class Program:
    argv: Sequence[str]
    cwd: Path
    """Where it runs, and the one folder it may write to."""
    stdin: bytes = b""
    env: Mapping[str, str] = field(default_factory=dict)
    """Added to PATH, HOME, LANG and TMPDIR; nothing else of the server's environment is passed."""
    read: Sequence[Path] = ()
    """Further files and folders it may read, beyond the system's and the interpreter's."""
    write: Sequence[Path] = ()
    """Further folders it may write to."""
    network: bool = False
    limits: Limits = Limits()
    require_landlock: bool = False


@dataclass(frozen=True, slots=True)
class Finished:
    status: int
    """Exit status; 128 + n when a signal n ended it."""
    stdout: bytes
    stderr: bytes
    timed_out: bool = False
    too_large: bool = False


async def run(program: Program, *, grace: float = CANCEL_GRACE) -> Finished:
    path = _find(program)
    uid = _own_user()
    if uid is not None:
        os.chown(program.cwd, uid, uid)
    control_read, control = os.pipe2(os.O_CLOEXEC)
    report, report_write = os.pipe2(os.O_CLOEXEC)
    try:
        process = await _spawn(program, path, uid, control_read, report_write)
    except OSError as error:
        os.close(control)
        os.close(report)
        raise ProcessError("PROCESS_FAILED", f"the sandbox could not be started: {error.strerror}") from error
    finally:
        os.close(control_read)
        os.close(report_write)
    running = _Running(process, control, program.limits)
    try:
        finished = await running.to_the_end(program.stdin, grace)
        why = os.read(report, 500).decode(errors="replace")
    finally:
        os.close(report)
    if why:
        raise ProcessError("PROCESS_FAILED", f"{Path(path).name} could not be started in the sandbox: {why}")
    return finished


class _Running:
    def __init__(self, process: asyncio.subprocess.Process, control: int, limits: Limits) -> None:
        self._process = process
        self._control: int | None = control
        self._limits = limits
        self._too_large = False

    async def to_the_end(self, stdin: bytes, grace: float) -> Finished:
        work = asyncio.gather(
            self._feed(stdin),
            self._collect(self._process.stdout, self._limits.output_bytes, stop=True),
            self._collect(self._process.stderr, _STDERR_BYTES, stop=False),
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
        _, stdout, stderr = await work
        return Finished(self._process.returncode or 0, stdout, stderr, timed_out, self._too_large)

    async def _stop(self, work: "asyncio.Future[tuple[None, bytes, bytes]]", grace: float) -> None:
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


async def _spawn(
    program: Program, path: str, uid: int | None, control_read: int, report_write: int
) -> asyncio.subprocess.Process:
    policy = json.dumps(_policy(program, path, uid)).decode()
    return await asyncio.create_subprocess_exec(
        sys.executable, "-I", "-S", "-B", str(_SANDBOX), policy, str(control_read), str(report_write),
        stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
        pass_fds=(control_read, report_write), start_new_session=True, env={}, cwd="/",
    )  # fmt: skip


def _policy(program: Program, path: str, uid: int | None) -> dict[str, object]:
    limits = program.limits
    home = str(program.cwd)
    inherited = {"PATH": os.environ.get("PATH", os.defpath), "HOME": home, "TMPDIR": home, "LANG": "C.UTF-8"}
    read = [*_SYSTEM, sys.prefix, sys.base_prefix, path, os.path.realpath(path), *map(str, program.read)]
    return {
        "program": path,
        "argv": list(program.argv),
        "env": inherited | dict(program.env),
        "cwd": home,
        "uid": uid,
        "network": program.network,
        "require_landlock": program.require_landlock,
        "read": read + (["/etc/resolv.conf", "/etc/hosts"] if program.network else []),
        "write": [home, *map(str, program.write)],
        "may_write": bool(program.write),
        "cpu_seconds": limits.cpu_seconds,
        "memory_bytes": limits.memory_bytes,
        "processes": limits.processes,
        "file_bytes": limits.file_bytes,
        "open_files": limits.open_files,
    }


def _find(program: Program) -> str:
    name = program.argv[0]
    found = shutil.which(name) if "/" not in name else str(program.cwd / name)
    if found is None or not os.access(found, os.X_OK):
        raise ProcessError("PROCESS_FAILED", f"there is no program {Path(name).name!r}")
    return found


_next_user = 0


def _own_user() -> int | None:
    global _next_user
    if os.geteuid() != 0:
        return None
    _next_user = (_next_user + 1) % 10_000
    return _UID_BASE + (os.getpid() * 10_000 + _next_user) % _UID_COUNT
