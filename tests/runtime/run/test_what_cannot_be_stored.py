"""A run that says what no log can hold fails and says so; it is not begun again for ever."""

import asyncio
import shutil
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from app.backends.contract import Context, Resume
from app.core.principal import DEFAULT_TENANT, LOCAL
from app.core.resources import shipped
from app.core.settings import Settings
from app.events.catalog.model import ModelCompleted
from app.events.catalog.request import RequestFailed
from app.runtime.intake.submission import Submission
from app.views.run import Run
from app.wiring.runtime import open_holdfast

ASKED = """
apiVersion: holdfast/v1
kind: Model
metadata: {name: asked}
spec: {provider: scripted, model: asked, capabilities: {streaming: true}, script: {default: {text: "an answer"}}}
---
apiVersion: holdfast/v1
kind: Agent
metadata: {name: asker}
spec: {model: asked}
"""
BROKEN = "half a character: \ud800"


class Sayer:
    kind = "echo"
    resume: Resume = "restart"

    def __init__(self, say: Callable[[Context], Awaitable[str]]) -> None:
        self._say = say

    async def run(self, ctx: Context) -> str:
        return await self._say(ctx)


async def ended(settings: Settings, say: Callable[[Context], Awaitable[str]]) -> Run:
    async with asyncio.timeout(30), open_holdfast(settings, backends={"echo": Sayer(say)}) as holdfast:
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


async def test_an_answer_that_was_ready_is_kept_when_what_follows_cannot_be_stored(
    settings: Settings, tmp_path: Path
) -> None:
    class Asker:
        kind = "native"
        resume: Resume = "replay"

        async def run(self, ctx: Context) -> str:
            answer = await ctx.call_model([{"role": "user", "content": "hello"}])
            await ctx.emit("agent.thought", words=BROKEN)
            return answer.text

    root = tmp_path / "workspace"
    shutil.copytree(shipped("workspaces") / "demo", root)
    (root / "models" / "asked.yaml").write_text(ASKED)
    chosen = settings.model_copy(update={"workspace": root})
    async with asyncio.timeout(30), open_holdfast(chosen, backends={"native": Asker()}) as holdfast:
        run = await holdfast.service.submit(LOCAL, Submission("asker", "hello"))
        assert isinstance(run, Run)
        await holdfast.executor.idle()
        events = await holdfast.store.reader.run_events(DEFAULT_TENANT, run.id, 0, 100)
    assert [event.type for event in events][-2:] == [ModelCompleted.type, RequestFailed.type]


async def test_a_piece_of_text_of_any_size_is_recorded_in_parts(settings: Settings) -> None:
    async def much(ctx: Context) -> str:
        await ctx.say("msg", "x" * 3_000_000)
        return "done"

    run = await ended(settings, much)
    assert run.status == "completed"
