"""`kill -9` of the real server at every event of an undo: it goes on, and nothing is taken back twice."""

import contextlib
from pathlib import Path
from typing import Any, Final

import httpx2
import pytest

from app.core.settings import Settings
from app.events.catalog import artifact, request, tool
from app.events.chain import Head, verify
from app.protocols.dialects.native import read_export
from app.wiring.store import open_store
from tests.clients import reached
from tests.faults.doomed import Point, server
from tests.faults.test_run_kills import end_leases
from tests.store_equals_replay import assert_tables_equal_replay
from tests.undo_world import World, make_workspace, payments, plan

_TRACE: Final = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
_ACTIONS: Final = 4
POINTS: Final = [
    (side, type_, number)
    for type_, count in (
        (artifact.UndoPlanned.type, 1),
        (request.RequestStarted.type, 1),
        (tool.ToolInvoked.type, _ACTIONS),
        (tool.ToolResulted.type, _ACTIONS),
        (artifact.UndoActionCompleted.type, _ACTIONS),
        (artifact.UndoCompleted.type, 1),
        (request.RequestCompleted.type, 1),
    )
    for number in range(1, count + 1)
    for side in ("before", "after")
]
"""Both sides of the commit of every event of an undo."""
QUICK: Final = [("before", tool.ToolResulted.type, 1), ("after", tool.ToolResulted.type, 3)]


@pytest.mark.requirement("HK-37", "G4", "G5")
@pytest.mark.parametrize("full", [False, pytest.param(True, marks=pytest.mark.faults)], ids=["quick", "all"])
async def test_a_server_killed_during_an_undo_goes_on_and_takes_nothing_back_twice(
    settings: Settings, tmp_path: Path, full: bool
) -> None:
    """Each server sees the last one's undo through, then makes a run and dies of its undo."""
    points = POINTS if full else QUICK[settings.is_postgres :]
    async with payments() as shop:
        world = World(settings, make_workspace(tmp_path / "workspace", shop), shop)
        bought: dict[str, Any] | None = None
        planned: dict[str, Any] = {}
        for number, (side, type_, which) in enumerate(points):
            point = Point(side, type_, f"doomed-{number}-", which)  # type: ignore[arg-type]  # one of two
            async with server(settings, world.workspace, point) as doomed:
                async with httpx2.AsyncClient(base_url=doomed.url, timeout=30) as client:
                    await _see_through(world, client, bought, planned)
                    body = {"agent": "doer", "input": "buy"}
                    bought = (await client.post("/api/runs", params={"wait": 20}, json=body)).json()
                    assert bought is not None and bought["status"] == "completed", bought
                    assert world.seen() == {"files": {"a.txt": b"one"}, "balance": 12, "seats": ["1A"]}
                    planned = await plan(client, bought)
                    assert len(planned["actions"]) == _ACTIONS
                    with contextlib.suppress(httpx2.HTTPError):
                        body = {"planHash": planned["planHash"]}
                        headers = {"traceparent": _TRACE, "x-request-id": point.word}
                        address = f"/api/runs/{bought['id']}/undo"
                        await client.post(address, params={"wait": 20}, json=body, headers=headers)
                await doomed.died()
            await end_leases(settings)
        async with server(settings, world.workspace) as alive:
            async with httpx2.AsyncClient(base_url=alive.url, timeout=30) as client:
                await _see_through(world, client, bought, planned)
        assert set(shop.refunds.values()) == {1} and len(shop.refunds) == 2 * len(points)
    async with open_store(settings) as store:
        await assert_tables_equal_replay(store)


async def _see_through(
    world: World, client: httpx2.AsyncClient, bought: dict[str, Any] | None, planned: dict[str, Any]
) -> None:
    if bought is None:
        return
    page = (await client.get("/api/runs", params={"threadId": bought["threadId"]})).json()["items"]
    undos = [run for run in page if run["undoOf"] == bought["id"]]
    if not undos:  # it died before it had accepted the undo
        address = f"/api/runs/{bought['id']}/undo"
        undos = [(await client.post(address, json={"planHash": planned["planHash"]})).json()]
    ended = await reached(client, undos[0]["id"])
    assert (ended["status"], ended["output"]["verdict"]) == ("completed", "done"), ended
    assert len(ended["output"]["executed"]) == _ACTIONS
    export = read_export((await client.get(f"/api/threads/{bought['threadId']}/export")).content.splitlines())
    assert isinstance(verify(export.events, export.head), Head)
    assert world.seen() == {"files": {}, "balance": 0, "seats": []}
