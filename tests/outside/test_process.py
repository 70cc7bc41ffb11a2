"""Programs in the sandbox, and what they try. Each test ends with the server's process alive and no other left."""

import asyncio
import os
import sys
from pathlib import Path

import pytest
import uvloop

from app.outside import process
from app.outside.files import Rooted, Written, hash_of
from app.outside.process import Finished, ProcessError, ProcessLimits, Program, run

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the sandbox is Linux's")


async def python(
    tmp_path: Path, code: str, *, limits: ProcessLimits = ProcessLimits(wall_seconds=20), grace: float = 10
) -> Finished:
    argv = [sys.executable, "-I", "-S", "-c", code]
    return await run(Program(argv, tmp_path, limits=limits), grace=grace)


def alive(marker: str) -> list[int]:
    found = []
    for name in os.listdir("/proc"):
        if name.isdigit() and int(name) != os.getpid():
            try:
                words = Path(f"/proc/{name}/cmdline").read_bytes().split(b"\0")
            except OSError:
                continue
            if words[-2:-1] and marker.encode() in words[-2] and b"argv" not in words[-2]:
                found.append(int(name))
    return found


def test_a_program_that_is_gone_before_its_input_is_written_has_still_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On the server's own event loop, whose pipes raise when they are written to after the other side closed them."""
    spawn = process._spawn

    async def spawn_and_wait(*ends: process._End) -> asyncio.subprocess.Process:
        started = await spawn(*ends)
        assert started.stdin is not None
        async with asyncio.timeout(30):
            while not started.stdin.is_closing():  # noqa: ASYNC110  # the loop itself notices, and notifies nobody
                await asyncio.sleep(0.005)
        return started

    monkeypatch.setattr(process, "_spawn", spawn_and_wait)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        finished = runner.run(run(Program([sys.executable, "-I", "-S", "-c", "print(1)"], tmp_path, b"unread")))
        assert (finished.status, finished.stdout) == (0, b"1\n")
        assert runner.run(process.probe()).uses


async def test_a_program_reads_its_input_and_its_output_and_status_come_back(tmp_path: Path) -> None:
    program = Program([sys.executable, "-I", "-S", "-c", "import sys; print(input()); sys.exit(3)"], tmp_path, b"hi\n")
    finished = await run(program)
    assert (finished.status, finished.stdout) == (3, b"hi\n")


@pytest.mark.requirement("S15")
@pytest.mark.parametrize(("size", "too_large"), [(1000, False), (1001, True)])
async def test_output_that_ends_just_over_the_limit_is_not_taken_for_all_of_it(
    tmp_path: Path, size: int, too_large: bool
) -> None:
    finished = await python(tmp_path, f"print('x' * {size}, end='')", limits=ProcessLimits(output_bytes=1000))
    assert (finished.too_large, len(finished.stdout)) == (too_large, 1000)


@pytest.mark.requirement("S15", "G21")
async def test_the_environment_is_scrubbed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("API_TOKEN", "secret")
    finished = await python(tmp_path, "import os; print(sorted(os.environ))")
    assert b"API_TOKEN" not in finished.stdout
    assert b"'PATH'" in finished.stdout


@pytest.mark.requirement("S15")
async def test_files_outside_the_sandbox_cannot_be_read_or_written(tmp_path: Path) -> None:
    secret = tmp_path / "secret"
    secret.write_text("outside")
    inside = tmp_path / "work"
    inside.mkdir()
    for code in (
        f"open({str(secret)!r}).read()",
        f"open({str(secret)!r}, 'w')",
        "open('/etc/passwd').read()",
        f"import os; os.symlink({str(secret)!r}, 'link'); open('link').read()",
        "import os; os.listdir('/proc/1')",
        f"import os; os.kill({os.getpid()}, 9)",
    ):
        finished = await python(inside, code)
        assert finished.status == 1, code
        refusals = (b"PermissionError", b"FileNotFoundError", b"ProcessLookupError", b"Read-only")
        assert any(refusal in finished.stderr for refusal in refusals), finished.stderr
    assert secret.read_text() == "outside"
    assert (await python(inside, "open('own', 'w').write('x'); print(open('own').read())")).stdout == b"x\n"


