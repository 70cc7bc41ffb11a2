"""Servers that are killed while gates judge: every verdict is recorded once, and a resumed run sees the same."""

import asyncio
from pathlib import Path
from typing import Any

import httpx2
import pytest

from app.core.settings import Settings
from tests.clients import reached, submit
from tests.evals.judged import BASE, TOOLS, agent, evaluator
from tests.server import ServerProcess
from tests.waiting import until

SLOW = '''
import os, time
from pathlib import Path

HERE = Path({folder!r})

def slow(run):
    """The first time of each kind of gate it goes on until the server is killed."""
    began = HERE / f"began-{{run['agent']}}"
    with began.open("a") as lines:
        lines.write("x")
    while len(began.read_text()) < 2:
        time.sleep(0.01)
    return 1.0
'''


def workspace(folder: Path) -> Path:
    root = folder / "workspace"
    root.mkdir()
    documents = [
        evaluator("slow", "{kind: python, entry: 'slow:slow', timeoutSeconds: 60}"),
        agent("shadowed", "[{evaluator: slow}]"),
        agent("blocked", "[{evaluator: slow, mode: blocking}]"),
        agent("clerk", "[{evaluator: polite, mode: blocking, onFail: ask}]"),
    ]
    (root / "workspace.yaml").write_text(BASE + "".join(documents))
    (root / "tools.py").write_text(TOOLS)
    (root / "slow.py").write_text(SLOW.format(folder=str(folder)))
    return root


async def events_of(client: httpx2.AsyncClient, thread: str, name: str) -> list[dict[str, Any]]:
    answer = await client.get(f"/api/threads/{thread}/events", params={"type": f"runtime.{name}"})
    assert answer.status_code == 200, answer.text
    found: list[dict[str, Any]] = answer.json()["items"]
    return found


@pytest.mark.requirement("HK-33", "HK-23", "OS-I1")
async def test_verdicts_survive_a_killed_server_and_are_recorded_once(settings: Settings, tmp_path: Path) -> None:
    root = workspace(tmp_path)
    server = await asyncio.to_thread(ServerProcess.start, settings.data_dir, settings.database_url, root)
    try:
        async with httpx2.AsyncClient(base_url=server.url) as client:
            shadowed = await submit(client, "shadowed", "hello", wait=25)
            assert shadowed["status"] == "completed"
            blocked = await submit(client, "blocked", "hello")
            waits = await submit(client, "clerk", "be rude", wait=25)
            assert waits["status"] == "waiting"
            for name in ("shadowed", "blocked"):
                await until(lambda began=tmp_path / f"began-{name}": began.exists() and bool(began.read_text()))  # type: ignore[misc]
            assert await events_of(client, shadowed["threadId"], "gate.evaluated") == []
        server.kill()
        if settings.is_postgres:
            await _give_back(settings)
        server = await asyncio.to_thread(server.again)
        async with httpx2.AsyncClient(base_url=server.url) as client:
            assert (await reached(client, blocked["id"]))["output"] == "Yes, please: hello"
            answer = await client.post(f"/api/interrupts/{waits['waitingOn'][0]}/answer", json={"decision": "approve"})
            assert answer.status_code == 200, answer.text
            assert (await reached(client, waits["id"]))["output"] == "Go away, you fool."
            async with asyncio.timeout(30):
                while not await events_of(client, shadowed["threadId"], "gate.evaluated"):  # noqa: ASYNC110
                    await asyncio.sleep(0.05)  # a thread's event; the next request tells
            for run in (shadowed, blocked, waits):
                (verdict,) = await events_of(client, run["threadId"], "gate.evaluated")
                assert verdict["runId"] == (None if run is shadowed else run["id"])
                # What the model said was recorded before the kill, and nobody asked it again.
                assert len(await events_of(client, run["threadId"], "model.completed")) == 1
            after = (await client.get(f"/api/runs/{shadowed['id']}")).json()
            assert after == shadowed
    finally:
        if server.is_running:
            await asyncio.to_thread(server.stop)


async def _give_back(settings: Settings) -> None:
    """A dead server's leases on Postgres run out by themselves, after longer than a test wants to wait."""
    import asyncpg

    assert settings.database_url is not None
    connection = await asyncpg.connect(settings.database_url.replace("postgresql+asyncpg", "postgresql"))
    try:
        await connection.execute("UPDATE due_evaluations SET until = 0")
        await connection.execute("UPDATE leases SET until = -1 WHERE until > 0")
    finally:
        await connection.close()
