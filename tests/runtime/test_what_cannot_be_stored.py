"""A run that says what no log can hold fails and says so; it is not begun again for ever."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from app.backends.contract import Context, Resume
from app.core.principal import DEFAULT_TENANT, LOCAL
from app.core.settings import Settings
from app.runtime.service import Submission
from app.views.run import Run
from app.wiring import open_holdfast

BROKEN = "half a character: \ud800"


class Sayer:
    kind = "echo"
    resume: Resume = "restart"

    def __init__(self, say: Callable[[Context], Awaitable[str]]) -> None:
        self._say = say

    async def run(self, ctx: Context) -> str:
        return await self._say(ctx)


async def ended(settings: Settings, say: Callable[[Context], Awaitable[str]]) -> Run:
    async with asyncio.timeout(20), open_holdfast(settings, backends={"echo": Sayer(say)}) as holdfast:
        submitted = await holdfast.service.submit(LOCAL, Submission("echo", "hello"))
        assert isinstance(submitted, Run)
        while True:
            await holdfast.executor.idle()
            run = await holdfast.store.reader.run(DEFAULT_TENANT, submitted.id)
            assert run is not None
            if run.terminal:
                return run


async def in_its_output(ctx: Context) -> str:
    return BROKEN


async def on_its_way(ctx: Context) -> str:
    await ctx.say("msg", BROKEN)
    return "done"


async def as_a_signal(ctx: Context) -> str:
    await ctx.emit("agent.thought", words=BROKEN)
    return "done"


@pytest.mark.parametrize("say", [in_its_output, on_its_way, as_a_signal])
async def test_a_run_that_says_what_cannot_be_stored_fails(
    settings: Settings, say: Callable[[Context], Awaitable[str]]
) -> None:
    run = await ended(settings, say)
    assert run.status == "failed" and run.error is not None and run.error["code"] == "JSON_UNENCODABLE"


async def test_a_piece_of_text_of_any_size_is_told_in_parts(settings: Settings) -> None:
    async def much(ctx: Context) -> str:
        await ctx.say("msg", "x" * 3_000_000)
        return "done"

    run = await ended(settings, much)
    assert run.status == "completed"
