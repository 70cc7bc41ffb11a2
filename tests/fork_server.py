"""The process that `tests.forks` forks programs from: it has imported what a server imports and served one run.

Whoever wants a program connects, sends what it is and its streams, and is told its process id and, when it has ended,
its exit code. A program whose starter is gone is killed. This process has no thread left, so that a fork of it is as
good as a fresh process. Leaves to others: asking it (`tests.forks`).
"""

import asyncio
import atexit
import contextlib
import gc
import importlib
import json
import os
import runpy
import selectors
import signal
import socket
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any, Final

from tests.patience import PATIENT, be_patient
from tests.shaking import shake

MAX_REQUEST: Final = 200_000
STREAMS: Final = (0, 1, 2)
_FLUSH_FAILED: Final = 120
"""Python's own exit code for output that nobody could be given."""
_END_SECONDS: Final = 60.0

Request = dict[str, Any]


class Forking:
    """The programs under way: `child` is where each of them leaves this loop."""

    def __init__(self, listener: socket.socket) -> None:
        self._listener = listener
        self._selector = selectors.DefaultSelector()
        self._selector.register(listener, selectors.EVENT_READ)
        self._selector.register(STREAMS[0], selectors.EVENT_READ)  # its end is ours
        self._running: dict[int, tuple[int, socket.socket]] = {}
        self._starters: dict[socket.socket, int] = {}

    def child(self) -> Request | None:
        """Returns in each forked child with what it is to run, and with nothing when the test session is over."""
        while True:
            for key, _ in self._selector.select():
                if key.fileobj is self._listener:
                    request = self._accept()
                    if request is not None:
                        return request
                elif key.fd == STREAMS[0]:
                    return None
                elif key.fd in self._running:
                    self._ended(key.fd)
                elif key.fileobj in self._starters:
                    self._left(key.fileobj)

    def _accept(self) -> Request | None:
        starter, _ = self._listener.accept()
        message, streams, _, _ = socket.recv_fds(starter, MAX_REQUEST, len(STREAMS))
        if not message:
            starter.close()
            return None
        pid = os.fork()
        if pid == 0:
            self._let_go(starter)
            _take(streams)
            request: Request = json.loads(message)
            return request
        for stream in streams:
            os.close(stream)
        watched = os.pidfd_open(pid)
        self._running[watched] = pid, starter
        self._starters[starter] = watched
        self._selector.register(watched, selectors.EVENT_READ)
        self._selector.register(starter, selectors.EVENT_READ)
        _tell(starter, pid)
        return None

    def _let_go(self, starter: socket.socket) -> None:
        self._selector.close()
        self._listener.close()
        for opened in (starter, *self._starters):
            opened.close()
        for watched in self._running:
            os.close(watched)

    def _left(self, starter: socket.socket) -> None:
        """Nobody says anything after the request, so the starter is gone; `_ended` follows."""
        self._selector.unregister(starter)
        signal.pidfd_send_signal(self._starters[starter], signal.SIGKILL)

    def _ended(self, watched: int) -> None:
        pid, starter = self._running.pop(watched)
        del self._starters[starter]
        self._selector.unregister(watched)
        with contextlib.suppress(KeyError):
            self._selector.unregister(starter)
        os.close(watched)
        _tell(starter, os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
        starter.close()


def _take(streams: list[int]) -> None:
    for number, stream in zip(STREAMS, streams, strict=True):
        os.dup2(stream, number)
    for stream in streams:
        os.close(stream)


def _tell(starter: socket.socket, number: int) -> None:
    with contextlib.suppress(BrokenPipeError):
        starter.send(b"%d" % number)


def become(request: Request) -> None:
    """The place and the variables that a process started by `exec` would have begun with."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.environ.clear()
    os.environ.update(request["environment"])
    if os.environ.pop(PATIENT, None):
        be_patient()
        shake()
    _find_packages(os.environ.get("PYTHONPATH", "").split(os.pathsep)[1:])
    os.chdir(request["folder"])
    sys.argv[1:] = request["arguments"]
    at_once = bool(os.environ.get("PYTHONUNBUFFERED"))
    sys.stdout.reconfigure(line_buffering=sys.stdout.isatty(), write_through=at_once)  # type: ignore[union-attr]


def _find_packages(folders: list[str]) -> None:
    """As PYTHONPATH names them behind this tree, which all of us have."""
    from app.wiring import kinds

    if folders:
        at = sys.path.index(os.environ["PYTHONPATH"].split(os.pathsep)[0]) + 1
        sys.path[at:at] = folders
        importlib.invalidate_caches()
        for listed in vars(kinds).values():  # the process that we are a fork of has asked for what was installed there
            if hasattr(listed, "cache_clear"):
                listed.cache_clear()


def run(module: str) -> int:
    """The exit code that the program ends with; whatever else it raises ends this process as it would any."""
    try:
        runpy.run_module(module, run_name="__main__", alter_sys=True)
    except SystemExit as ended:
        if ended.code is None or isinstance(ended.code, int):
            return ended.code or 0
        print(ended.code, file=sys.stderr)
        return 1
    return 0


def end(code: int) -> None:
    """What Python does at the end of a program, except for taking apart all of its modules: that takes as long as
    starting a server, and whoever is forked owns nothing that the end of its process would not free."""
    threading._shutdown()  # type: ignore[attr-defined]  # waits for threads, as the interpreter does
    atexit._run_exitfuncs()
    try:
        sys.stdout.flush()
        sys.stderr.flush()
    except OSError:
        code = _FLUSH_FAILED
    os._exit(code & 0xFF)


def look_around() -> None:
    """What every server asks its machine and its installation at the start: the same for all, so asked once. Servers
    that ask for themselves are those that are started and not forked (`tests/faults/test_start.py` and others)."""
    from app.core.schemas import SchemaRegistry
    from app.outside.sandbox_report import sandbox_status
    from app.policy.redaction import LogRedaction
    from app.protocols.wire.uvicorn_connection import is_tested
    from app.wiring.kinds import installed_points
    from tests.certificates import read_once

    asyncio.run(sandbox_status())
    installed_points()
    is_tested()
    LogRedaction()
    read_once()
    schemas = SchemaRegistry()
    for name in schemas.ids():
        schemas.validator(name)
    with open(os.devnull, "w") as unseen, contextlib.redirect_stdout(unseen):
        asyncio.run(_serve_once())
    _await_threads()


async def _serve_once() -> None:
    """What a server builds when it starts and at its first run (validators, schemas, patterns) depends on its program
    only: one that has answered leaves it to all that are forked."""
    import httpx2

    from app.core.settings import Settings
    from tests.clients import submit
    from tests.server import in_process

    with tempfile.TemporaryDirectory() as folder:
        async with in_process(Settings(data_dir=Path(folder))) as server:
            async with httpx2.AsyncClient(base_url=server.url, timeout=60, verify=False) as client:
                run = await submit(client, "echo", "hello", wait=60)
                for path in (f"/api/runs/{run['id']}", f"/api/threads/{run['threadId']}/export"):
                    assert (await client.get(path)).status_code == 200


def _await_threads() -> None:
    """Those of the server that was closed are told to end and are not waited for; a fork would lose them."""
    deadline = time.monotonic() + _END_SECONDS
    while others := [name for name in os.listdir("/proc/self/task") if int(name) != os.getpid()]:
        assert time.monotonic() < deadline, f"a fork would lose {[_name(thread) for thread in others]}"
        time.sleep(0.005)  # there is no event for the end of a thread that nobody joins


def _name(thread: str) -> str:
    with contextlib.suppress(OSError):
        return Path(f"/proc/self/task/{thread}/comm").read_text().strip()
    return "one that has ended"


def main() -> None:
    listener = socket.socket(fileno=int(sys.argv[1]))
    for module in sys.argv[2:]:
        importlib.import_module(module)
    look_around()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # whoever interrupts the tests interrupts the programs, then them
    gc.collect()
    gc.freeze()
    request = Forking(listener).child()
    if request is not None:
        become(request)
        code = run(request["module"])
        end(code)


if __name__ == "__main__":
    main()
