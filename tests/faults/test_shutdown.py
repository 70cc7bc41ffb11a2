"""A planned stop: tools that act may end, nobody has to decide about one, and nothing holds the process up."""

import asyncio
import os
import signal
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import TypeVar

import httpx2
import pytest

from app.backends.contract import Context, Result, Resume
from app.core.principal import LOCAL
from app.core.settings import Settings
from app.runtime.intake.submission import Submission
from app.runtime.intake.threads import NewThread
from app.store.engine import Tx
from app.views.run import Run
from app.views.thread import Thread
from app.wiring import store as wiring
from app.wiring.runtime import open_holdfast
from app.wiring.store import open_store
from tests.faults.doomed import Server, server
from tests.faults.points import Passing
from tests.faults.witness import Witness
from tests.waiting import until

T = TypeVar("T")

FORMER_LIMIT = 5.0
"""Seconds that runs once had, whatever the documentation said."""
SOON = 60.0
MANY = 150

_SLOW = """
import os
import time


def act(text: str, ctx) -> dict:
    open({started!r}, "w").close()
    while not os.path.exists({go!r}):
        time.sleep(0.02)
    return {{"done": True}}
"""
_TOOL = """
apiVersion: holdfast/v1
kind: Tool
metadata: {name: slow}
spec:
  kind: python
  entry: slow:act
  effect: unsafe
  timeoutSeconds: 60
  input: {type: object, properties: {text: {type: string}}, required: [text]}
  output: {type: object, required: [done]}
---
apiVersion: holdfast/v1
kind: Model
metadata: {name: patient-script}
spec:
  provider: scripted
  model: script
  capabilities: {streaming: true, tools: true}
  script:
    rules:
      - {match: {afterTool: unsafe}, reply: {text: "did both"}}
      - {match: {afterTool: slow}, reply: {toolCalls: [{name: unsafe, args: {text: "then"}}]}}
    default: {toolCalls: [{name: slow, args: {text: "first"}}]}
---
apiVersion: holdfast/v1
kind: Agent
metadata: {name: patient}
spec: {model: patient-script, tools: [slow, unsafe]}
"""


class _SlowWitness(Witness):
    """Its agent first uses an unsafe tool that ends when the test says so, then another unsafe one."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        self.started, self.go = folder / "started", folder / "go"
        (self.workspace / "slow.py").write_text(_SLOW.format(started=str(self.started), go=str(self.go)))
        (self.workspace / "tools" / "slow.yaml").write_text(_TOOL)


async def _submit(alive: Server, witness: _SlowWitness) -> str:
    """A run that is inside its unsafe tool."""
    async with httpx2.AsyncClient(base_url=alive.url, timeout=20) as http:
        answer = await http.post("/api/runs", json={"agent": "patient", "input": "go"})
        assert answer.status_code == 202, answer.text
    await until(witness.started.exists)
    return str(answer.json()["id"])


async def _until_draining(alive: Server) -> None:
    async with httpx2.AsyncClient(base_url=alive.url, timeout=30) as http, asyncio.timeout(SOON):
        while (await http.get("/readyz")).status_code == 200:  # noqa: ASYNC110  # there is no event for it
            await asyncio.sleep(0.01)


async def _completed(alive: Server, run_id: str) -> None:
    async with httpx2.AsyncClient(base_url=alive.url, timeout=20) as http, asyncio.timeout(30):
        while (run := (await http.get(f"/api/runs/{run_id}")).json())["status"] != "completed":
            assert run["status"] != "waiting", "somebody was asked about a tool that was not cut off"
            await asyncio.sleep(0.05)


@pytest.mark.requirement("G15", "G4")
async def test_an_unsafe_tool_ends_in_a_planned_stop_and_no_other_one_begins(
    settings: Settings, tmp_path: Path
) -> None:
    witness = _SlowWitness(tmp_path)
    assert Settings().drain_seconds == 30
    async with server(settings, witness.workspace, environment={"HOLDFAST_DRAIN_SECONDS": "30"}) as alive:
        run_id = await _submit(alive, witness)
        os.kill(alive.pid, signal.SIGTERM)
        await _until_draining(alive)
        if not settings.is_postgres:  # once is enough for the seconds that this takes
            await asyncio.sleep(FORMER_LIMIT + 0.5)
        assert _lives(alive.pid), alive.said
        witness.go.touch()
        await alive.ended()
        assert witness.of(run_id) == 0, "the second tool began though the server was stopping"
    async with server(settings, witness.workspace) as alive:
        await _completed(alive, run_id)
    assert witness.of(run_id) == 1


@pytest.mark.requirement("G15")
async def test_a_second_signal_does_not_wait_for_runs(settings: Settings, tmp_path: Path) -> None:
    witness = _SlowWitness(tmp_path)
    async with server(settings, witness.workspace, environment={"HOLDFAST_DRAIN_SECONDS": "600"}) as alive:
        await _submit(alive, witness)
        os.kill(alive.pid, signal.SIGTERM)
        await _until_draining(alive)
        os.kill(alive.pid, signal.SIGINT)
        await until(lambda: not _lives(alive.pid), SOON)


def _lives(pid: int) -> bool:
    try:
        return "Z" not in Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return False


class _CountingDatabase(Passing):
    """Counts its writes and can be made slow."""

    writes = 0
    seconds = 0.0

    async def write(self, work: Callable[[Tx], Awaitable[T]]) -> T:
        self.writes += 1
        await asyncio.sleep(self.seconds)
        return await super().write(work)


@pytest.mark.requirement("G15", "G13")
async def test_a_purge_does_not_hold_up_the_stop_and_goes_on_after_the_next_start(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    at_once = settings.model_copy(update={"retention_deleted_days": 0})
    async with open_holdfast(settings) as holdfast:
        for _ in range(MANY):
            made = await holdfast.threads.create(LOCAL, NewThread())
            assert isinstance(made, Thread)
            await holdfast.threads.delete(LOCAL, made.id)
    opened = wiring.open_database
    databases = []

    def slow(given: Settings) -> _CountingDatabase:
        database = _CountingDatabase(opened(given))
        database.seconds = 0.2
        databases.append(database)
        return database

    with monkeypatch.context() as patched:
        patched.setattr(wiring, "open_database", slow)
        async with open_holdfast(at_once):
            before = sum(database.writes for database in databases)
        assert sum(database.writes for database in databases) - before < MANY / 2
    async with open_store(at_once) as store:
        assert await store.retention.purge() > 0, "the purge was not interrupted"
        assert await store.retention.purge() == 0


class _Forever:
    kind = "echo"
    resume: Resume = "restart"

    def __init__(self) -> None:
        self.entered = 0

    async def run(self, ctx: Context) -> Result:
        self.entered += 1
        await asyncio.Event().wait()
        raise AssertionError("nobody sets it")


@pytest.mark.requirement("G15")
async def test_all_leases_are_given_back_in_one_commit(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> None:
    backend = _Forever()
    database = _CountingDatabase(wiring.open_database(settings))
    monkeypatch.setattr(wiring, "open_database", lambda _settings: database)
    async with open_holdfast(settings, backends={"echo": backend}) as holdfast:
        runs = [await holdfast.service.submit(LOCAL, Submission("echo", "x")) for _ in range(40)]
        await until(lambda: backend.entered == len(runs))
        before = database.writes
        await holdfast.executor.drain(0)
        assert database.writes - before <= 2
        found = await holdfast.store.reader.runs_without_an_owner(1000)
        assert {run_id for _, run_id, _, _ in found} == {run.id for run in runs if isinstance(run, Run)}
