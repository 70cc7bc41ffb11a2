"""Servers of the preceding version and of this one on one database, as in a rolling upgrade."""

import asyncio
import io
import os
import re
import subprocess
import sys
import tarfile
from pathlib import Path
from typing import Any, Final

import asyncpg
import httpx2
import pytest

from app.store.migrate import NEWEST
from tests.forks import run_holdfast
from tests.postgres import PostgresServer
from tests.server import ROOT, ServerProcess, clean_environment, secret_file

_MIGRATE: Final = "app/store/migrate.py"
_KNOWN: Final = re.compile(r'NEWEST: Final = "(\d+)"')


def _git(*arguments: str) -> bytes:
    return subprocess.run(["git", *arguments], cwd=ROOT, check=True, capture_output=True).stdout


def _preceding() -> str:
    """The newest commit whose version knows only an earlier revision. A migration may have been renumbered since."""
    try:
        shallow = _git("rev-parse", "--is-shallow-repository").strip() == b"true"
    except (OSError, subprocess.CalledProcessError):
        pytest.skip("this is not a git checkout, so the preceding version is not here")
    for commit in _git("log", "--format=%H", "--", _MIGRATE).decode().split():
        if (known := _KNOWN.search(_git("show", f"{commit}:{_MIGRATE}").decode())) is not None and known[1] < NEWEST:
            return commit
    assert shallow
    pytest.skip("this is a shallow clone without the preceding version: git fetch --unshallow")


@pytest.fixture(scope="module")
def old_code(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("preceding")
    with tarfile.open(fileobj=io.BytesIO(_git("archive", _preceding()))) as files:
        files.extractall(folder, filter="data")
    known = _KNOWN.search((folder / _MIGRATE).read_text())
    assert known is not None and known[1] < NEWEST
    return folder


class OldServer(ServerProcess):
    """The same command with the preceding version's code."""

    @classmethod
    def start_old(cls, code: Path, data_dir: Path, database_url: str) -> "OldServer":
        data_dir.mkdir(parents=True, exist_ok=True)
        errors = data_dir / "stderr.log"
        command = [sys.executable, "-P", "-m", "app.main", "serve", "--port", "0", "--data-dir", str(data_dir)]
        environment = clean_environment() | {
            "PYTHONPATH": str(code), "HOLDFAST_DATABASE_URL": database_url,
            "HOLDFAST_SECRET_FILE": str(secret_file(data_dir)),
        }  # fmt: skip
        with errors.open("ab") as sink:
            process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=sink, env=environment, cwd=code)
        assert process.stdout is not None
        server = cls(process, process.stdout, data_dir, errors)
        assert server._listening.wait(60) and server.url, server.errors()
        return server


@pytest.fixture
def database(postgres_server: PostgresServer) -> str:
    name = f"upgrade_{os.getpid()}"
    admin_url = postgres_server.url("postgres")

    async def create() -> None:
        admin = await asyncpg.connect(admin_url)
        await admin.execute(f"CREATE DATABASE {name}")
        await admin.close()

    asyncio.run(create())
    return postgres_server.url(name)


def _run(url: str, thread: str | None = None) -> dict[str, Any]:
    body = {"agent": "assistant", "input": "hello"} | ({"threadId": thread} if thread else {})
    answer = httpx2.post(url + "/api/runs", params={"wait": "20"}, json=body, timeout=40)
    assert answer.status_code == 200 and answer.json()["status"] == "completed", answer.text
    run: dict[str, Any] = answer.json()
    return run


def _assert_followed(working: str, following: str) -> None:
    """A run that one server works on, as a stream of the other."""
    body = {"agent": "assistant", "input": "hello"}
    run = httpx2.post(working + "/api/runs", json=body, timeout=20).json()
    stream = httpx2.get(f"{following}/api/runs/{run['id']}/stream", timeout=40).text
    seen = [int(line.removeprefix("id: ")) for line in stream.splitlines() if line.startswith("id: ")]
    stored = httpx2.get(f"{working}/api/runs/{run['id']}/events", params={"limit": 1000}, timeout=20).json()["items"]
    assert seen == [event["seq"] for event in stored], stream
    assert stored[-1]["type"] == "runtime.request.completed"


def _revision(url: str) -> str:
    async def look() -> str:
        connection = await asyncpg.connect(url)
        found: str = await connection.fetchval("SELECT version_num FROM alembic_version")
        await connection.close()
        return found

    return asyncio.run(look())


@pytest.mark.requirement("G20")
@pytest.mark.timeout(300)  # three servers, two of them with code that nobody has compiled yet
def test_the_preceding_version_goes_on_beside_this_one(old_code: Path, database: str, tmp_path: Path) -> None:
    old = OldServer.start_old(old_code, tmp_path / "old", database)
    try:
        before = _run(old.url)
        assert _revision(database) < NEWEST
        new = ServerProcess.start(tmp_path / "new", database)  # migrates while the old one serves
        try:
            assert _revision(database) == NEWEST
            # Each continues the other's thread and sees all of it.
            thread = before["threadId"]
            at_new, at_old = _run(new.url, thread), _run(old.url, thread)
            _run(new.url, _run(old.url)["threadId"])
            # They say to each other what is new: who follows a run at one sees it whole, whichever works on it.
            for here, there in ((old, new), (new, old)):
                _assert_followed(here.url, there.url)
            for server in (old, new):
                runs = httpx2.get(f"{server.url}/api/runs", params={"threadId": thread}, timeout=20).json()["items"]
                assert {run["id"] for run in runs} == {before["id"], at_new["id"], at_old["id"]}
            old.stop()
            # The database is of a newer version and supports this one: a rollback of one server works.
            old = OldServer.start_old(old_code, tmp_path / "old", database)
            _run(old.url, thread)
            verified = run_holdfast("log", "verify", thread, "--url", new.url, environment=clean_environment())
            assert verified.returncode == 0, verified.stderr + verified.stdout
        finally:
            new.stop()
    finally:
        old.stop()
