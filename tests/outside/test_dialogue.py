"""Programs that are talked to in lines: what they may say, and that they end."""

import asyncio
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import uvloop

from app.outside.dialogue import Dialogue, LineTooLong
from app.outside.process import ProcessError


@asynccontextmanager
async def talking(code: str, **options: int) -> AsyncIterator[Dialogue]:
    talk = await Dialogue.start([sys.executable, "-I", "-S", "-u", "-c", code], {}, **options)
    try:
        async with asyncio.timeout(30):
            yield talk
    finally:
        await talk.end()


def runs(pid: int) -> bool:
    """A zombie that nobody has reaped yet does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


ECHO = "import sys\nfor line in sys.stdin: print(line.strip()[::-1])"


async def test_a_line_is_answered_by_a_line_and_the_program_ends_with_its_input() -> None:
    async with talking(ECHO) as talk:
        lines = talk.lines()
        await talk.send(b"abc")
        assert await anext(lines) == b"cba"
        await talk.send(b"x" * 200_000)
        assert await anext(lines) == b"x" * 200_000
        assert not talk.broken_off
        await lines.aclose()
    assert talk.status == 0


async def test_a_line_may_have_the_limit_and_no_more() -> None:
    async with talking("print('x' * 1000); print('x' * 1001)", max_line=1000) as talk:
        lines = talk.lines()
        assert await anext(lines) == b"x" * 1000
        with pytest.raises(LineTooLong):
            await anext(lines)
        assert talk.broken_off


async def test_a_line_that_never_ends_is_given_up_at_the_limit() -> None:
    async with talking("while True: print('x' * 1000, end='')", max_line=100_000) as talk:
        with pytest.raises(LineTooLong):
            await anext(talk.lines())
        await talk.end(courtesy=0.0)
        assert talk.status is not None


async def test_of_its_log_only_the_end_is_kept() -> None:
    code = "import sys; sys.stderr.write('x' * 1_000_000 + 'the end'); print()"
    async with talking(code) as talk:
        await anext(talk.lines())
        await talk.end()
        assert talk.log.endswith("the end")
        assert len(talk.log) == 8 * 1024


async def test_a_program_that_ignores_its_end_is_killed_with_its_children() -> None:
    code = (
        "import os, signal, time\nsignal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        "child = os.fork()\nif child: print(child)\ntime.sleep(60)"
    )
    async with talking(code) as talk:
        child = int(await anext(talk.lines()))
        await talk.end(courtesy=0.0)
        assert talk.status == -signal.SIGKILL
        assert not runs(child)


async def test_a_program_that_does_not_exist_is_an_error_with_a_code() -> None:
    with pytest.raises(ProcessError, match="could not be started"):
        await Dialogue.start(["no-such-program-4715"], {})


async def talk_on(talk: Dialogue) -> None:
    while True:
        await talk.send(b"anybody?")
        await asyncio.sleep(0)


def test_a_program_that_no_longer_reads_is_a_connection_error_on_the_servers_own_loop() -> None:
    async def talk_to_the_deaf() -> None:
        async with talking("import os; os.close(0); print('closed'); input()") as talk:
            lines = talk.lines()
            await anext(lines)
            with pytest.raises(ConnectionError):
                await talk_on(talk)
            await lines.aclose()

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(talk_to_the_deaf())
