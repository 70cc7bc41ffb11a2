"""`kill -9` where a graph stops for its client, at a breakpoint and at an `interrupt()`: after a restart the unmodified
`langgraph-sdk` resumes it with a command, and each effect happens once."""

import asyncio
import itertools
from pathlib import Path
from typing import Any, Final

import pytest
from langgraph_sdk import get_client
from langgraph_sdk.client import LangGraphClient

from app.core.settings import Settings
from app.events.catalog.interrupt import InterruptRaised, InterruptResolved
from app.wiring.store import open_store
from tests.adapters.own_graph import effects_of, write_own
from tests.faults import doomed
from tests.faults.doomed import Point, Server, server
from tests.faults.test_run_kills import end_leases
from tests.store_equals_replay import assert_tables_equal_replay

pytestmark = pytest.mark.requirement("SH-22", "G4", "G5", "G9")

ENDS_WITHIN: Final = 120.0
MOST_COMMITS: Final = 80
"""Of one run; far more than there are."""
QUICK: Final = (
    ("after", InterruptRaised.type, 1),  # it stops at the breakpoint
    ("after", InterruptResolved.type, 1),  # and was just told to go on
    ("after", InterruptRaised.type, 2),  # the graph asks
    ("before", InterruptResolved.type, 2),  # and its answer is lost
)

doomed.preload("app.backends.kinds.langgraph.session", "app.protocols.langgraph.router")


class Insisting:
    """A client that sees its runs to their ends, whatever becomes of the server: it knows the ids of its threads.

    Asked whether a call that was cut off took effect, it looks.
    """

    def __init__(self, folder: Path) -> None:
        self.threads: list[str] = []
        self._folder = folder

    async def see_through(self, client: LangGraphClient, thread: str) -> Any:
        """Begins the run if nobody did, and goes on with it wherever it stopped."""
        runs = await client.runs.list(thread)
        if not runs:
            given: Any = {"messages": [{"role": "user", "content": thread}]}
            runs = [await client.runs.create(thread, "own", input=given, interrupt_after=["think"])]
        values: Any = await client.runs.join(thread, runs[0]["run_id"])
        while (found := await client.threads.get(thread))["status"] != "idle":
            assert found["status"] == "interrupted", found
            values = await client.runs.wait(thread, "own", command={"resume": await self._answer(client, thread)})
        return values

    async def _answer(self, client: LangGraphClient, thread: str) -> Any:
        asked: Any = (await client.threads.get_state(thread))["interrupts"]
        if not asked or asked[0]["value"].get("kind") != "recovery":
            return "fine"
        acted = [line for line in effects_of(self._folder) if line.endswith(f" {thread}")]
        done = len(acted) == len(await client.runs.list(thread, status="success")) - 1
        kept = {"kept": acted[-1].removeprefix("note ")} if done else None
        return {"decision": "use", "output": kept} if done else {"decision": "retry"}

    async def see_all_through(self, url: str) -> None:
        async with get_client(url=f"{url}/langgraph", api_key="any") as client, asyncio.timeout(ENDS_WITHIN):
            for thread in self.threads:
                values = await self.see_through(client, thread)
                assert values["verdict"] == "fine" and values["notes"] == ["thought", "kept"], values
                assert {run["status"] for run in await client.runs.list(thread)} == {"success"}


async def _killed(victim: Server, client: Insisting, thread: str) -> bool:
    """Whether the run took its server with it."""
    async with get_client(url=f"{victim.url}/langgraph", api_key="any") as sdk:
        await sdk.threads.create(thread_id=thread, if_exists="do_nothing")
        client.threads.append(thread)
        seeing = asyncio.ensure_future(client.see_through(sdk, thread))
        dying = asyncio.ensure_future(victim.died(ENDS_WITHIN))
        await asyncio.wait({seeing, dying}, return_when=asyncio.FIRST_COMPLETED)
        if seeing.done() and seeing.exception() is None and await victim.survives():
            await victim.stop()
            await asyncio.wait({dying})
            dying.exception()  # it stopped cleanly
            return False
        await dying
        seeing.cancel()
        await asyncio.wait({seeing})
        return True


async def _assert_all_is_well(settings: Settings, root: Path, client: Insisting) -> None:
    async with server(settings, root) as last:
        await client.see_all_through(last.url)
    expected = [f"note {what} {thread}" for thread in client.threads for what in ("before", "after fine")]
    assert sorted(effects_of(root.parent)) == sorted(expected)
    async with open_store(settings) as store:
        await assert_tables_equal_replay(store)


@pytest.mark.timeout(300)
async def test_a_graph_killed_at_a_breakpoint_or_a_question_is_resumed_and_acts_once(
    settings: Settings, tmp_path: Path
) -> None:
    root, client = write_own(tmp_path), Insisting(tmp_path)
    for side, kind, number in QUICK:
        thread = f"doomed-{side}-{kind.rpartition('.')[2]}-{number}"
        async with server(settings, root, Point(side, kind, thread, number)) as victim:  # type: ignore[arg-type]
            assert await _killed(victim, client, thread), thread
        await end_leases(settings)
    await _assert_all_is_well(settings, root, client)


@pytest.mark.faults
@pytest.mark.timeout(3600)
async def test_a_graph_killed_at_every_commit_is_resumed_and_acts_once(settings: Settings, tmp_path: Path) -> None:
    root, client, kills = write_own(tmp_path), Insisting(tmp_path), 0
    for side in ("before", "after"):
        for number in itertools.count(1):
            thread = f"doomed-{side}-{number}-"
            async with server(settings, root, Point(side, "", thread, number)) as victim:
                if not await _killed(victim, client, thread):
                    break
            kills += 1
            await end_leases(settings)
            assert number < MOST_COMMITS
    print(f"killed {kills} times")
    assert kills >= 20
    await _assert_all_is_well(settings, root, client)
