"""`kill -9` of the real server while it conducts runs: each accepted run ends, and no completed step runs twice."""

import asyncio
import contextlib
import random
from dataclasses import dataclass, replace
from typing import Final, Literal

import asyncpg
import httpx2
import pytest

from app.core import json
from app.core.principal import DEFAULT_TENANT
from app.core.settings import Settings
from app.events.catalog import execution, interrupt, model, request, tool
from app.wiring.store import Store, open_store
from tests.faults.audit import audit
from tests.faults.conftest import Count
from tests.faults.doomed import Point, Server, server
from tests.faults.persistent import PersistentClient
from tests.faults.witness import Witness

ENDS_WITHIN: Final = 20.0
"""Seconds: the lease of a dead process (15) and 5 more."""
CLIENTS: Final = 8
LATEST_KILL: Final = 0.8
"""Seconds under load: some hundred commits."""


@dataclass(frozen=True, slots=True)
class Death:
    """What a run says, where it takes its server with it, and how often its tool is called through both lives."""

    text: str
    point: Point | None
    executions: int = 0
    answers: int = 0
    """How often a person has to answer: asked again only if the first answer was not stored."""
    agent: str = "worker"

    def __str__(self) -> str:
        return f"{self.text!r} {self.point or 'inside the tool'}"


def _around(text: str, type: str, before: int, after: int, agent: str = "worker") -> list[Death]:
    sides: tuple[tuple[Literal["before", "after"], int], ...] = (("before", before), ("after", after))
    return [Death(text, Point(side, type), executions, agent=agent) for side, executions in sides]


NAMED: Final = [
    # The tool is called again only where its result had not been stored.
    *_around("keep", tool.ToolInvoked.type, 1, 1),
    Death("keep, and die inside", None, 2),
    # Neither harmless nor keyed: an operator says whether it may be called again.
    Death("dare, and die inside", None, 2, answers=1),
    *_around("keep", tool.ToolResulted.type, 2, 1),
    Death("ask", Point("after", interrupt.InterruptRaised.type), 1, answers=1),
    # Stored, though nobody was notified: the answer counts.
    Death("ask", Point("after", interrupt.InterruptResolved.type), 1, answers=0),
    *_around("sum up", execution.ContextCompacted.type, 4, 4, agent="summing"),
    *_around("keep", request.RequestCompleted.type, 1, 1),
]
REST: Final = [
    *_around("hello", request.RequestQueued.type, 0, 0),
    *_around("hello", request.RequestStarted.type, 0, 0),
    *_around("hello", model.ModelRequested.type, 0, 0),
    *_around("hello", model.ModelCompleted.type, 0, 0),
    Death("read, and die inside", None, 2),
    Death("ask", Point("before", interrupt.InterruptRaised.type), 1, answers=1),
    Death("ask", Point("before", interrupt.InterruptResolved.type), 1, answers=1),
]


async def end_leases(settings: Settings) -> None:
    """On Postgres a next server waits for the leases of a dead one; here they have ended meanwhile."""
    if settings.database_url is not None:
        database = await asyncpg.connect(settings.database_url)
        await database.execute("UPDATE leases SET until = 0 WHERE until > 0")
        await database.close()


@pytest.mark.requirement("G1", "G4", "G5", "G6", "G7", "G9", "PX-2")
@pytest.mark.parametrize("full", [False, pytest.param(True, marks=pytest.mark.faults)], ids=["named", "all"])
async def test_a_server_killed_at_any_named_point_of_a_run_goes_on_where_it_was(
    settings: Settings, witness: Witness, full: bool, count: Count
) -> None:
    """Each server sees the last one's run through, then takes up the run that will kill it."""
    # The quick run meets each named point on SQLite, and every other one on Postgres.
    deaths = NAMED + REST if full else NAMED[:: 2 if settings.is_postgres else 1]
    client = PersistentClient()
    for number, death in enumerate(deaths):
        word = f"doomed-{number}-"
        point = replace(death.point, word=word) if death.point is not None else None
        async with server(settings, witness.workspace, point) as doomed:
            await _see_through(doomed, client)
            run = client.want(f"{word} {death.text}", death.agent)
            with contextlib.suppress(httpx2.HTTPError):
                await client.see_through(doomed.url, run)
            await doomed.died()
        assert run.end is None, f"{death}: the server should have died of this run"
        await end_leases(settings)
    async with server(settings, witness.workspace) as alive:
        await _see_through(alive, client)
    for run, death in zip(client.wanted, deaths, strict=True):
        assert run.end == "completed", death
        assert witness.of(run.run_id) == death.executions, death
        assert run.answered == death.answers, death
    await _assert_all_is_well(settings, witness, client, count, len(deaths))


@pytest.mark.requirement("G5", "G9")
async def test_a_server_killed_while_a_run_waits_for_a_person_asks_nobody_again(
    settings: Settings, witness: Witness, count: Count
) -> None:
    client = PersistentClient()
    run = client.want("ask")
    async with server(settings, witness.workspace) as doomed, httpx2.AsyncClient(base_url=doomed.url) as http:
        body = {"agent": "worker", "input": run.text, "threadId": run.thread_id, "createThread": True}
        headers = {"idempotency-key": run.key, "content-type": "application/json"}
        waits = await http.post("/api/runs?wait=10", content=json.dumps(body), headers=headers)
        assert waits.json()["status"] == "waiting", waits.text
        await doomed.kill()
    await end_leases(settings)
    async with server(settings, witness.workspace) as alive, httpx2.AsyncClient(base_url=alive.url) as http:
        still = (await http.get(f"/api/runs/{waits.json()['id']}")).json()
        assert still["waitingOn"] == waits.json()["waitingOn"]
        await _see_through(alive, client)
    assert (run.end, run.answered, witness.of(run.run_id)) == ("completed", 1, 1)
    await _assert_all_is_well(settings, witness, client, count)


