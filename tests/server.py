"""The real server for tests: as a process of its own, and inside the test's loop where a test needs its parts.

Leaves to others: databases (`tests.conftest` and `tests.postgres`).
"""

import asyncio
import contextlib
import os
import signal
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import IO, Final, Self

from fastapi import FastAPI

from app.backends.contract import Backend
from app.core.clock import Clock
from app.core.settings import Settings
from app.wiring.runtime import Holdfast, open_holdfast
from app.wiring.web import build_web, server_context
from tests.forks import Fork, can_fork, fork
from tests.patience import PATIENT

START_SECONDS: Final = 120.0
STOP_SECONDS: Final = 60.0
DRAIN_SECONDS: Final = 5.0
"""Some tests stop servers whose runs never end."""
ROOT: Final = Path(__file__).parents[1]


Process = Fork | subprocess.Popen[bytes]


def secret_file(folder: Path) -> Path:
    """The secret that servers on Postgres share; the same in every folder."""
    path = folder / "shared-secret"
    folder.mkdir(parents=True, exist_ok=True)
    path.write_text("a secret of the tests, the same for every server\n")
    return path


def clean_environment() -> dict[str, str]:
    """Without settings of the person who runs the tests, and with this source tree in front of an installed one."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("HOLDFAST_")}
    return kept | {"PYTHONPATH": str(ROOT), "HOLDFAST_DRAIN_SECONDS": str(DRAIN_SECONDS), PATIENT: "1"}


def _start(arguments: list[str], environment: dict[str, str], errors: IO[bytes]) -> tuple[Process, IO[bytes]]:
    """The process, and what it prints."""
    if can_fork(environment):
        ours, theirs = os.pipe()
        try:
            process = fork("app.main", arguments, environment=environment, stdout=theirs, stderr=errors)
        finally:
            os.close(theirs)
        return process, os.fdopen(ours, "rb")
    command = [sys.executable, "-m", "app.main", *arguments]
    started = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=errors, env=environment, cwd=ROOT)
    assert started.stdout is not None
    return started, started.stdout


class ServerProcess:
    """`holdfast serve` as its users run it."""

    def __init__(self, process: Process, output: IO[bytes], data_dir: Path, errors: Path) -> None:
        self._process = process
        self._output = output
        self._errors = errors
        self._listening = threading.Event()
        self._again: Callable[[], Self] | None = None
        self.data_dir = data_dir
        self.url = ""
        # Read to the end, or a server that prints much would wait for us.
        self._reading = threading.Thread(target=self._read, daemon=True)
        self._reading.start()

    @classmethod
    def start(
        cls,
        data_dir: Path,
        database_url: str | None = None,
        workspace: Path | None = None,
        variables: Mapping[str, str] | None = None,
        port: int = 0,
    ) -> Self:
        """Returns when the server said where it listens. Without a workspace it serves the demo."""
        data_dir.mkdir(parents=True, exist_ok=True)
        errors = data_dir / "stderr.log"
        arguments = ["serve", "--port", str(port), "--data-dir", str(data_dir)]
        arguments += ["--database-url", database_url] if database_url else []
        environment = clean_environment() | ({"HOLDFAST_WORKSPACE": str(workspace)} if workspace else {})
        environment |= {"HOLDFAST_SECRET_FILE": str(secret_file(data_dir))} if database_url else {}
        environment |= variables or {}
        with errors.open("ab") as sink:
            process, output = _start(arguments, environment, sink)
        server = cls(process, output, data_dir, errors)
        if not server._listening.wait(START_SECONDS) or not server.url:
            server.kill()
            raise AssertionError(f"the server did not start:\n{server.errors()}")
        server._again = partial(cls.start, data_dir, database_url, workspace, variables, port)
        return server

    def again(self) -> Self:
        """Another server like this one, which has ended."""
        assert self._again is not None and not self.is_running
        return self._again()

    @classmethod
    @contextlib.asynccontextmanager
    async def running(cls, data_dir: Path, database_url: str | None = None) -> AsyncIterator[Self]:
        """A server for the length of a block; stopped cleanly unless the test killed it."""
        server = await asyncio.to_thread(cls.start, data_dir, database_url)
        try:
            yield server
        finally:
            if server.is_running:
                await asyncio.to_thread(server.stop)

    def _read(self) -> None:
        with self._output as lines:
            for raw in lines:
                line = raw.decode()
                if line.startswith("listening on "):
                    self.url = line.removeprefix("listening on ").strip()
                    self._listening.set()
        self._listening.set()

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def stream_url(self) -> str:
        return self.url.replace("http", "ws", 1) + "/api/stream"

    @property
    def is_running(self) -> bool:
        return self._process.poll() is None

    def errors(self) -> str:
        return self._errors.read_text(encoding="utf-8", errors="replace")

    def stop(self) -> None:
        """SIGTERM; anything but a clean end is a failure."""
        self._process.send_signal(signal.SIGTERM)
        self.wait()

    def wait(self) -> None:
        """For its clean end, whoever asked for it."""
        try:
            code = self._process.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self.kill()
            raise AssertionError(f"the server did not stop within {STOP_SECONDS} s:\n{self.errors()}") from None
        self._reading.join(STOP_SECONDS)
        assert code == 0, f"the server ended with {code}:\n{self.errors()}"

    def kill(self) -> None:
        """As a crash: no chance to write anything."""
        self._process.kill()
        self._process.wait(STOP_SECONDS)
        self._reading.join(STOP_SECONDS)


@dataclass(frozen=True, slots=True)
class InProcessServer:
    """The same application and web server in the test's own loop: its store can be reached, its backends chosen."""

    url: str
    holdfast: Holdfast
    app: FastAPI

    @property
    def stream_url(self) -> str:
        return self.url.replace("http", "ws", 1) + "/api/stream"


@contextlib.asynccontextmanager
async def in_process(
    settings: Settings,
    backends: Mapping[str, Backend] | None = None,
    *,
    direct: bool | None = None,
    clock: Clock | None = None,
) -> AsyncIterator[InProcessServer]:
    settings = settings.model_copy(update={"port": 0})
    if settings.is_postgres and settings.secret_file is None:
        settings = settings.model_copy(update={"secret_file": secret_file(settings.data_dir)})
    async with open_holdfast(settings, backends=backends, clock=clock) as holdfast:
        listening: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        web = build_web(settings, server_context(settings, holdfast), listening.set_result, direct=direct)
        serving = asyncio.create_task(web.serve())
        try:
            port = await asyncio.wait_for(listening, START_SECONDS)
            yield InProcessServer(f"http://{settings.host}:{port}", holdfast, web.config.app.app.app)  # type: ignore[union-attr]
        finally:
            await holdfast.executor.drain(STOP_SECONDS)
            holdfast.store.hub.close_all()
            web.should_exit = True
            await serving
