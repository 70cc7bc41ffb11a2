"""A thread with many runs: what the next one is given, what that costs, and that it is always the same."""

import shutil
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from app.backends.contract import Context, Resume
from app.core.principal import LOCAL
from app.core.resources import shipped
from app.core.settings import Settings
from app.events.envelope import Event
from app.runtime.intake.submission import Submission
from app.views.interrupt import Interrupt
from app.views.run import Run
from app.wiring.runtime import Holdfast, open_holdfast
from tests.faults.listening import PAUSES, Listener

SUMMING = """
apiVersion: holdfast/v1
kind: Model
metadata: {name: script}
spec:
  provider: scripted
  model: script
  capabilities: {streaming: true, tools: true}
  script:
    rules:
      - {match: {afterTool: publish}, reply: {text: "published"}}
      - {match: {contains: announce}, reply: {toolCalls: [{name: publish, args: {title: t, text: "x"}}]}}
    default: {text: "You said: {{ input }}"}
---
apiVersion: holdfast/v1
kind: Agent
metadata: {name: summing}
spec: {model: script, tools: [publish], contextPolicy: {strategy: summarise, maxMessages: 6, keepLast: 2}}
"""


class Remembering:
    """Says a few words, then answers with how much history it was given."""

    kind = "echo"
    resume: Resume = "restart"

    async def run(self, ctx: Context) -> str:
        for number in range(20):
            await ctx.say("m", f"{number} ")
        first = ctx.history[0]["content"] if ctx.history else "nothing"
        return f"{len(ctx.history)} from {first}"


async def _ended(holdfast: Holdfast, listener: Listener, agent: str, text: str) -> Run:
    wanted = Submission(agent, text, thread_id="thr_long", create_thread=True)
    run = await holdfast.service.submit(LOCAL, wanted)
    assert isinstance(run, Run), run
    await listener.until([run.id])
    found = await holdfast.store.reader.run("default", run.id)
    assert found is not None
    return found


Read = Callable[..., Awaitable[list[Event]]]


def _counted(read: Read, counts: list[int]) -> Read:
    async def counting(*arguments: Any) -> list[Event]:
        events = await read(*arguments)
        # Servers on Postgres also look at the ledger from time to time.
        counts.append(sum(event.thread_id == "thr_long" for event in events))
        return events

    return counting


async def test_the_next_run_of_a_long_thread_reads_what_came_since_the_last(settings: Settings) -> None:
    counts: list[int] = []
    async with open_holdfast(settings, backends={"echo": Remembering()}) as holdfast:
        listener, reader = Listener(holdfast.store.hub), holdfast.store.reader
        for name in ("events", "events_of", "run_events"):
            setattr(reader, name, _counted(getattr(reader, name), counts))
        read: list[int] = []
        for number in range(1, 31):
            counts.clear()
            over = await _ended(holdfast, listener, "echo", f"run {number}")
            expected = f"{2 * (number - 1)} from " + ("run 1" if number > 1 else "nothing")
            assert over.output == expected
            read.append(sum(counts))
        assert len(set(read[3:])) == 1, f"every run costs the same: {read}"
        assert read[-1] < 10, "the words of the answers are not read"


async def test_a_server_that_just_started_gives_a_run_the_same_history_as_one_that_kept_it(settings: Settings) -> None:
    for number in range(1, 4):
        async with open_holdfast(settings, backends={"echo": Remembering()}) as holdfast:
            over = await _ended(holdfast, Listener(holdfast.store.hub), "echo", f"run {number}")
            assert over.output == f"{2 * (number - 1)} from " + ("run 1" if number > 1 else "nothing")


@pytest.mark.requirement("G4", "G5")
@pytest.mark.parametrize("restarted", [False, True])
async def test_a_run_that_summed_up_its_thread_goes_on_after_an_answer_with_what_it_was_given(
    settings: Settings, tmp_path: Path, restarted: bool
) -> None:
    root = tmp_path / "workspace"
    shutil.copytree(shipped("workspaces") / "demo", root)
    (root / "agents" / "summing.yaml").write_text(SUMMING)
    settings = settings.model_copy(update={"workspace": root})

    async def go_on(holdfast: Holdfast, listener: Listener) -> None:
        yes = await holdfast.interrupts.answer(LOCAL, asked, {"decision": "approve"})
        assert isinstance(yes, Interrupt)
        await listener.until([run.id])
        over = await holdfast.store.reader.run("default", run.id)
        assert over is not None and (over.error, over.output) == (None, "published")
        after = await _ended(holdfast, listener, "summing", "hello again")
        assert after.error is None

    async with open_holdfast(settings) as holdfast:
        listener = Listener(holdfast.store.hub)
        for number in range(3):
            await _ended(holdfast, listener, "summing", f"hello {number}")
        found = await holdfast.service.submit(LOCAL, Submission("summing", "announce it", thread_id="thr_long"))
        assert isinstance(found, Run)
        run = found
        await listener.until([run.id], PAUSES)
        assert "runtime.context.compacted" in listener.types(run.id)
        asked = listener.interrupt(run.id)
        if not restarted:
            await go_on(holdfast, listener)
    if restarted:
        async with open_holdfast(settings) as holdfast:
            await go_on(holdfast, Listener(holdfast.store.hub))
