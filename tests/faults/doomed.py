"""Servers that die: `holdfast serve` in a process of its own, killed from outside, or by itself at a named point.

A point is an event type and a side of its commit. It concerns only runs whose input says a certain word and that this
very process has accepted, so that a server which recovers such a run lives on. Processes are forked from one that has
imported everything, because dozens of them start here; what each then runs is the command of the command line.
"""

import asyncio
import contextlib
import multiprocessing
import os
import signal
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from typing import Any, Final, Literal, TypeVar

from app.core.settings import Settings
from app.events.catalog.request import RequestQueued
from app.store.engine import DELTA_COLUMNS, EVENT_COLUMNS, Database, Row, Sql, Tx
from tests.faults.points import Passing
from tests.forks import PRELOADED
from tests.waiting import until

T = TypeVar("T")

START_SECONDS: Final = 100.0
STOP_SECONDS: Final = 60.0
_THREAD, _RUN, _TYPE, _PAYLOAD = (EVENT_COLUMNS.index(name) for name in ("thread_key", "run_id", "type", "payload"))
assert DELTA_COLUMNS[_THREAD] == "thread_key"

_processes = multiprocessing.get_context("forkserver")
_PRELOADED: Final = [*PRELOADED, "app.main", "tests.faults.doomed", "tests.faults.looked_around"]
_processes.set_forkserver_preload(_PRELOADED)


def preload(*modules: str) -> None:
    """Before the first server starts: what its servers would import one by one."""
    _PRELOADED.extend(modules)
    _processes.set_forkserver_preload(_PRELOADED)


@dataclass(frozen=True, slots=True)
class Point:
    """Where a doomed run takes its server with it."""

    side: Literal["before", "after"]
    """Of the commit: before it nothing of the event is durable, after it nobody has heard of it yet."""
    type: str
    """Empty for any event of the run."""
    word: str = "doomed"
    number: int = 1
    """Which of the commits that contain such an event."""

    def __str__(self) -> str:
        return f"{self.side} {self.type.removeprefix('runtime.') or f'commit {self.number}'}"


class _Watched:
    """A transaction that looks at the events it is given."""

    def __init__(self, inner: Tx, look: Callable[[Sequence[Row], Sequence[Row]], None], *, may_be_alone: bool) -> None:
        self._inner, self._look, self._may_be_alone = inner, look, may_be_alone

    @property
    def turn(self) -> int | None:
        return self._inner.turn

    async def rows(self, sql: Sql, *params: Any) -> list[Row]:
        return await self._inner.rows(sql, *params)

    async def many(self, sql: Sql, rows: Sequence[Row]) -> None:
        await self._inner.many(sql, rows)

    async def returning(self, sql: Sql, rows: Sequence[Row]) -> list[Row]:
        return await self._inner.returning(sql, rows)

    async def append(
        self,
        events: Sequence[Row],
        deltas: Sequence[Row] = (),
        threads: Sequence[Row] = (),
        runs: Sequence[Row] = (),
        before: Sequence[Row] = (),
        *,
        alone: bool = False,
    ) -> None:
        self._look(events, deltas)
        # Who is to die before the commit dies within a transaction.
        await self._inner.append(events, deltas, threads, runs, before, alone=alone and self._may_be_alone)


class _DoomedDatabase(Passing):
    def __init__(self, inner: Database, point: Point) -> None:
        super().__init__(inner)
        self._point = point
        self._doomed: set[str] = set()
        self._threads: set[int] = set()
        self._commits = 0
        self._reached = False

    async def write(self, work: Callable[[Tx], Awaitable[T]]) -> T:
        async def watched(tx: Tx) -> T:
            result = await work(_Watched(tx, self._look, may_be_alone=self._point.side == "after"))
            if self._reached and self._point.side == "before":
                os.kill(os.getpid(), signal.SIGKILL)
            return result

        result = await super().write(watched)
        if self._reached:
            os.kill(os.getpid(), signal.SIGKILL)
        return result

    def _look(self, events: Sequence[Row], deltas: Sequence[Row]) -> None:
        found = False
        for row in events:
            if row[_TYPE] == RequestQueued.type and self._point.word.encode() in row[_PAYLOAD]:
                self._doomed.add(row[_RUN])
                self._threads.add(row[_THREAD])
            if not self._point.type:
                found = found or row[_RUN] in self._doomed
            elif row[_TYPE] == self._point.type:
                found = found or row[_RUN] in self._doomed or (row[_RUN] is None and self._named(events))
        if not self._point.type:
            found = found or any(row[_THREAD] in self._threads for row in deltas)
        self._commits += found
        self._reached = self._reached or (found and self._commits == self._point.number)

    def _named(self, events: Sequence[Row]) -> bool:
        """What a run leaves on another thread, such as memory, names it in the payload of one of its events."""
        words = [self._point.word.encode(), *(run_id.encode() for run_id in self._doomed)]
        return any(word in row[_PAYLOAD] for row in events if row[_RUN] is None for word in words)


