"""`holdfast serve --workers N`: one process that listens and starts the workers, which serve.

The listening socket is the supervisor's and every worker accepts from it. So a connection that arrives while a worker
ends or starts waits for another one instead of being refused, and a busy worker leaves new ones to the others.

SIGTERM and SIGINT drain all workers, SIGHUP replaces them one after the other. A worker that dies is started again,
after a delay that doubles with each death. Leaves to others: everything that a server does (`worker`).
"""

import asyncio
import contextlib
import itertools
import signal
import socket
import sys
from dataclasses import dataclass, field
from time import monotonic
from typing import Any, Final

import structlog
import typer

from app.cli.worker_channel import WorkerChannel
from app.core import json
from app.core.errors import HoldfastError
from app.core.logs import configure_logs
from app.core.metric_totals import MetricTotals
from app.core.metrics import Metrics, Snapshot
from app.core.settings import Settings
from app.protocols.auth.bootstrap import new_token

START_SECONDS: Final = 120.0
"""How long a worker may take until it listens: it may have to migrate the database first."""
STEADY_SECONDS: Final = 60.0
"""A worker that lived for so long is started again at once."""
FIRST_DELAY: Final = 0.1
LONGEST_DELAY: Final = 30.0
GIVE_UP_SECONDS: Final = 60.0
"""Without any worker for so long, the supervisor ends too: whatever watches it can do more than it."""
KILL_AFTER_SECONDS: Final = 30.0
"""After the time that a drain may take."""
SNAPSHOT_SECONDS: Final = 2.0
_BACKLOG: Final = 2048
_PROGRAM: Final = (
    "import json, sys; sys.path[:] = json.loads(sys.argv[3]); from app.cli.worker import main; main(*sys.argv[1:3])"
)
"""The same modules as the supervisor's, and none from the folder in which it was started."""

log = structlog.get_logger("holdfast.supervisor")


class WorkersNeedPostgres(HoldfastError):
    def __init__(self, workers: int) -> None:
        super().__init__(
            "WORKERS_NEED_POSTGRES",
            f"{workers} workers cannot share the SQLite database: it belongs to one process, which holds its lock",
        )


class WorkersFailed(HoldfastError):
    def __init__(self, message: str) -> None:
        super().__init__("WORKERS_FAILED", message)


async def supervise(settings: Settings) -> None:
    if not settings.is_postgres:
        raise WorkersNeedPostgres(settings.workers)
    configure_logs(settings.log_level, str)
    with _listener(settings) as listener:
        await Supervisor(settings, listener).run()


def _listener(settings: Settings) -> socket.socket:
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    return socket.create_server((settings.host, settings.port), family=family, backlog=_BACKLOG, reuse_port=False)


@dataclass(eq=False)
class Worker:
    """One process."""

    number: int
    process: asyncio.subprocess.Process
    channel: WorkerChannel
    started: float = field(default_factory=monotonic)
    listening: bool = False
    last: Snapshot = field(default_factory=list)
    """What it reported last."""
    asked: "dict[int, asyncio.Future[None]]" = field(default_factory=dict)
    leaving: bool = False
    """It was asked to end."""
    reading: "asyncio.Task[None] | None" = None


