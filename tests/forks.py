"""Programs of this source tree as processes of their own, forked from one that has imported them already.

`python -m app.main serve` spends nearly all of its start on imports, and the tests start hundreds of servers. What is
forked runs the same module with the same arguments, and lives, fails and dies as a process does. Where Python itself is
to be started differently (a variable such as PYTHONHASHSEED, or a PYTHONPATH with something in front of this tree), it
is started and not forked.

Leaves to others: the process that forks (`tests.fork_server`).
"""

import atexit
import contextlib
import json
import os
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Final

ROOT: Final = Path(__file__).parents[1]
PRELOADED: Final = (
    "anyio._backends._asyncio",
    "app.cli.application",
    "app.cli.client",
    "app.cli.serve",
    "app.store.postgres",
    "app.store.sqlite_lone",
    "google.protobuf.text_format",
    "httpcore2",
    "pydantic.v1",
    "uvicorn.lifespan.off",
    "uvloop",
)
"""What a server imports until it listens, and a command that asks one. What a plain server must not import is shown
elsewhere (`tests/cli/test_serve_imports.py`)."""
_READ_AT_START: Final = ("PYTHON", "LD_", "LC_", "LANG", "MALLOC_", "TZ")
"""Variables that a process reads once, before its program runs."""
_AS_ASKED: Final = ("PYTHONUNBUFFERED", "PYTHONDONTWRITEBYTECODE", "PYTHONPATH")
"""Those that a forked process does as asked, or the process that forks has done already."""
_END_SECONDS: Final = 60.0
_MAX_ANSWER: Final = 64


class Fork:
    """Like `subprocess.Popen`, for what the tests ask of one."""

    def __init__(self, told: socket.socket) -> None:
        self._told = told
        self._listening = threading.Lock()
        self.returncode: int | None = None
        self.pid = self._number()
        try:
            self._handle = os.pidfd_open(self.pid)
        except ProcessLookupError:  # it has ended already
            self._handle = -1

    def _number(self) -> int:
        said = self._told.recv(_MAX_ANSWER)
        assert said, "the process that forks has ended"
        return int(said)

    def poll(self) -> int | None:
        with contextlib.suppress(subprocess.TimeoutExpired):
            return self.wait(0)
        return None

    def wait(self, timeout: float | None = None) -> int:
        with self._listening:
            if self.returncode is None:
                polled = select.poll()
                polled.register(self._told, select.POLLIN)
                if not polled.poll(None if timeout is None else timeout * 1000):
                    raise subprocess.TimeoutExpired(f"process {self.pid}", timeout or 0)
                self.returncode = self._number()
                self._told.close()
                if self._handle >= 0:
                    os.close(self._handle)
            return self.returncode

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._handle, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)


class _ForkServer:
    def __init__(self) -> None:
        self._folder = tempfile.mkdtemp(prefix="forks-")
        self.address = f"{self._folder}/socket"
        with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as listener:
            listener.bind(self.address)
            listener.listen()
            command = [sys.executable, "-m", "tests.fork_server", str(listener.fileno()), *PRELOADED]
            self._process = subprocess.Popen(
                command, cwd=ROOT, env=_plain(os.environ), pass_fds=[listener.fileno()], stdin=subprocess.PIPE
            )
        atexit.register(self.end)

    def fork(
        self, module: str, arguments: Sequence[str], folder: Path, environment: Mapping[str, str], streams: list[int]
    ) -> Fork:
        request = {
            "module": module, "arguments": list(arguments), "folder": str(folder), "environment": dict(environment),
        }  # fmt: skip
        asking = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        try:
            asking.connect(self.address)
            socket.send_fds(asking, [json.dumps(request).encode()], streams)
            return Fork(asking)
        except BaseException:
            asking.close()
            raise

    def end(self) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(_END_SECONDS)
        shutil.rmtree(self._folder)


_lock = threading.Lock()
_server: _ForkServer | None = None


def _started() -> _ForkServer:
    """One for each process that tests run in, from its first fork on."""
    global _server
    with _lock:
        if _server is None:
            _server = _ForkServer()
        return _server


def fork(
    module: str,
    arguments: Sequence[str],
    *,
    folder: Path = ROOT,
    environment: Mapping[str, str],
    stdin: int | IO[bytes] | None = None,
    stdout: int | IO[bytes],
    stderr: int | IO[bytes],
) -> Fork:
    """`python -m module arguments`; the streams are files that are open here."""
    assert can_fork(environment)
    with open(os.devnull, "rb") as nothing:
        given = (nothing if stdin is None else stdin, stdout, stderr)
        streams = [stream if isinstance(stream, int) else stream.fileno() for stream in given]
        return _started().fork(module, arguments, folder, environment, streams)


def can_fork(environment: Mapping[str, str]) -> bool:
    """Whether a process with these variables is one that can be forked."""
    if environment.get("PYTHONPATH", str(ROOT)).split(os.pathsep)[0] != str(ROOT):
        return False
    read_at_start = [name for name in environment if name.startswith(_READ_AT_START) and name not in _AS_ASKED]
    return all(os.environ.get(name) == environment[name] for name in read_at_start)


def run_holdfast(
    *arguments: str, environment: Mapping[str, str], folder: Path = ROOT, seconds: float = 60.0
) -> "subprocess.CompletedProcess[str]":
    """`holdfast arguments` to its end, and what it printed."""
    with tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as errors:
        process = fork("app.main", arguments, folder=folder, environment=environment, stdout=output, stderr=errors)
        try:
            code = process.wait(seconds)
        finally:
            process.kill()
        printed = [_text(stream) for stream in (output, errors)]
    return subprocess.CompletedProcess(["holdfast", *arguments], code, *printed)


def _text(stream: IO[bytes]) -> str:
    stream.seek(0)
    return stream.read().decode()


_COMMAND: Final = """\
#!{python} -IS
import json, os, signal, socket, sys
asking = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
asking.connect({address!r})
request = dict(module="app.main", arguments=sys.argv[1:], folder=os.getcwd(), environment=dict(os.environ))
socket.send_fds(asking, [json.dumps(request).encode()], [0, 1, 2])
pid = int(asking.recv(64))
for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
    signal.signal(number, lambda number, _: os.kill(pid, number))
code = int(asking.recv(64))
if code >= 0:
    sys.exit(code)
signal.signal(-code, signal.SIG_DFL) if -code != signal.SIGKILL else None
os.kill(os.getpid(), -code)
"""


def holdfast_command(folder: Path) -> Path:
    """A folder for PATH in which `holdfast` is a command, for shells: it forks, and is to its caller what it forked."""
    tools = folder / "bin"
    tools.mkdir(exist_ok=True)
    command = tools / "holdfast"
    command.write_text(_COMMAND.format(python=sys.executable, address=_started().address))
    command.chmod(0o755)
    return tools


def _plain(environment: Mapping[str, str]) -> dict[str, str]:
    kept = {name: value for name, value in environment.items() if not name.startswith("HOLDFAST_")}
    for name in ("PYTHONUNBUFFERED", "PYTHONDONTWRITEBYTECODE"):
        kept.pop(name, None)
    return kept | {"PYTHONPATH": str(ROOT)}