def _serve(arguments: list[str], output: str, point: Point | None, environment: dict[str, str]) -> None:
    """In the child: the command as users give it, its output in a file, its database perhaps doomed."""
    file = os.open(output, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    os.dup2(file, 1)
    os.dup2(file, 2)
    for name in [name for name in os.environ if name.startswith("HOLDFAST_")]:
        del os.environ[name]
    os.environ.update(environment)
    from app.cli.application import app
    from app.cli.named_command import named_command
    from app.wiring import store as wiring
    from tests.patience import be_patient

    be_patient()
    if point is not None:
        opened = wiring.open_database
        wiring.open_database = lambda settings: _DoomedDatabase(opened(settings), point)
    named_command(app, ["serve"])(["serve", "--port", "0", *arguments])


class Server:
    def __init__(self, process: ForkServerProcess, output: Path) -> None:
        self._process, self._output = process, output
        self._waiting: asyncio.Task[None] | None = None
        self.url = ""

    @property
    def pid(self) -> int:
        assert self._process.pid is not None
        return self._process.pid

    @property
    def said(self) -> str:
        return self._output.read_text(errors="replace") if self._output.exists() else ""

    async def listening(self) -> None:
        await until(lambda: "listening on " in self.said or not self.alive, START_SECONDS)
        found = [line for line in self.said.splitlines() if line.startswith("listening on ")]
        assert found, f"the server did not start:\n{self.said}"
        self.url = found[0].removeprefix("listening on ").strip()

    async def kill(self) -> None:
        """As a crash: no chance to write anything."""
        self._process.kill()
        await self.died()

    async def died(self, seconds: float = STOP_SECONDS) -> None:
        """It has killed itself, or was."""
        assert await self._end(seconds) == -signal.SIGKILL, self.said

    async def survives(self, seconds: float = 0.3) -> bool:
        """Whether it goes on after its last commit; the client may hear of that before the kill takes effect."""
        return await self._end(seconds) is None

    @property
    def alive(self) -> bool:
        return self._process.is_alive() if self._waiting is None else not self._waiting.done()

    async def stop(self) -> None:
        self._process.terminate()
        await self.ended()

    async def ended(self) -> None:
        """Cleanly, whoever asked for it."""
        assert await self._end(STOP_SECONDS) == 0, self.said

    async def _end(self, seconds: float) -> int | None:
        """The exit code; None while it goes on."""
        if self._waiting is None:
            # In one thread for all who wait: of two that wait at once, one is told a code that is not the process's.
            self._waiting = asyncio.create_task(asyncio.to_thread(self._process.join))
        ended, _ = await asyncio.wait({self._waiting}, timeout=seconds)
        return self._process.exitcode if ended else None


@contextlib.asynccontextmanager
async def server(
    settings: Settings, workspace: Path, point: Point | None = None, environment: dict[str, str] | None = None
) -> AsyncIterator[Server]:
    """Whatever is left of it at the end is stopped, and must stop cleanly."""
    arguments = ["--data-dir", str(settings.data_dir), "--workspace", str(workspace)]
    if settings.database_url is not None:
        arguments += ["--database-url", settings.database_url]
    always = {"HOLDFAST_DRAIN_SECONDS": "5"}
    if settings.secret_file is not None:
        always["HOLDFAST_SECRET_FILE"] = str(settings.secret_file)
    output = settings.data_dir / f"server-{len(list(settings.data_dir.glob('server-*')))}.log"
    process = _processes.Process(
        target=_serve,
        args=(arguments, str(output), point, always | (environment or {})),
        daemon=True,
    )
    await asyncio.to_thread(process.start)
    started = Server(process, output)
    try:
        await started.listening()
        yield started
        if started.alive:
            await started.stop()
    finally:
        if started.alive:
            process.kill()
        await started._end(STOP_SECONDS)
