"""`holdfast serve --workers`: several real processes on one port, with one supervisor."""

import asyncio
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx2
import pytest

from tests.databases import create_database
from tests.postgres import PostgresServer
from tests.server import ROOT, ServerProcess, clean_environment, secret_file

WORKERS = 2
TOKEN = "hfb_"


def _children(pid: int) -> set[int]:
    return {int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()}


def _alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def _until(condition: Callable[[], bool], seconds: float = 60) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.02)


def _start(postgres: PostgresServer, name: str, folder: Path, **variables: str) -> ServerProcess:
    asyncio.run(create_database(postgres, name))
    return ServerProcess.start(folder, postgres.url(name), variables={"HOLDFAST_WORKERS": str(WORKERS), **variables})


@pytest.fixture(scope="module")
def server(postgres_server: PostgresServer, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    started = _start(postgres_server, "workers", tmp_path_factory.mktemp("workers"))
    try:
        _until(lambda: _metric(started, "holdfast_workers") == WORKERS)
        yield started
    finally:
        pids = _children(started.pid)
        started.stop()  # with exit code 0
        assert not any(map(_alive, pids))


def _metrics(server: ServerProcess) -> str:
    return httpx2.get(server.url + "/metrics", timeout=20).text


def _metric(server: ServerProcess, name: str) -> float:
    found = re.search(rf"^{re.escape(name)} (\S+)$", _metrics(server), re.MULTILINE)
    return float(found[1]) if found else 0.0


def _run(server: ServerProcess) -> None:
    """On a connection of its own, which any worker may accept."""
    body = {"agent": "assistant", "input": "hello"}
    answer = httpx2.post(server.url + "/api/runs", params={"wait": "10"}, json=body, timeout=20)
    assert answer.status_code == 200 and answer.json()["status"] == "completed", answer.text


def test_one_scrape_shows_what_all_workers_did(server: ServerProcess) -> None:
    name = 'holdfast_http_requests_total{method="POST",route="/api/runs",status="200"}'
    before = _metric(server, name)
    for _ in range(8):
        _run(server)
    assert _metric(server, name) == before + 8
    shown = _metrics(server)
    assert all(f'process_resident_memory_bytes{{worker="{number}"}}' in shown for number in range(WORKERS))


def test_a_dead_worker_is_replaced_and_its_counts_are_kept(server: ServerProcess) -> None:
    for _ in range(4):
        _run(server)
    name = 'holdfast_http_requests_total{method="POST",route="/api/runs",status="200"}'
    before, restarts = _metric(server, name), _metric(server, "holdfast_worker_restarts_total")
    victim = min(_children(server.pid))
    os.kill(victim, signal.SIGKILL)
    _until(lambda: not _alive(victim))
    for _ in range(4):
        _run(server)  # by the other one, or by the new one
    _until(lambda: _metric(server, "holdfast_workers") == WORKERS)
    assert _metric(server, name) == before + 4
    assert _metric(server, "holdfast_worker_restarts_total") == restarts + 1


def test_hangup_replaces_all_workers_while_requests_are_served(server: ServerProcess) -> None:
    before = _children(server.pid)
    os.kill(server.pid, signal.SIGHUP)
    deadline = time.monotonic() + 60
    while _children(server.pid) & before:
        _run(server)
        assert time.monotonic() < deadline
    _until(lambda: _metric(server, "holdfast_workers") == WORKERS)


def test_the_first_key_is_made_at_any_worker_and_only_once(postgres_server: PostgresServer, tmp_path: Path) -> None:
    asyncio.run(create_database(postgres_server, "workers_keys"))
    command = [sys.executable, "-m", "app.main", "serve", "--port", "0", "--workers", str(WORKERS)]
    command += ["--database-url", postgres_server.url("workers_keys"), "--data-dir", str(tmp_path)]
    more = {"HOLDFAST_AUTH": "keys", "HOLDFAST_SECRET_FILE": str(secret_file(tmp_path))}
    process = subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=clean_environment() | more, cwd=ROOT
    )
    assert process.stdout is not None
    with process.stdout as lines:
        url = next(line for line in lines if line.startswith("listening on ")).split()[-1]
        token = next(found[1] for line in lines if (found := re.search(rf"=({TOKEN}\S+)", line)))
        first = _create_key(url, token)
        assert first.status_code == 201, first.text
        admin = {"authorization": f"Bearer {first.json()['key']}"}
        # Every worker knows the key, and none accepts the token any more: connections reach both of them.
        _until(lambda: "holdfast_workers 2.0" in httpx2.get(url + "/metrics", headers=admin, timeout=20).text)
        answers = {_create_key(url, token).status_code for _ in range(20)}
        assert answers == {401}
        assert {httpx2.get(url + "/api/keys", headers=admin).status_code for _ in range(20)} == {200}
        workers = _children(process.pid)
        # Nobody is left behind when the supervisor dies without a word.
        process.kill()
        process.wait(20)
        _until(lambda: not any(map(_alive, workers)))


def _create_key(url: str, token: str) -> httpx2.Response:
    body = {"name": "first", "roles": ["admin"]}
    return httpx2.post(url + "/api/keys", json=body, headers={"authorization": f"Bearer {token}"}, timeout=20)


def test_several_workers_on_sqlite_are_refused_with_a_reason(tmp_path: Path) -> None:
    refused = subprocess.run(
        [sys.executable, "-m", "app.main", "serve", "--port", "0", "--workers", "2", "--data-dir", str(tmp_path)],
        capture_output=True, text=True, env=clean_environment(), cwd=ROOT, check=False, timeout=100,
    )  # fmt: skip
    assert refused.returncode == 1
    assert refused.stderr.startswith("WORKERS_NEED_POSTGRES: 2 workers cannot share the SQLite database")
    assert "HOLDFAST_DATABASE_URL" in refused.stderr


def test_a_first_worker_that_cannot_start_ends_the_supervisor(postgres_server: PostgresServer, tmp_path: Path) -> None:
    asyncio.run(create_database(postgres_server, "workers_none"))
    command = [sys.executable, "-m", "app.main", "serve", "--port", "0", "--workers", "2"]
    command += ["--database-url", postgres_server.url("workers_none"), "--workspace", str(tmp_path / "absent")]
    more = {"HOLDFAST_SECRET_FILE": str(secret_file(tmp_path))}
    failed = subprocess.run(
        command, capture_output=True, text=True, env=clean_environment() | more, cwd=ROOT, check=False, timeout=60
    )
    assert failed.returncode == 1 and "WORKSPACE_INVALID" in failed.stderr and "WORKERS_FAILED" in failed.stderr
    assert "Traceback" not in failed.stderr
