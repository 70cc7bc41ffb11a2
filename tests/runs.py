"""Runs of a Holdfast in the test's own loop: opened on a workspace, submitted, followed to an event or to their end.

Leaves to others: the same over HTTP (`tests.clients`) and the workspaces, which each test writes itself.
"""

import asyncio
from collections.abc import AsyncIterator, Iterable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from app.core.principal import LOCAL
from app.core.settings import Settings
from app.events.catalog import request
from app.events.envelope import Event
from app.events.follow import follow
from app.runtime.intake.submission import Submission
from app.views.interrupt import Interrupt
from app.views.run import Run
from app.wiring.runtime import Holdfast, open_holdfast
from tests.store_equals_replay import assert_tables_equal_replay


@asynccontextmanager
async def opened(settings: Settings, workspace: Path, **more: Any) -> AsyncIterator[Holdfast]:
    """Holdfast on that workspace; in the end its tables must equal a replay of its log."""
    async with open_holdfast(settings.model_copy(update={"workspace": workspace}), **more) as holdfast:
        yield holdfast
        await assert_tables_equal_replay(holdfast.store)


async def submit(holdfast: Holdfast, agent: str | None, text: Any, thread_id: str | None = None, **more: Any) -> Run:
    run = await holdfast.service.submit(LOCAL, Submission(agent, text, thread_id=thread_id, **more))
    assert isinstance(run, Run), run
    return run


async def events_until(holdfast: Holdfast, run: Run, *types: str) -> list[Event]:
    """The run's events up to the first of these types, or up to its end."""
    seen: list[Event] = []
    store = holdfast.store
    async with asyncio.timeout(30):
        async for batch in follow(store.hub, store.reader.events, "default", run.thread_id, run.first_seq - 1):
            for event in batch:
                if event.run_id == run.id:
                    seen.append(event)
                    if event.type in (types or request.TERMINAL):
                        return seen
    raise AssertionError("the stream ended")


def is_delta(event: Event) -> bool:
    """Whether it is a piece of an answer."""
    return event.type == "runtime.adapter.event" and event.payload["event"]["phase"] == "agent.output.delta"


async def until_said(holdfast: Holdfast, run: Run) -> None:
    """Returns when the run has said the first of its answer."""
    store = holdfast.store
    async with asyncio.timeout(30):
        async for batch in follow(store.hub, store.reader.events, "default", run.thread_id, run.first_seq - 1):
            if any(event.run_id == run.id and is_delta(event) for event in batch):
                return
    raise AssertionError("the stream ended")


async def ended(holdfast: Holdfast, run: Run) -> Run:
    """The run as it is stored after its end."""
    await events_until(holdfast, run)
    found = await holdfast.store.reader.run("default", run.id)
    assert found is not None
    return found


async def waiting(holdfast: Holdfast, run: Run) -> Interrupt:
    """What the run waits for first."""
    events = await events_until(holdfast, run, "runtime.interrupt.raised")
    found = await holdfast.store.reader.interrupt("default", events[-1].payload["interruptId"])
    assert found is not None
    return found


def payloads(events: Iterable[Event], suffix: str) -> list[dict[str, Any]]:
    """Of the events of type `runtime.<suffix>`."""
    return [event.payload for event in events if event.type == f"runtime.{suffix}"]
