"""Real processes under test: started from this checkout, awaited by the lines they print, killed for real."""

import asyncio
import contextlib
import os
import signal
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Final

from app.core.settings import Settings
from tests.forks import Fork, fork
from tests.patience import PATIENT

ROOT: Final = Path(__file__).resolve().parents[2]
START_SECONDS: Final = 100.0
"""Importing everything cold on a busy machine takes a few."""


class Child:
    def __init__(self, process: Fork, stdin: asyncio.WriteTransport, stdout: asyncio.StreamReader) -> None:
        self._process, self._stdin, self._stdout = process, stdin, stdout
        self._said: list[str] = []

    @property
    def pid(self) -> int:
        return self._process.pid

    async def line(self, start: str, seconds: float = START_SECONDS) -> str:
        """The rest of the next line that begins so. A process that ends instead is a failure with its last words."""
        async with asyncio.timeout(seconds):
            while raw := await self._stdout.readline():
                said = raw.decode(errors="replace").rstrip("\n")
                self._said.append(said)
                if said.startswith(start):
                    return said[len(start) :]
        raise AssertionError(f"the process ended without saying {start!r}:\n" + "\n".join(self._said))

    async def send(self, text: str) -> None:
        self._stdin.write(text.encode() + b"\n")

    def signal(self, number: signal.Signals) -> None:
        self._process.send_signal(number)

    async def end(self, seconds: float = 40.0) -> int:
        """The exit code; reads on meanwhile, so that a full pipe holds nobody up."""
        async with asyncio.timeout(seconds):
            rest = await self._stdout.read()
            self._said += rest.decode(errors="replace").splitlines()
            return await asyncio.to_thread(self._process.wait, seconds)

    async def kill(self) -> None:
        self.signal(signal.SIGKILL)
        assert await self.end() == -signal.SIGKILL, "\n".join(self._said)

    @property
    def said(self) -> str:
        return "\n".join(self._said)


@contextlib.asynccontextmanager
async def started(
    module: str, *arguments: str, limit: int = 2**16, variables: Mapping[str, str] | None = None
) -> AsyncIterator[Child]:
    """`python -m module ...`; whatever is left of it at the end is killed."""
    environment = _environment() | dict(variables or {})
    (their_input, our_input), (our_output, their_output) = os.pipe(), os.pipe()
    try:
        process = await asyncio.to_thread(
            fork, module, arguments, environment=environment,
            stdin=their_input, stdout=their_output, stderr=their_output,
        )  # fmt: skip
    finally:
        os.close(their_input)
        os.close(their_output)
    loop, reader = asyncio.get_running_loop(), asyncio.StreamReader(limit)
    stdin, _ = await loop.connect_write_pipe(asyncio.BaseProtocol, os.fdopen(our_input, "wb"))
    stdout, _ = await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(our_output, "rb"))
    child = Child(process, stdin, reader)
    try:
        yield child
    finally:
        if process.poll() is None:
            child.signal(signal.SIGKILL)
        await child.end()
        stdin.close()
        stdout.close()


def _environment() -> dict[str, str]:
    """Our environment without our settings: a child is configured by its arguments."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("HOLDFAST_")}
    return kept | {"PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": "1", "HOLDFAST_DRAIN_SECONDS": "5"}


def flags(settings: Settings) -> list[str]:
    """The settings as every entry here takes them."""
    given = ["--data-dir", str(settings.data_dir)]
    return [*given, "--database-url", settings.database_url] if settings.database_url is not None else given


@contextlib.asynccontextmanager
async def serving(settings: Settings, *, patient: bool = True) -> AsyncIterator[tuple[Child, str]]:
    """`holdfast serve` as a process, and where it listens. Not `patient` where that is what a test is about."""
    variables = {PATIENT: "1"} if patient else {}
    variables |= {} if settings.secret_file is None else {"HOLDFAST_SECRET_FILE": str(settings.secret_file)}
    async with started("app.main", "serve", "--port", "0", *flags(settings), variables=variables) as child:
        url = await child.line("listening on ")
        yield child, url
