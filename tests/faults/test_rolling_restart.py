"""Servers replaced one after the other while clients work: with retries as documented, no request fails.

The client does what docs/scale.md says: it repeats what was not answered, or answered with 502, 503 or 504, under the
same Idempotency-Key.
"""

import asyncio
import contextlib
import os
import shutil
import signal
import subprocess
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import httpx2
import pytest

from tests.databases import create_database
from tests.postgres import PostgresServer, free_port
from tests.server import ROOT, ServerProcess
from tests.waiting import until

CLIENTS = 4
TRIES = 60
AGAIN = frozenset({502, 503, 504})


class Load:
    """Clients that submit runs until they are stopped, and remember what came of each."""

    def __init__(self, url: str) -> None:
        self._url, self._stopping = url, False
        self.runs: dict[str, str] = {}
        self.failed: list[str] = []
        self.repeated = 0

    @contextlib.asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        async with httpx2.AsyncClient(base_url=self._url, timeout=30) as client:
            working = [asyncio.create_task(self._work(client, number)) for number in range(CLIENTS)]
            try:
                yield
            finally:
                self._stopping = True
                await asyncio.gather(*working)

    async def _work(self, client: httpx2.AsyncClient, number: int) -> None:
        count = 0
        while not self._stopping:
            count += 1
            await self._submit(client, f"client-{number}-{count}")

    async def _submit(self, client: httpx2.AsyncClient, key: str) -> None:
        body = {"agent": "assistant", "input": "hello"}
        for _ in range(TRIES):
            try:
                answer = await client.post(
                    "/api/runs", params={"wait": 10}, json=body, headers={"Idempotency-Key": key}
                )
            except httpx2.TransportError:
                self.repeated += 1
            else:
                if answer.status_code in (200, 202):
                    self.runs[key] = answer.json()["id"]
                    return
                if answer.status_code not in AGAIN:
                    self.failed.append(f"{answer.status_code} {answer.text}")
                    return
                self.repeated += 1
            await asyncio.sleep(0.1)  # as a client waits before it tries again
        self.failed.append(f"{key}: no answer after {TRIES} attempts")


async def _assert_each_key_has_one_run_that_completed(load: Load, url: str, clients_runs: int) -> None:
    assert load.failed == []
    assert len(load.runs) >= clients_runs
    assert len(set(load.runs.values())) == len(load.runs)
    async with httpx2.AsyncClient(base_url=url, timeout=30) as client:
        for run_id in load.runs.values():
            async with asyncio.timeout(30):
                while (run := (await client.get(f"/api/runs/{run_id}")).json())["status"] != "completed":
                    assert run["status"] in ("queued", "running"), run
                    await asyncio.sleep(0.1)  # a run of a server that drained is taken up by another one
        listed = (await client.get("/api/runs", params={"limit": 1000})).json()["items"]
    assert {run["id"] for run in listed} == set(load.runs.values())  # and nothing was run twice


@pytest.fixture
async def database(postgres_server: PostgresServer, request: pytest.FixtureRequest) -> str:
    name = f"rolling_{abs(hash(request.node.name)) % 10**6}"
    await create_database(postgres_server, name)
    return postgres_server.url(name)


@pytest.mark.faults
async def test_workers_are_replaced_without_a_failed_request(database: str, tmp_path: Path) -> None:
    server = await asyncio.to_thread(
        ServerProcess.start, tmp_path, database, None, {"HOLDFAST_WORKERS": "2", "HOLDFAST_LOG_LEVEL": "error"}
    )
    try:
        before = await _workers(server, 2)
        load = Load(server.url)
        async with load.running():
            await until(lambda: len(load.runs) >= 5, 30)
            os.kill(server.pid, signal.SIGHUP)
            await until(lambda: not before & _children(server.pid), 60)
            done = len(load.runs)
            await until(lambda: len(load.runs) >= done + 5, 30)
        await _assert_each_key_has_one_run_that_completed(load, server.url, 15)
    finally:
        await asyncio.to_thread(server.stop)


async def _workers(server: ServerProcess, count: int) -> set[int]:
    async with httpx2.AsyncClient(base_url=server.url, timeout=30) as client, asyncio.timeout(60):
        while f"holdfast_workers {count}.0" not in (await client.get("/metrics")).text:  # noqa: ASYNC110  # only they say
            await asyncio.sleep(0.1)
    return _children(server.pid)


def _children(pid: int) -> set[int]:
    return {int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()}


@contextlib.contextmanager
def _balancer(servers: list[str]) -> Iterator[str]:
    """The load balancer with the file that deploy/ has for it."""
    program = shutil.which("haproxy", path="/usr/local/sbin:/usr/sbin:/usr/bin")
    if program is None:
        pytest.skip("haproxy is not installed (Debian: apt-get install haproxy)")
    port = free_port()
    names = {f"SERVER_{number}": server for number, server in enumerate(servers, 1)} | {"NAMESERVER": "127.0.0.1:53"}
    process = subprocess.Popen(
        [program, "-db", "-f", str(ROOT / "deploy/compose/haproxy.cfg")],
        env={"LISTEN": f"127.0.0.1:{port}", **names}, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait(20)


@pytest.mark.faults
async def test_replicas_behind_a_load_balancer_are_restarted_without_a_failed_request(
    database: str, tmp_path: Path
) -> None:
    ports = [free_port() for _ in range(3)]

    def start(number: int) -> ServerProcess:
        return ServerProcess.start(tmp_path / str(number), database, port=ports[number])

    servers = [await asyncio.to_thread(start, number) for number in range(3)]
    try:
        with _balancer([server.url.removeprefix("http://") for server in servers]) as url:
            load = Load(url)
            async with load.running():
                await until(lambda: len(load.runs) >= 5, 30)
                for number, server in enumerate(servers):
                    await asyncio.to_thread(server.stop)
                    servers[number] = await asyncio.to_thread(start, number)
                    done = len(load.runs)
                    await until(lambda done=done: len(load.runs) >= done + 5, 30)  # type: ignore[misc]
            await _assert_each_key_has_one_run_that_completed(load, url, 20)
    finally:
        for server in servers:
            if server.is_running:
                await asyncio.to_thread(server.stop)
