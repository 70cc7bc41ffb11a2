"""One of several processes that serve a port together, started by the supervisor.

A worker is a whole server. It gets its settings, the listening socket and a line to the supervisor; it stops when it is
asked to by a signal, and when the supervisor is gone, so that no worker outlives it.
"""

import asyncio
import contextlib
import gc
import itertools
import socket
import sys
from typing import Any

import structlog
import typer

from app.cli.loop import run_loop
from app.cli.serve import Stopping, banner, configure_interpreter, serve_http
from app.cli.worker_channel import WorkerChannel
from app.core.metrics import Metrics
from app.core.settings import Settings
from app.wiring.runtime import Holdfast
from app.wiring.web import START_PATIENCE_SECONDS, open_logged

_SCRAPE_SECONDS = 5.0

log = structlog.get_logger("holdfast.worker")


async def work(listener: socket.socket, end: socket.socket) -> None:
    channel = await WorkerChannel.open(end)
    start = await channel.receive()
    if start is None:
        return
    structlog.contextvars.bind_contextvars(worker=start["number"])
    settings = Settings.model_validate(start["settings"])
    stopping = Stopping()
    stopping.on_signals()
    token, patience = start["bootstrapToken"], START_PATIENCE_SECONDS
    async with open_logged(settings, settings.log_level, token, patience=patience) as holdfast:
        configure_interpreter()
        link = SupervisorLink(channel, holdfast.metrics, stopping)
        following = asyncio.create_task(link.follow())

        def listening(port: int) -> None:
            channel.send("listening", banner=list(banner(_url(settings, port), settings, holdfast)))

        try:
            await serve_http(settings, holdfast, stopping, listening, listener)
        finally:
            following.cancel()
            await _say_goodbye(channel, holdfast)


def _url(settings: Settings, port: int) -> str:
    return f"http://{settings.host}:{port}"


async def _say_goodbye(channel: WorkerChannel, holdfast: Holdfast) -> None:
    """What was counted up to the end stays in the totals."""
    with contextlib.suppress(Exception):  # the database may be away
        channel.send("snapshot", id=0, families=await holdfast.metrics.snapshot())
    channel.close()


class SupervisorLink:
    """Answers the supervisor's questions, and asks it for the metrics of all workers."""

    def __init__(self, channel: WorkerChannel, metrics: Metrics, stopping: Stopping) -> None:
        self._channel, self._metrics, self._stopping = channel, metrics, stopping
        self._ids = itertools.count(1)
        self._asked: dict[int, asyncio.Future[str]] = {}
        self._answering: set[asyncio.Task[None]] = set()
        metrics.gathered = self.gathered

    async def follow(self) -> None:
        while (message := await self._channel.receive()) is not None:
            if message["kind"] == "snapshot":
                answer = asyncio.create_task(self._answer(message["id"]))
                self._answering.add(answer)
                answer.add_done_callback(self._answering.discard)
            elif message["kind"] == "replaced":
                self._stopping.replaced = True
                self._stopping.stop()
            elif message["kind"] == "metrics" and (asked := self._asked.pop(message["id"], None)) is not None:
                asked.set_result(message["text"])
        log.warning("supervisor.gone", effect="this worker stops")
        self._stopping.stop()

    async def _answer(self, number: int) -> None:
        families: list[dict[str, Any]] = await self._metrics.snapshot()
        self._channel.send("snapshot", id=number, families=families)

    async def gathered(self) -> bytes:
        number, answer = next(self._ids), asyncio.get_running_loop().create_future()
        self._asked[number] = answer
        self._channel.send("scrape", id=number)
        try:
            async with asyncio.timeout(_SCRAPE_SECONDS):
                text: str = await answer
                return text.encode()
        except TimeoutError:
            return await self._metrics.refreshed()  # of this worker alone, rather than nothing
        finally:
            self._asked.pop(number, None)


def main(listener: str, end: str) -> None:
    """With the numbers of the two inherited sockets, which no process that this one starts inherits."""
    gc.disable()  # until the server is up, as in `holdfast serve`
    sockets = [socket.socket(fileno=int(number)) for number in (listener, end)]
    for inherited in sockets:
        inherited.set_inheritable(False)
    try:
        run_loop(work(*sockets))
    except typer.Exit as failed:
        sys.exit(failed.exit_code)