@pytest.mark.requirement("S15")
async def test_the_network_is_out_of_reach(tmp_path: Path) -> None:
    accepted = asyncio.Event()
    server = await asyncio.start_server(lambda _r, _w: accepted.set(), "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]
    finished = await python(tmp_path, f"import socket; socket.create_connection(('127.0.0.1', {port}), 2)")
    server.close()
    assert finished.status == 1
    assert not accepted.is_set()


@pytest.mark.requirement("S15")
async def test_an_endless_loop_ends_with_its_time(tmp_path: Path) -> None:
    finished = await python(tmp_path, "while True: pass", limits=ProcessLimits(wall_seconds=0.3))
    assert finished.timed_out


@pytest.mark.requirement("S15")
async def test_a_program_that_ignores_the_request_to_end_is_killed(tmp_path: Path) -> None:
    code = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('x', flush=True); time.sleep(99)"
    finished = await python(tmp_path, code, limits=ProcessLimits(wall_seconds=0.3))
    assert finished.timed_out
    assert finished.status != 0


@pytest.mark.requirement("S15")
async def test_cpu_time_is_limited(tmp_path: Path) -> None:
    finished = await python(tmp_path, "while True: pass", limits=ProcessLimits(wall_seconds=20, cpu_seconds=1))
    assert not finished.timed_out
    assert finished.status > 128


@pytest.mark.requirement("S15")
async def test_memory_is_limited(tmp_path: Path) -> None:
    finished = await python(tmp_path, "x = bytearray(10**9)", limits=ProcessLimits(memory_bytes=256 * 1024 * 1024))
    assert b"MemoryError" in finished.stderr


@pytest.mark.requirement("S15")
async def test_endless_output_is_cut_off_and_the_program_killed(tmp_path: Path) -> None:
    finished = await python(tmp_path, "while True: print('x' * 1000)", limits=ProcessLimits(output_bytes=10_000))
    assert finished.too_large
    assert len(finished.stdout) == 10_000


@pytest.mark.requirement("S15")
async def test_a_fork_bomb_stays_within_its_limit_and_is_cleared_away(tmp_path: Path) -> None:
    marker = "fork-bomb-4711"
    code = f"'{marker}'\nimport os, time\nwhile True:\n    try: os.fork()\n    except OSError: time.sleep(0.01)"
    finished = await python(tmp_path, code, limits=ProcessLimits(wall_seconds=1, processes=12))
    assert finished.timed_out
    assert alive(marker) == []


@pytest.mark.requirement("S15")
async def test_a_process_that_leaves_the_group_is_killed_with_the_others(tmp_path: Path) -> None:
    marker = "daemon-4712"
    code = (
        f"'{marker}'\nimport os, time\nif os.fork() == 0:\n    os.setsid()\n    if os.fork() == 0: time.sleep(99)\n"
        "    os._exit(0)\ntime.sleep(0.2)"
    )
    await python(tmp_path, code)
    assert alive(marker) == []


@pytest.mark.requirement("G8")
async def test_a_cancelled_run_kills_its_program_after_the_grace(tmp_path: Path) -> None:
    marker = "stubborn-4713"
    ready = tmp_path / "ready"
    code = (
        f"'{marker}'\nimport signal, time\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        f"open('ready', 'w').close()\ntime.sleep(99)"
    )
    work = asyncio.create_task(python(tmp_path, code, grace=0.2))
    async with asyncio.timeout(30):
        while not ready.exists():  # noqa: ASYNC110  # the event is a file of another process
            await asyncio.sleep(0.01)
    assert alive(marker)
    work.cancel()
    with pytest.raises(asyncio.CancelledError):
        await work
    assert alive(marker) == []


async def test_a_program_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ProcessError):
        await run(Program(["no-such-program-4714"], tmp_path))


@pytest.mark.requirement("G13")
async def test_runs_that_fail_or_are_cancelled_leave_no_descriptor(tmp_path: Path) -> None:
    program = Program([sys.executable, "-I", "-S", "-c", "import time; time.sleep(99)"], tmp_path)
    before = len(os.listdir("/proc/self/fd"))
    for rest in range(6):
        work = asyncio.create_task(run(program, grace=0.1))
        for _ in range(rest * 3):
            await asyncio.sleep(0)  # into another moment of the start each time
        work.cancel()
        with pytest.raises(asyncio.CancelledError):
            await work
    with pytest.raises(ProcessError):
        await run(Program(["/dev/null/x"], tmp_path))
    (tmp_path / "no-program").write_bytes(b"\0\1\2")
    (tmp_path / "no-program").chmod(0o755)
    with pytest.raises(ProcessError):
        await run(Program(["./no-program"], tmp_path))
    async with asyncio.timeout(30):
        while len(os.listdir("/proc/self/fd")) > before:  # noqa: ASYNC110  # transports close in the loop's own time
            await asyncio.sleep(0.01)


@pytest.mark.requirement("S15")
async def test_a_folder_that_is_kept_is_shared_with_the_server_and_growth_in_it_is_bounded(tmp_path: Path) -> None:
    data, work = tmp_path / "data", tmp_path / "work"
    out = data / "files" / "out"
    out.mkdir(parents=True)
    work.mkdir()
    (out / "before").write_text("old")
    (data / "holdfast.db").write_text("the log")
    code = (
        "import os; open(os.environ['OUT'] + '/before', 'a').write(' and new'); open(os.environ['OUT'] + '/made', 'w')"
    )
    limits = ProcessLimits(disk_files=500)
    for text, full in (
        (code, False),
        (code, False),
        (f"{code}\nfor n in range(10**6): open(os.environ['OUT'] + f'/{{n}}', 'w')", True),
    ):
        program = Program(
            [sys.executable, "-I", "-S", "-c", text], work, env={"OUT": str(out)}, write=[out], hidden=[data],
            limits=limits, scratch=True,
        )  # fmt: skip
        finished = await run(program)
        assert (finished.disk_full, finished.stderr) == (full, b"")
    assert (out / "before").read_text() == "old and new and new and new"
    assert (out / "made").exists()
    assert Rooted(out).replace("by/server", b"x", "") == Written("by/server", hash_of(b"x"), 1)
    assert (out / "by" / "server").stat().st_uid == out.stat().st_uid == (out / "made").stat().st_uid
