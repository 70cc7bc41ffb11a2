"""`kill -9` of the real server at every commit of a run, for every backend: the run ends, and each effect happens once.

The next server takes up what the last one left behind. An operator who is asked whether a call took effect looks it up,
as a person would. `make faults` kills at every commit of every backend, on both sides of it, `make test-extras` at few.
"""

import asyncio
import contextlib
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, Literal

import httpx2
import pytest

from app.core.principal import DEFAULT_TENANT
from app.core.settings import Settings
from app.events.catalog import adapter, model, request, tool
from app.events.envelope import Event
from app.wiring.store import open_store
from tests.adapters.space import ADAPTERS
from tests.conformance.backends.loops import BASE
from tests.faults import doomed
from tests.faults.doomed import Point, server
from tests.faults.persistent import PersistentClient, Wanted
from tests.faults.test_run_kills import end_leases
from tests.store_equals_replay import assert_tables_equal_replay

KINDS: Final = ("native", *ADAPTERS)
QUICK: Final = ("native", "langgraph", "deepagents")
ENDS_WITHIN: Final = 60.0
MOST_COMMITS: Final = 60
"""Of one run; far more than there are."""
EFFECTS: Final = ["note a", "note b", "publish home"]

doomed.preload(
    "app.backends.kinds.langgraph.session",
    "deepagents",
    "langchain.agents",
    "agents",
    "google.adk.runners",
    "agent_framework",
    "pydantic_ai",
)

AGENT: Final = """\
---
apiVersion: holdfast/v1
kind: Agent
metadata: {name: %s}
spec: {backend: %s, model: script, tools: [note, publish]}
"""
WITNESS: Final = """
import os

def _line(ctx, text):
    file = os.open({path!r}, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    os.write(file, f"{{ctx.run_id}} {{ctx.call_id}} {{text}}\\n".encode())
    os.close(file)

def note(what: str, ctx) -> dict:
    _line(ctx, "note " + what)
    return {{"kept": what}}

def publish(at: str, ctx) -> str:
    _line(ctx, "publish " + at)
    return "done"
"""


class Operator(PersistentClient):
    """Answers by what is really there: a call that took effect is not repeated."""

    def __init__(self, effects: Path) -> None:
        super().__init__()
        self._effects = effects

    def effects(self) -> list[list[str]]:
        """Run, call and what was done."""
        return [line.split(" ", 2) for line in self._effects.read_text().splitlines()] if self._effects.exists() else []

    async def _answer(self, http: httpx2.AsyncClient, wanted: Wanted, interrupt: str) -> None:
        found = await http.get(f"/api/interrupts/{interrupt}")
        if found.status_code == 503:
            return
        asked = found.json()
        given: dict[str, Any] = {"decision": "approve"}
        if asked["kind"] == "recovery":
            done = [what for _, call_id, what in self.effects() if call_id == asked["callId"]]
            output = {"kept": done[0].removeprefix("note ")} if done and asked["tool"] == "note" else "done"
            given = {"decision": "use", "output": output} if done else {"decision": "retry"}
        answer = await http.post(f"/api/interrupts/{interrupt}/answer", json=given)
        assert answer.status_code in (200, 409, 503), answer.text
        wanted.answered += answer.status_code == 200


def space(folder: Path, kinds: Sequence[str]) -> Path:
    root = folder / "workspace"
    root.mkdir()
    (root / "workspace.yaml").write_text(BASE + "".join(AGENT % (kind, kind) for kind in kinds))
    (root / "witness.py").write_text(WITNESS.format(path=str(folder / "effects")))
    return root


def assert_done_once(wanted: Wanted, events: list[Event], effects: list[list[str]]) -> None:
    assert sorted(what for run_id, _, what in effects if run_id == wanted.run_id) == EFFECTS
    types = Counter(event.type for event in events)
    assert (types[model.ModelCompleted.type], types[request.RequestQueued.type]) == (2, 1), "an answer was made twice"
    results = [event.payload["callId"] for event in events if event.type == tool.ToolResulted.type]
    assert len(results) == len(set(results)) == 3
    assert [event.type for event in events if event.type in request.TERMINAL] == ["runtime.request.completed"]
    signals = [event.payload["event"] for event in events if event.type == adapter.AdapterEvent.type]
    of_nodes = [signal for signal in signals if signal["phase"] not in adapter.DELTAS]
    assert Counter(signal["phase"] for signal in of_nodes)["agent.handoff"] == 1
    nodes = Counter((signal["phase"], str(signal.get("nodeId")), str(signal.get("update"))) for signal in of_nodes)
    assert set(nodes.values()) == {1}, "a signal was recorded again"


async def killed_at(
    settings: Settings, root: Path, operator: Operator, kind: str, side: Literal["before", "after"], number: int
) -> bool:
    """Whether a run of this kind has so many commits; if so, it took its server with it at that one."""
    word = f"doomed-{kind}-{side}-{number}-"
    async with server(settings, root, Point(side, "", word, number)) as victim:
        async with asyncio.timeout(ENDS_WITHIN):
            await operator.see_everything_through(victim.url)
            run = operator.want(f"{word} all at once", kind)
            with contextlib.suppress(httpx2.HTTPError):
                await operator.see_through(victim.url, run)
        if run.end is not None and await victim.survives():
            return False
        await victim.died()
    await end_leases(settings)
    return True


async def assert_all_is_well(settings: Settings, root: Path, operator: Operator) -> None:
    async with server(settings, root) as last, asyncio.timeout(ENDS_WITHIN):
        await operator.see_everything_through(last.url)
    assert {wanted.end for wanted in operator.wanted} == {"completed"}
    effects = operator.effects()
    async with open_store(settings) as store:
        for wanted in operator.wanted:
            assert_done_once(wanted, await store.reader.run_events(DEFAULT_TENANT, wanted.run_id, 0, 10_000), effects)
        await assert_tables_equal_replay(store)


@pytest.mark.requirement("SH-9", "G4", "G5", "G9", "PX-2")
@pytest.mark.timeout(300)
async def test_a_server_killed_at_commits_of_a_run_ends_it_with_each_effect_once(tmp_path: Path) -> None:
    settings = Settings(data_dir=tmp_path / "data")
    settings.data_dir.mkdir()
    root, operator = space(tmp_path, QUICK), Operator(tmp_path / "effects")
    for kind in QUICK:
        assert await killed_at(settings, root, operator, kind, "after", 5)
        assert await killed_at(settings, root, operator, kind, "before", 8)
    await assert_all_is_well(settings, root, operator)


@pytest.mark.faults
@pytest.mark.timeout(3600)
@pytest.mark.requirement("SH-9", "G4", "G5", "G9", "PX-2")
@pytest.mark.parametrize("kind", KINDS)
async def test_a_server_killed_at_every_commit_of_a_run_ends_it_with_each_effect_once(
    settings: Settings, tmp_path: Path, kind: str
) -> None:
    root, operator = space(tmp_path, [kind]), Operator(tmp_path / "effects")
    kills = Counter[str]()
    for side in ("before", "after"):
        for number in range(1, MOST_COMMITS):
            if not await killed_at(settings, root, operator, kind, side, number):
                break
            kills[side] += 1
    await assert_all_is_well(settings, root, operator)
    print(f"{kind}: killed {kills.total()} times, {dict(kills)}")
    assert min(kills.values()) >= 8, kills