@pytest.mark.requirement("G4")
async def test_an_answer_to_a_recovery_counts_for_one_attempt(settings: Settings, witness: Witness) -> None:
    """Cut off, repeated as an operator said, cut off again: the operator is asked again, and nothing acts meanwhile."""
    run_id, asked = "", list[str]()
    for life in range(4):
        async with server(settings, witness.workspace) as doomed, httpx2.AsyncClient(base_url=doomed.url) as http:
            if not run_id:
                body, headers = {"agent": "worker", "input": "dare, always kill"}, {"content-type": "application/json"}
                submitted = await http.post("/api/runs", content=json.dumps(body), headers=headers)
                run_id = submitted.json()["id"]
            else:
                asked += await _asked(http, run_id)
                assert witness.of(run_id) == life, "the tool acted although nobody had said so"
                if life == 3:
                    break
                answer = json.dumps({"decision": "retry"})
                with contextlib.suppress(httpx2.HTTPError):
                    await http.post(
                        f"/api/interrupts/{asked[-1]}/answer", content=answer,
                        headers={"content-type": "application/json"},
                    )  # fmt: skip
            await doomed.died()
        await end_leases(settings)
    assert len(set(asked)) == 3


async def _asked(http: httpx2.AsyncClient, run_id: str) -> list[str]:
    async with asyncio.timeout(ENDS_WITHIN):
        while True:
            waiting_on: list[str] = (await http.get(f"/api/runs/{run_id}")).json()["waitingOn"]
            if waiting_on:
                return waiting_on
            await asyncio.sleep(0.01)


@pytest.mark.requirement("G1", "G4", "G5", "G6", "G7", "G22", "PX-1", "PX-2")
@pytest.mark.parametrize(
    "kills", [3, pytest.param(100, marks=[pytest.mark.faults, pytest.mark.timeout(1800)])], ids="{}-kills".format
)
async def test_a_server_killed_at_random_moments_under_load_ends_every_run_it_accepted(
    settings: Settings, witness: Witness, kills: int, count: Count
) -> None:
    chance = random.Random(20_260_716)
    clients = [PersistentClient() for _ in range(CLIENTS)]
    texts = [f"{word} {manner}" for word in ("hello", "keep", "read", "ask", "dare") for manner in ("now", "slowly")]
    for _ in range(kills):
        async with server(settings, witness.workspace) as doomed, asyncio.TaskGroup() as tasks:
            for client in clients:
                tasks.create_task(client.work_until_it_dies(doomed.url, chance.sample(texts, len(texts))))
            async with asyncio.timeout(30):
                await asyncio.gather(*(client.accepted.wait() for client in clients))
            # Not a wait for anything: the random moment is the fault itself.
            await asyncio.sleep(chance.uniform(0.0, LATEST_KILL))
            await doomed.kill()
        if kills < 10:
            await end_leases(settings)  # the full counts wait for them instead
    everything = PersistentClient()
    everything.wanted = [wanted for client in clients for wanted in client.wanted]
    async with server(settings, witness.workspace) as alive:
        await _see_through(alive, everything)
    assert {wanted.end for wanted in everything.wanted} == {"completed"}
    await _assert_all_is_well(settings, witness, everything, count, kills)


async def _see_through(alive: Server, client: PersistentClient) -> None:
    async with asyncio.timeout(ENDS_WITHIN):
        await client.see_everything_through(alive.url)


async def _assert_all_is_well(
    settings: Settings, witness: Witness, client: PersistentClient, count: Count, kills: int = 1
) -> None:
    """Of the store that is left: every run ended once, no result was followed by another attempt, one effect each."""
    runs = [wanted.run_id for wanted in client.wanted]
    assert len(set(runs)) == len(runs)
    async with open_store(settings) as store:
        for run_id in runs:
            await _assert_steps_ran_once(store, witness, run_id)
        for status in ("queued", "running", "waiting"):
            assert await store.reader.runs(DEFAULT_TENANT, status=status) == []
        figures = await audit(store, [])
    witness.assert_one_effect_each()
    figures.trials, figures.acknowledged = kills, len(runs)
    executions = witness.executions()
    count(figures, f"{len(executions)} tool executions of {len({one.call_id for one in executions})} calls")


async def _assert_steps_ran_once(store: Store, witness: Witness, run_id: str) -> None:
    events = await store.reader.run_events(DEFAULT_TENANT, run_id, 0, 10_000)
    types = [event.type for event in events]
    assert types.count(request.RequestQueued.type) == 1
    assert sum(type in request.TERMINAL for type in types) == 1 and types[-1] in request.TERMINAL, types
    finished: set[str] = set()
    attempts = 0
    for event in events:
        if event.type == tool.ToolInvoked.type:
            attempts += 1
            assert event.payload["callId"] not in finished, "a completed step was begun again"
        elif event.type == tool.ToolResulted.type:
            assert event.payload["callId"] not in finished, "a step has two results"
            finished.add(event.payload["callId"])
    assert witness.of(run_id) <= attempts, "a tool acted without an intent"
