"""Websocket fan-out: one thread's events to many sockets, the server on one core and the readers on another.

`measure()` starts the real server and readers that count frames, and answers frames per second. Each event is
published by itself (the echo agent awaits every word). Where the sockets are many the server writes to them in turns,
and what comes until a socket has its turn is written to it together: that is part of what is measured.
`python -m bench.fanout` prints one JSON line.
"""

import argparse
import asyncio
import json
import multiprocessing
import os
import tempfile
import time
import urllib.request
from dataclasses import asdict, dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, cast
from urllib.parse import quote

import uvloop

from tests.server import ServerProcess

THREAD = "thr_fanout"
WORDS = 400
"""Deltas of a run: less than a reader's queue, so that nobody is dropped even by a slow machine."""


@dataclass(frozen=True, slots=True)
class FanOut:
    sockets: int
    frames: int
    seconds: float
    frames_per_second: int
    events_per_second: int
    server_cpu_us_per_frame: float
    frames_per_server_cpu_second: int
    """What the server would reach with a core to itself; on a busy machine the figure to compare."""


def measure(sockets: int = 500, runs: int = 3, types: str | None = "runtime.*") -> FanOut:
    """`types` as the sockets ask for; None takes every spelling of every event."""
    with tempfile.TemporaryDirectory() as folder:
        server = ServerProcess.start(Path(folder))
        try:
            _pin(server.pid, 0)
            return _measure(server, sockets, runs, types)
        finally:
            server.stop()


def _measure(server: ServerProcess, sockets: int, runs: int, types: str | None) -> FanOut:
    ours, theirs = multiprocessing.Pipe()
    query = f"?threadId={THREAD}" + (f"&types={quote(types)}" if types else "")
    host, _, port = server.url.removeprefix("http://").partition(":")
    reading = multiprocessing.get_context("spawn").Process(
        target=_read_forever, args=(theirs, host, int(port), f"/api/stream{query}", sockets), daemon=True
    )
    reading.start()
    try:
        assert ours.poll(60) and ours.recv() == "connected"
        _run(server, ours, sockets)  # warm
        frames = events = 0
        seconds = cpu = 0.0
        for _ in range(runs):
            used, started = _cpu(server.pid), time.perf_counter()
            run, received = _run(server, ours, sockets)
            seconds += time.perf_counter() - started
            cpu += _cpu(server.pid) - used
            frames, events = frames + received, events + run
        return FanOut(
            sockets, frames, round(seconds, 3), round(frames / seconds), round(events / seconds),
            round(cpu / frames * 1e6, 2), round(frames / cpu),
        )  # fmt: skip
    finally:
        reading.kill()
        reading.join()


def _run(server: ServerProcess, readers: Connection, sockets: int) -> tuple[int, int]:
    """One run of the echo agent; its events, and the frames that all readers together got of it."""
    before = _last_seq(server)
    body = {"agent": "echo", "input": "word " * WORDS, "threadId": THREAD, "createThread": True}
    request = urllib.request.Request(f"{server.url}/api/runs", json.dumps(body).encode())
    with urllib.request.urlopen(request) as answer:
        assert answer.status == 202
    readers.send("runtime.request.completed")
    assert readers.poll(120)
    frames: int = readers.recv()
    return _last_seq(server) - before, frames


def _last_seq(server: ServerProcess) -> int:
    try:
        with urllib.request.urlopen(f"{server.url}/api/threads/{THREAD}") as answer:
            run: dict[str, Any] = json.loads(answer.read())
            return int(run["lastSeq"])
    except urllib.error.HTTPError:
        return 0


def _cpu(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _pin(pid: int, core: int) -> None:
    cores = sorted(os.sched_getaffinity(0))
    for task in Path(f"/proc/{pid}/task").iterdir():
        os.sched_setaffinity(int(task.name), {cores[core % len(cores)]})


# -- the readers ---------------------------------------------------------------------------------------


class Reader(asyncio.Protocol):
    """Counts whole frames and looks into none but for the end of a run."""

    def __init__(self, path: str, host: str, group: "ReaderGroup") -> None:
        self._path, self._host, self._group = path, host, group
        self._rest = b""
        self._open = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        cast(asyncio.Transport, transport).write(
            f"GET {self._path} HTTP/1.1\r\nHost: {self._host}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
            "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n".encode()
        )

    def connection_lost(self, error: Exception | None) -> None:
        self._group.lost += 1

    def data_received(self, data: bytes) -> None:
        data = self._rest + data
        if not self._open:
            head, mark, data = data.partition(b"\r\n\r\n")
            if not mark:
                self._rest = head
                return
            assert head.startswith(b"HTTP/1.1 101"), head
            self._open = True
        at, size, group = 0, len(data), self._group
        while size - at >= 2:
            length, start = data[at + 1], at + 2
            if length == 126:
                length, start = int.from_bytes(data[at + 2 : at + 4], "big"), at + 4
            elif length == 127:
                length, start = int.from_bytes(data[at + 2 : at + 10], "big"), at + 10
            if start + length > size:
                break
            if data[at] == 0x81:
                group.frame(data, start)
            at = start + length
        self._rest = data[at:]


class ReaderGroup:
    """All readers of the process together."""

    def __init__(self, sockets: int) -> None:
        self._sockets = sockets
        self.ready = asyncio.Event()
        self.ended = asyncio.Event()
        self.frames = self.greeted = self.ends = self.lost = 0

    def frame(self, data: bytes, start: int) -> None:
        if data.startswith(b'{"type":"ready"', start):
            self.greeted += 1
            if self.greeted == self._sockets:
                self.ready.set()
            return
        self.frames += 1
        if data.startswith(b'{"type":"runtime.request.completed"', start):
            self.ends += 1
            if self.ends == self._sockets:
                self.ended.set()


def _read_forever(pipe: Connection, host: str, port: int, path: str, sockets: int) -> None:
    cores = sorted(os.sched_getaffinity(0))
    os.sched_setaffinity(0, {cores[-1]})
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(_read(pipe, host, port, path, sockets))


async def _read(pipe: Connection, host: str, port: int, path: str, sockets: int) -> None:
    loop = asyncio.get_running_loop()
    group = ReaderGroup(sockets)
    for _ in range(sockets):
        await loop.create_connection(lambda: Reader(path, host, group), host, port)
    await group.ready.wait()
    pipe.send("connected")
    while True:
        await loop.run_in_executor(None, pipe.recv)
        await group.ended.wait()
        await asyncio.sleep(0.05)  # the last event's other spellings
        assert group.lost == 0, f"{group.lost} readers were dropped"
        frames, group.frames, group.ends = group.frames, 0, 0
        group.ended.clear()
        pipe.send(frames)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m bench.fanout")
    parser.add_argument("--sockets", type=int, default=500)
    parser.add_argument("--runs", type=int, default=3)
    given = parser.parse_args()
    own = measure(given.sockets, given.runs)
    every = measure(given.sockets, given.runs, None)
    print(json.dumps({"fanout": {"own": asdict(own), "every spelling": asdict(every)}}))


if __name__ == "__main__":
    main()
