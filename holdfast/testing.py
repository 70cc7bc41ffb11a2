"""A real server inside your tests: your workspace, a fresh database in a temporary folder, a free port, and a client.

    from holdfast.testing import running_server

    def test_the_agent_answers() -> None:
        with running_server("workspaces/mine") as server, server.client() as client:
            run = client.runs.create(agent="assistant", input="Hello")
            assert client.runs.output(run["id"])

It is the server that `holdfast serve` starts, in a thread of the test's process, with everything that belongs to it.
Give your agents a model with `provider: scripted` to test them without a provider.
"""

import asyncio
import contextlib
import tempfile
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from app.core.settings import Settings
from app.wiring.web import serving
from holdfast.client import AsyncClient, Client

__all__ = ["RunningServer", "running_server"]

_START_SECONDS: Final = 60.0
_STOP_SECONDS: Final = 60.0


@dataclass(frozen=True, slots=True)
class RunningServer:
    url: str
    data_dir: Path
    """The database and whatever else the server keeps. A server started with it again has the same runs."""

    def client(self) -> Client:
        return Client(self.url)

    def async_client(self) -> AsyncClient:
        return AsyncClient(self.url)


class _ServerThread:
    """The server's loop in a thread of its own, so that blocking tests can talk to it."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._loop = asyncio.new_event_loop()
        self._stop = asyncio.Event()
        self._listening = threading.Event()
        self._thread = threading.Thread(target=self._run, name="holdfast server", daemon=True)
        self._failure: BaseException | None = None
        self.url = ""

    def start(self) -> None:
        self._thread.start()
        if not self._listening.wait(_START_SECONDS):
            raise TimeoutError(f"the server did not start within {_START_SECONDS:.0f} s")
        if self._failure is not None:
            raise self._failure

    def stop(self) -> None:
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(_STOP_SECONDS)
        if self._failure is not None:
            raise self._failure

    def _run(self) -> None:
        try:
            self._loop.run_until_complete(self._serve())
        except BaseException as failure:
            self._failure = failure
        finally:
            self._loop.close()
            self._listening.set()

    async def _serve(self) -> None:
        async with serving(self._settings) as url:
            self.url = url
            self._listening.set()
            await self._stop.wait()


@contextlib.contextmanager
def running_server(
    workspace: str | Path | None = None, *, data_dir: str | Path | None = None, **settings: Any
) -> Iterator[RunningServer]:
    """A server for the length of a block; without a workspace it serves the demo.

    `data_dir` keeps the data; without it they are in a temporary folder that goes with the server. Further settings are
    those of the configuration page, in lower case and without the prefix: `max_concurrent_runs=4`.
    """
    with contextlib.ExitStack() as stack:
        folder = data_dir or stack.enter_context(tempfile.TemporaryDirectory(prefix="holdfast-"))
        given: dict[str, Any] = {"data_dir": Path(folder), **settings}
        if workspace is not None:
            given["workspace"] = Path(workspace)
        thread = _ServerThread(Settings(**given))
        thread.start()
        stack.callback(thread.stop)
        yield RunningServer(thread.url, Path(folder))
