"""Strict reruns: what was recorded may come in the order that parallel branches take, and nothing else may come."""

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from app.backends.contract import CallRequest, Context
from app.core.principal import LOCAL
from app.core.settings import Settings
from app.models.contract import Batch, ProviderCall
from app.models.kinds.scripted import Scripted
from app.runtime.intake.reruns import RerunRequest
from app.views.run import Run
from app.wiring.runtime import Holdfast
from tests.runs import ended, events_until, opened, payloads, submit
from tests.runtime.run.probing import Probe, answer, effects, open_interrupts, signals, with_native, write

TOGETHER = """
import asyncio
from pathlib import Path

FILE, BRANCHES = Path({path!r}), asyncio.Barrier(3)

async def note(what: str) -> dict:
    if what != "last":
        await BRANCHES.wait()
    with FILE.open("a") as lines:
        lines.write(what + "\\n")
    return {{"kept": what}}

def publish(at: str) -> str:
    return at
"""
"""Branches whose calls are all begun before the first of them ends."""


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    """SQLite is enough here: what differs between databases is the store's, and tested there."""
    return Settings(data_dir=tmp_path / "data")


@pytest.fixture
def space(tmp_path: Path) -> Path:
    return write(tmp_path)


async def strictly(holdfast: Holdfast, run: Run) -> Run:
    token = await holdfast.reruns.signed_token(LOCAL, run.id)
    assert isinstance(token, str)
    again = await holdfast.reruns.rerun(LOCAL, run.id, RerunRequest(token=token))
    assert isinstance(again, Run), again
    return again


def noting(what: str) -> CallRequest:
    return CallRequest(f"note-{what}", "note", {"what": what})


@pytest.mark.requirement("HK-27", "PX-2", "SH-10")
async def test_branches_of_a_strict_rerun_may_begin_in_any_order(
    settings: Settings, space: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (space / "witness.py").write_text(TOGETHER.format(path=str(tmp_path / "effects")))
    answer_alone, branches = Scripted.stream, asyncio.Barrier(3)

    async def answer_together(provider: Scripted, call: ProviderCall) -> AsyncGenerator[Batch, None]:
        await branches.wait()  # no branch has its answer before all of them have asked
        async for batch in answer_alone(provider, call):
            yield batch

    monkeypatch.setattr(Scripted, "stream", answer_together)
    names = ["a", "b", "c"]

    async def branch(ctx: Context, name: str) -> str:
        said = await ctx.call_model([{"role": "user", "content": f"branch {name}"}])
        (made,) = await ctx.call_tools([noting(name)])
        return f"{said.text} {made.output['kept']}"

    async def act(ctx: Context) -> str:
        made = await asyncio.gather(*(branch(ctx, name) for name in names))
        names.reverse()
        await ctx.call_tools([noting("last")])
        return ", ".join(sorted(made))

    async with opened(settings, space, backends=with_native(Probe(act))) as holdfast:
        run = await ended(holdfast, await submit(holdfast, "probe", "go"))
        again = await strictly(holdfast, run)
        over = await ended(holdfast, again)
        assert (over.error, over.output, names) == (None, run.output, ["a", "b", "c"])
        assert sorted(effects(tmp_path)) == sorted(["a", "b", "c", "last"] * 2)
        replay = (await events_until(holdfast, again))[0].payload["replay"]
        assert len(replay["prompts"]) == 3 and replay["after"] == [0, 0, 0, 3]


Act = Callable[[Context], Awaitable[None]]


async def another_argument(ctx: Context) -> None:
    await ctx.call_tools([noting("something else")])


async def one_call_more(ctx: Context) -> None:
    await ctx.call_tools([noting("first")])
    await ctx.call_tools([noting("second")])
    await ctx.call_tools([CallRequest("more", "note", {"what": "second"})])


async def another_order(ctx: Context) -> None:
    await ctx.call_tools([noting("second")])


async def another_step(ctx: Context) -> None:
    async def never() -> None:
        raise AssertionError("a step that was not recorded must not run")

    await ctx.call_tools([noting("first")])
    await ctx.call_tools([noting("second")])
    await ctx.step("step", "keyed", never, tool="theirs", args={"n": 2})


async def another_prompt(ctx: Context) -> None:
    await ctx.call_model([{"role": "user", "content": "something else"}])


@pytest.mark.requirement("HK-27", "SH-10")
@pytest.mark.parametrize(
    ("differently", "done"),
    [
        (another_argument, []),
        (one_call_more, ["first", "second"]),
        (another_order, []),
        (another_step, ["first", "second"]),
        (another_prompt, []),
    ],
)
async def test_a_strict_rerun_refuses_what_matches_nothing_and_does_not_do_it(
    settings: Settings, space: Path, tmp_path: Path, differently: Act, done: list[str]
) -> None:
    async def stepping() -> str:
        return "stepped"

    async def recorded(ctx: Context) -> None:
        await ctx.call_model([{"role": "user", "content": "hello"}])
        await ctx.call_tools([noting("first")])
        await ctx.call_tools([noting("second")])
        await ctx.step("step", "keyed", stepping, tool="theirs", args={"n": 1})

    entries = iter([recorded, differently])

    async def act(ctx: Context) -> str:
        await next(entries)(ctx)
        return "done"

    async with opened(settings, space, backends=with_native(Probe(act))) as holdfast:
        run = await ended(holdfast, await submit(holdfast, "probe", "go"))
        assert run.output == "done" and effects(tmp_path) == ["first", "second"]
        over = await ended(holdfast, await strictly(holdfast, run))
        assert over.error is not None and over.error["code"] == "REPLAY_MISMATCH", over.error
        assert effects(tmp_path) == ["first", "second", *done]


@pytest.mark.requirement("HK-27", "SH-10", "G4")
@pytest.mark.parametrize("differs", ["model", "signal", "question"])
async def test_a_strict_rerun_that_resumes_must_ask_what_it_asked_before(
    settings: Settings, space: Path, differs: str
) -> None:
    """On a run of its own the same is a new call: only a strict rerun ends."""
    entered = 0

    async def act(ctx: Context) -> str:
        nonlocal entered
        entered += 1
        new: dict[str, Any] = {differs: f" {entered}"} if entered % 2 == 0 else {}
        said = await ctx.call_model([{"role": "user", "content": f"hello{new.get('model', '')}"}])
        await ctx.emit("agent.node.completed", node=f"n{new.get('signal', '')}")
        await ctx.ask("Go on?", [{"id": "a", "question": f"Really{new.get('question', '')}?"}])
        return said.text

    async with opened(settings, space, backends=with_native(Probe(act))) as holdfast:
        run = await submit(holdfast, "probe", "go")
        (asked,) = await open_interrupts(holdfast, run)
        await answer(holdfast, asked.id, {"answers": {"a": "yes"}})
        if differs == "question":  # a new one, because the answered one was another
            (asked,) = await open_interrupts(holdfast, run)
            await answer(holdfast, asked.id, {"answers": {"a": "yes"}})
        over, events = await ended(holdfast, run), await events_until(holdfast, run)
        assert over.status == "completed"
        assert len(payloads(events, "model.completed")) == (2 if differs == "model" else 1)
        assert len(signals(events, "agent.node.completed")) == (2 if differs == "signal" else 1)
        entered = 0
        again = await strictly(holdfast, run)
        (asked,) = await open_interrupts(holdfast, again)
        await answer(holdfast, asked.id, {"answers": {"a": "yes"}})
        over = await ended(holdfast, again)
        assert over.error is not None and over.error["code"] == "BACKEND_NOT_DETERMINISTIC", over.error
