"""Real processes under test: started from this checkout, awaited by the lines they print, killed for real."""

import asyncio
import contextlib
import os
import signal
import sys
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Final

from app.core.settings import Settings

ROOT: Final = Path(__file__).resolve().parents[2]
START_SECONDS: Final = 30.0
"""Importing everything cold on a busy machine takes a few."""


class Child:
    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        self._said: list[str] = []

    @property
    def pid(self) -> int:
        return self._process.pid

    async def line(self, start: str, seconds: float = START_SECONDS) -> str:
        """The rest of the next line that begins so. A process that ends instead is a failure with its last words."""
        output = self._process.stdout
        assert output is not None
        async with asyncio.timeout(seconds):
            while raw := await output.readline():
                said = raw.decode(errors="replace").rstrip("\n")
                self._said.append(said)
                if said.startswith(start):
                    return said[len(start) :]
        raise AssertionError(f"the process ended without saying {start!r}:\n" + "\n".join(self._said))

    async def send(self, text: str) -> None:
        stdin = self._process.stdin
        assert stdin is not None
        stdin.write(text.encode() + b"\n")
        await stdin.drain()

    def signal(self, number: signal.Signals) -> None:
        with contextlib.suppress(ProcessLookupError):
            self._process.send_signal(number)

    async def end(self, seconds: float = 40.0) -> int:
        """The exit code; reads on meanwhile, so that a full pipe holds nobody up."""
        output = self._process.stdout
        assert output is not None
        async with asyncio.timeout(seconds):
            rest = await output.read()
            self._said += rest.decode(errors="replace").splitlines()
            return await self._process.wait()

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
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", module, *arguments, cwd=ROOT, limit=limit, env=_environment() | dict(variables or {}),
        stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.STDOUT,
    )  # fmt: skip
    child = Child(process)
    try:
        yield child
    finally:
        if process.returncode is None:
            child.signal(signal.SIGKILL)
        await child.end()


def _environment() -> dict[str, str]:
    """Our environment without our settings: a child is configured by its arguments."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("HOLDFAST_")}
    # Dozens of children start here: each would compile everything again.
    kept.pop("PYTHONDONTWRITEBYTECODE", None)
    return kept | {"PYTHONUNBUFFERED": "1", "HOLDFAST_DRAIN_SECONDS": "5"}


def flags(settings: Settings) -> list[str]:
    """The settings as every entry here takes them."""
    given = ["--data-dir", str(settings.data_dir)]
    return [*given, "--database-url", settings.database_url] if settings.database_url is not None else given


@contextlib.asynccontextmanager
async def serving(settings: Settings) -> AsyncIterator[tuple[Child, str]]:
    """`holdfast serve` as a process, and where it listens."""
    secret = {} if settings.secret_file is None else {"HOLDFAST_SECRET_FILE": str(settings.secret_file)}
    async with started("app.main", "serve", "--port", "0", *flags(settings), variables=secret) as child:
        url = await child.line("listening on ")
        yield child, url
