"""`holdfast log` next to a running server, which it finds by the data folder; and as a process of its own."""

import asyncio
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import httpx2
import pytest

from tests.cli.conftest import SMALL, THREAD, Holdfast
from tests.server import ROOT, ServerProcess, clean_environment


@pytest.fixture(scope="module")
def server(filled: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    folder = tmp_path_factory.mktemp("serving") / "data"
    shutil.copytree(filled, folder)
    server = ServerProcess.start(folder)
    yield server
    server.stop()


def _process(*arguments: str) -> "subprocess.Popen[str]":
    return subprocess.Popen(
        [sys.executable, "-m", "app.main", *arguments],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=clean_environment(), cwd=ROOT,
    )  # fmt: skip


@pytest.mark.requirement("OS-L4", "G19", "G22")
@pytest.mark.parametrize(
    "arguments",
    [
        ("export", THREAD),
        ("export", THREAD, "--format", "agent-os"),
        ("verify",),
        ("replay", THREAD),
        ("tail", THREAD, "--after", "3"),
    ],
    ids=" ".join,
)
def test_a_running_server_answers_like_its_database(
    holdfast: Holdfast, server: ServerProcess, data_dir: Path, arguments: tuple[str, ...]
) -> None:
    from_server = holdfast("log", *arguments, "--data-dir", server.data_dir)
    from_database = holdfast("log", *arguments, "--data-dir", data_dir)
    assert (from_server.exit_code, from_server.stderr) == (0, "")
    assert from_server.stdout_bytes == from_database.stdout_bytes


@pytest.mark.parametrize("command", ["export", "verify", "replay", "tail"])
def test_an_unknown_thread_of_a_server_is_an_error_with_its_remedy(
    holdfast: Holdfast, server: ServerProcess, command: str
) -> None:
    result = holdfast("log", command, "thr/no?where", "--data-dir", server.data_dir)
    assert (result.exit_code, result.stdout) == (1, "")
    assert result.stderr.splitlines()[0].partition(":")[0] in ("THREAD_NOT_FOUND", "NOT_FOUND")


@pytest.mark.timeout(60)
def test_following_an_unknown_thread_is_an_error(holdfast: Holdfast, server: ServerProcess) -> None:
    result = holdfast("log", "tail", "-f", "thr_nowhere", "--data-dir", server.data_dir)
    assert (result.exit_code, result.stderr.startswith("THREAD_NOT_FOUND: ")) == (1, True)


def test_an_import_next_to_a_running_server_is_refused(
    holdfast: Holdfast, server: ServerProcess, tmp_path: Path
) -> None:
    holdfast("log", "export", SMALL, "-o", tmp_path / "out.jsonl", "--data-dir", server.data_dir)
    result = holdfast("log", "import", tmp_path / "out.jsonl", "--data-dir", server.data_dir)
    assert (result.exit_code, result.stderr.startswith("DATA_DIR_LOCKED: ")) == (1, True)


def test_a_server_that_does_not_answer_is_one_line(holdfast: Holdfast, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOLDFAST_URL", "http://127.0.0.1:1")
    result = holdfast("log", "verify")
    assert (result.exit_code, result.stderr.startswith("NOT_READY: ")) == (1, True)


@pytest.mark.smoke
@pytest.mark.requirement("CARD-1", "OS-L4")
def test_the_command_works_as_a_process_of_its_own(holdfast: Holdfast, data_dir: Path, tmp_path: Path) -> None:
    exporting = _process("log", "export", THREAD, "--data-dir", str(data_dir))
    out, err = exporting.communicate(timeout=60)
    assert (exporting.returncode, err) == (0, "")
    (tmp_path / "out.jsonl").write_text(out, encoding="utf-8")
    verified = holdfast("log", "verify", tmp_path / "out.jsonl", "--data-dir", tmp_path / "empty")
    assert (verified.exit_code, "11 events, chain intact" in verified.stdout) == (0, True)


@pytest.mark.requirement("PX-1", "G15")
async def test_following_prints_only_its_thread_as_it_grows_and_ends_with_the_server(
    filled: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "data"
    shutil.copytree(filled, folder)
    async with ServerProcess.running(folder) as server:
        tail = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "app.main", "log", "tail", "-f", SMALL, "--data-dir", str(folder),
            stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE, env=clean_environment(), cwd=ROOT,
        )  # fmt: skip
        assert tail.stdout is not None and tail.stderr is not None
        seen = [await asyncio.wait_for(tail.stdout.readline(), 30)]
        async with httpx2.AsyncClient(base_url=server.url, timeout=20, verify=False) as client:
            for thread_id in (THREAD, SMALL):
                body = {"agent": "echo", "input": "a b", "threadId": thread_id}
                run = (await client.post("/api/runs", params={"wait": 15}, json=body)).json()
        while len(seen) < run["lastSeq"]:
            seen.append(await asyncio.wait_for(tail.stdout.readline(), 30))
        assert [int(line.split()[0]) for line in seen] == list(range(1, run["lastSeq"] + 1))
        os.kill(server.pid, signal.SIGTERM)
        assert await asyncio.wait_for(tail.wait(), 30) == 1
        assert (await tail.stderr.read()).decode().startswith("NOT_READY: The server closed the stream")
        await asyncio.to_thread(server.wait)