class Supervisor:
    def __init__(self, settings: Settings, listener: socket.socket) -> None:
        self._settings, self._listener = settings, listener
        self._port: int = listener.getsockname()[1]
        self._token = new_token()
        self._workers: set[Worker] = set()
        self._tasks: set[asyncio.Task[Any]] = set()
        self._announced, self._stopping = asyncio.Event(), asyncio.Event()
        self._failed: str | None = None
        self._unclean = 0
        self._ids = itertools.count(1)
        self._totals, self._metrics = MetricTotals(), Metrics()
        self._metrics.watch("workers", "Worker processes that serve the port.", self._listening_workers)
        self._restarts = self._metrics.plain_counter("worker_restarts", "Workers that ended unasked and were replaced.")
        self._last_listening = monotonic()
        self._replacing = asyncio.Lock()

    async def run(self) -> None:
        loop = asyncio.get_running_loop()
        for name in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(name, self._stop)
        loop.add_signal_handler(signal.SIGHUP, lambda: self._background(self._replace_all()))
        # The first one alone: it migrates the database, and what is wrong with the settings is printed once.
        first = self._background(self._keep(0))
        announced = asyncio.create_task(self._announced.wait())
        await asyncio.wait({first, announced}, return_when=asyncio.FIRST_COMPLETED)
        if self._announced.is_set():
            for number in range(1, self._settings.workers):
                self._background(self._keep(number))
            watching = self._background(self._watch())
            await self._stopping.wait()
            watching.cancel()
        announced.cancel()
        self._listener.close()  # the workers' copies accept until they have drained
        await self._end_all()
        if self._failed is not None:
            raise WorkersFailed(self._failed)

    def _stop(self) -> None:
        """Each signal is passed on: the second one releases runs at once, the third abandons requests."""
        self._stopping.set()
        for worker in self._workers:
            _terminate(worker)

    async def _end_all(self) -> None:
        self._stopping.set()
        for worker in self._workers:
            if not worker.leaving:
                _terminate(worker)
        pending = {task for task in self._tasks if not task.done()}
        if pending:
            _, pending = await asyncio.wait(pending, timeout=self._settings.drain_seconds + KILL_AFTER_SECONDS)
        for worker in list(self._workers):
            log.error("worker.killed", worker=worker.number, pid=worker.process.pid, reason="it did not end in time")
            worker.process.kill()
            await worker.process.wait()
            self._unclean += 1
        for task in pending:
            task.cancel()
        if self._unclean and self._failed is None:
            self._failed = f"{self._unclean} workers did not end cleanly"

    # -- one worker's place --------------------------------------------------------------------------

    async def _keep(self, number: int) -> None:
        """Keeps a worker in this place until the supervisor stops."""
        delay = FIRST_DELAY
        while not self._stopping.is_set():
            worker = await self._start(number)
            try:
                code = await self._ended(worker)
            except asyncio.CancelledError:  # its place is kept by another one
                _terminate(worker)
                self._background(self._ended(worker))
                raise
            if worker.leaving:
                self._unclean += code != 0
                return
            if not worker.listening and not self._restarts.value and number == 0 and code == 1:
                # It said itself why it cannot start, and nobody would start any better.
                self._failed = "the first worker could not start"
                self._stopping.set()
                return
            if monotonic() - worker.started >= STEADY_SECONDS:
                delay = FIRST_DELAY
            log.error("worker.ended", worker=number, pid=worker.process.pid, code=code, again_in=delay)
            self._restarts.inc()
            try:
                async with asyncio.timeout(delay):
                    await self._stopping.wait()
            except TimeoutError:
                delay = min(LONGEST_DELAY, delay * 2)

    async def _start(self, number: int) -> Worker:
        ours, theirs = socket.socketpair()
        with theirs:
            passed = (self._listener.fileno(), theirs.fileno())
            process = await asyncio.create_subprocess_exec(
                sys.executable,
                "-P",
                "-c",
                _PROGRAM,
                *map(str, passed),
                json.dumps(sys.path).decode(),
                pass_fds=passed,
                stdin=asyncio.subprocess.DEVNULL,
                # Ctrl-C at a terminal goes to the whole group; each worker shall hear of it once, from here.
                start_new_session=True,
            )
        channel = await WorkerChannel.open(ours)
        worker = Worker(number, process, channel)
        self._workers.add(worker)
        settings = self._settings.model_dump(mode="json") | {"port": self._port}
        channel.send("start", number=number, settings=settings, bootstrapToken=self._token)
        worker.reading = self._background(self._read(worker))
        if self._stopping.is_set():
            _terminate(worker)
        return worker

    async def _ended(self, worker: Worker) -> int:
        code = await worker.process.wait()
        self._workers.discard(worker)
        if worker.reading is not None:
            await worker.reading  # its last report
        worker.channel.close()
        self._totals.end(worker.last)
        for asked in worker.asked.values():
            if not asked.done():
                asked.set_result(None)
        return code

    async def _read(self, worker: Worker) -> None:
        while (message := await worker.channel.receive()) is not None:
            kind = message["kind"]
            if kind == "listening":
                worker.listening = True
                if not self._announced.is_set():
                    self._announce(message["banner"])
                log.info("worker.listening", worker=worker.number, pid=worker.process.pid)
            elif kind == "snapshot":
                worker.last = message["families"]
                if (asked := worker.asked.pop(message["id"], None)) is not None and not asked.done():
                    asked.set_result(None)
            elif kind == "scrape":
                self._background(self._scrape(worker, message["id"]))

    async def _replace_all(self) -> None:
        """Each one by a new one that listens before the old one drains: the port is always served."""
        async with self._replacing:
            for old in sorted(self._workers, key=lambda worker: worker.number):
                if self._stopping.is_set():
                    return
                keeping = self._background(self._keep(old.number))
                if not await self._has_successor(old):
                    log.error("worker.kept", worker=old.number, reason="its successor does not start")
                    keeping.cancel()
                    return
                old.leaving = True
                old.channel.send("replaced")
                await old.process.wait()

    async def _has_successor(self, old: Worker) -> bool:
        """Whether another worker listens in the place of this one, as soon as it does."""
        deadline = monotonic() + START_SECONDS
        while monotonic() < deadline and not self._stopping.is_set():
            places = (worker for worker in self._workers if worker.number == old.number and worker is not old)
            if any(worker.listening for worker in places):
                return True
            await asyncio.sleep(0.05)
        return False

    # -- all of them ---------------------------------------------------------------------------------

    def _listening_workers(self) -> int:
        return sum(worker.listening for worker in self._workers)

    async def _watch(self) -> None:
        while True:
            if self._listening_workers():
                self._last_listening = monotonic()
            elif monotonic() - self._last_listening > GIVE_UP_SECONDS:
                self._failed = f"no worker has been able to serve for {GIVE_UP_SECONDS:.0f} s"
                self._stopping.set()
                return
            await asyncio.sleep(1.0)

    def _announce(self, banner: list[list[str]]) -> None:
        self._announced.set()
        typer.echo(f"listening on http://{self._settings.host}:{self._port}")
        for label, text in [*banner[:1], ["workers", f"{self._settings.workers} processes"], *banner[1:]]:
            typer.echo(f"  {label:<10} {text}")

    async def _scrape(self, asking: Worker, number: int) -> None:
        """The metrics of all workers; of one that does not answer in time, the ones that it reported last."""
        await asyncio.gather(*(self._snapshot(worker) for worker in self._workers))
        living = [(worker.number, worker.last) for worker in self._workers]
        own = [family for family in await self._metrics.snapshot() if not family["name"].startswith("process_")]
        asking.channel.send("metrics", id=number, text=self._totals.render(living, own).decode())

    async def _snapshot(self, worker: Worker) -> None:
        number, answer = next(self._ids), asyncio.get_running_loop().create_future()
        worker.asked[number] = answer
        worker.channel.send("snapshot", id=number)
        try:
            async with asyncio.timeout(SNAPSHOT_SECONDS):
                await answer
        except TimeoutError:
            log.warning("worker.silent", worker=worker.number, pid=worker.process.pid)
        finally:
            worker.asked.pop(number, None)

    def _background(self, work: Any) -> "asyncio.Task[Any]":
        task = asyncio.create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task


def _terminate(worker: Worker) -> None:
    worker.leaving = True
    with contextlib.suppress(ProcessLookupError):
        worker.process.send_signal(signal.SIGTERM)
