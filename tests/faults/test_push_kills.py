"""A server that dies with the end of a run, before anybody was told of it: after its restart everybody is, once."""

import asyncio
import contextlib
import shutil
from pathlib import Path

import asyncpg
import httpx2
import pytest

from app.core.settings import Settings
from app.events.catalog.request import RequestCompleted
from tests.faults.doomed import Point, server
from tests.faults.test_run_kills import end_leases
from tests.scenarios.test_a2a_push import OUTGOING, PATIENCE, TOKEN, listening, said
from tests.server import ROOT
from tests.waiting import until

pytestmark = pytest.mark.requirement("PX-3", "PX-11")


async def _end_leases_of_senders(settings: Settings) -> None:
    """On Postgres a next server waits half a minute for that of a dead one."""
    if settings.database_url is not None:
        database = await asyncpg.connect(settings.database_url)
        await database.execute("UPDATE consumers SET until = 0 WHERE until > 0")
        await database.close()


@pytest.mark.timeout(180)
async def test_who_was_not_told_before_the_kill_is_told_once_after_the_restart(
    settings: Settings, tmp_path: Path
) -> None:
    workspace = tmp_path / "workspace"
    shutil.copytree(ROOT / "workspaces" / "demo", workspace)
    runtime = workspace / "runtime.yaml"
    runtime.write_text(runtime.read_text() + OUTGOING)
    async with listening() as pushed, listening() as hooked:
        async with (
            server(settings, workspace, Point("after", RequestCompleted.type, "publish it now")) as victim,
            httpx2.AsyncClient(base_url=victim.url, timeout=30) as http,
        ):
            wanted = {"url": hooked.url, "events": ["runtime.request.completed"]}
            made = await http.post("/api/webhooks", json=wanted)
            assert made.status_code == 201, made.text
            configuration = {"taskPushNotificationConfig": {"url": pushed.url, "token": TOKEN}}
            body = {"message": said("publish it now"), "configuration": configuration}
            task = (await http.post("/a2a/assistant/message:send", json=body)).json()["task"]["id"]
            await until(lambda: pushed.states() == ["TASK_STATE_INPUT_REQUIRED"], PATIENCE)
            (asked,) = (await http.get(f"/api/runs/{task}")).json()["waitingOn"]
            with contextlib.suppress(httpx2.HTTPError):  # it dies as soon as the run has ended
                await http.post(f"/api/interrupts/{asked}/answer", json={"decision": "approve"})
            await victim.died(PATIENCE)
        assert len(pushed.got) == 1 and hooked.begun == 0, "nobody was told of the end"
        await end_leases(settings)
        await _end_leases_of_senders(settings)
        async with (
            server(settings, workspace) as last,
            httpx2.AsyncClient(base_url=last.url, timeout=30) as http,
        ):
            assert (await http.get(f"/api/runs/{task}")).json()["status"] == "completed"
            await until(lambda: len(pushed.got) >= 2 and len(hooked.got) >= 1, PATIENCE)
            async with asyncio.timeout(PATIENCE):
                path = f"/api/webhooks/{made.json()['id']}/deliveries"
                while (items := (await http.get(path)).json()["items"])[0]["status"] == "pending":  # noqa: ASYNC110
                    await asyncio.sleep(0.05)
            assert [(one["status"], one["attempts"]) for one in items] == [("delivered", 1)]
        assert pushed.states() == ["TASK_STATE_INPUT_REQUIRED", "TASK_STATE_COMPLETED"] and pushed.begun == 2
        assert {one.id for one in pushed.tasks()} == {task}
        assert pushed.got[1][0]["x-a2a-notification-token"] == TOKEN and hooked.begun == 1
