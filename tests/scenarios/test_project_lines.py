"""One job of a project runs at a time: across agents, in the order of priority and time, and none waits for ever."""

import asyncio
import contextlib
import itertools
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, Final

import httpx2
import pytest

from app.backends.contract import Context, Result, Resume
from app.core.errors import HoldfastError
from app.core.settings import Settings
from app.store import project_lines
from tests.clients import create_session, reached, say
from tests.server import ServerProcess, in_process
from tests.store_equals_replay import assert_tables_equal_replay

WORKSPACE: Final = """\
apiVersion: holdfast/v1
kind: Runtime
metadata: {name: lines}
spec: {defaultAgent: worker}
---
apiVersion: holdfast/v1
kind: Model
metadata: {name: script}
spec: {provider: scripted, model: script, script: {default: {text: ok}}}
---
apiVersion: holdfast/v1
kind: Agent
metadata: {name: worker}
spec: {model: script}
---
apiVersion: holdfast/v1
kind: Agent
metadata: {name: other}
spec: {model: script}
"""
SECONDS: Final = 30.0
"""For whatever has to happen."""


class Doors:
    """Runs enter, and go on when their door is opened; those of the input `fail` fail once."""

    kind = "native"
    resume: Resume = "replay"

    def __init__(self) -> None:
        self.entered: asyncio.Queue[str] = asyncio.Queue()
        self.inside: set[str] = set()
        self._doors: dict[str, asyncio.Event] = {}
        self._failed: set[str] = set()

    def door(self, run_id: str) -> asyncio.Event:
        return self._doors.setdefault(run_id, asyncio.Event())

    async def next(self) -> str:
        async with asyncio.timeout(SECONDS):
            return await self.entered.get()

    async def run(self, ctx: Context) -> Result:
        if ctx.input == "at once":
            return "done"
        self.entered.put_nowait(ctx.run_id)
        self.inside.add(ctx.run_id)
        try:
            await self.door(ctx.run_id).wait()
        finally:
            self.inside.discard(ctx.run_id)
        if ctx.input == "fail" and ctx.run_id not in self._failed:
            self._failed.add(ctx.run_id)
            raise HoldfastError("PROVIDER_UNREACHABLE", "try again", retryable=True)
        return "done"


@contextlib.asynccontextmanager
async def opened(settings: Settings, tmp_path: Path) -> AsyncIterator[tuple[httpx2.AsyncClient, Doors]]:
    root = tmp_path / "workspace"
    root.mkdir()
    (root / "all.yaml").write_text(WORKSPACE)
    data = tmp_path / "data"
    data.mkdir()
    settings = settings.model_copy(update={"workspace": root, "data_dir": data})
    doors = Doors()
    async with in_process(settings, {"native": doors}) as server:
        async with httpx2.AsyncClient(base_url=server.url, timeout=SECONDS) as client:
            yield client, doors
        await assert_tables_equal_replay(server.holdfast.store)


async def put(client: httpx2.AsyncClient, project: str | None, **more: Any) -> str:
    body = {"input": "wait", "projectId": project, "serial": True} | more
    answer = await client.post("/api/runs", json={key: value for key, value in body.items() if value is not None})
    assert answer.status_code == 202, answer.text
    return str(answer.json()["id"])


async def pass_by(client: httpx2.AsyncClient) -> None:
    """A run that stands in no line: when it has ended, whatever was submitted before it has had its turn to begin."""
    await reached(client, await put(client, None, input="at once", serial=None))


async def status(client: httpx2.AsyncClient, run_id: str) -> str:
    return str((await client.get(f"/api/jobs/{run_id}")).json()["status"])


@pytest.mark.requirement("CM-3")
async def test_the_jobs_of_a_projects_sessions_run_one_at_a_time_whichever_agent_they_need(
    settings: Settings, tmp_path: Path
) -> None:
    async with opened(settings, tmp_path) as (client, doors):
        project = (await client.post("/api/projects", json={"name": tmp_path.name})).json()["project"]["projectId"]
        jobs = []
        for agent in ("worker", "other", "worker"):
            session = await create_session(client, model=agent)
            await client.post(f"/api/sessions/{session}/project", json={"projectId": project})
            await reached(client, await say(client, session, "at once"))
            asked = await client.post(f"/api/sessions/{session}/suggested-request/jobs", json={})
            jobs.append(asked.json()["jobId"])
        # A session without a project is a line of its own.
        alone = await create_session(client, model="worker")
        await reached(client, await say(client, alone, "at once"))
        apart = (await client.post(f"/api/sessions/{alone}/suggested-request/jobs", json={})).json()["jobId"]
        assert {await doors.next(), await doors.next()} == {jobs[0], apart}
        await pass_by(client)
        assert doors.inside == {jobs[0], apart}
        listed = (await client.get(f"/api/projects/{project}/orchestrator/jobs")).json()["data"]
        assert [one["state"] for one in listed] == ["running", "queued", "queued"]
        for done, following in itertools.pairwise(jobs):
            doors.door(done).set()
            assert await doors.next() == following
            assert doors.inside == {following, apart}
        for run_id in (jobs[-1], apart):
            doors.door(run_id).set()
        for run_id in (*jobs, apart):
            assert (await reached(client, run_id))["status"] == "completed"


@pytest.mark.requirement("CM-3")
async def test_interactive_jobs_of_a_line_go_first_and_a_cancelled_one_leaves_it(
    settings: Settings, tmp_path: Path
) -> None:
    async with opened(settings, tmp_path) as (client, doors):
        refused = await client.post("/api/runs", json={"input": "wait", "serial": True})
        assert (refused.status_code, refused.json()["error"]["code"]) == (400, "INVALID_REQUEST"), refused.text
        assert "projectId" in refused.text
        first = await put(client, tmp_path.name)
        assert await doors.next() == first
        later = await put(client, tmp_path.name, priority="background")
        dropped = await put(client, tmp_path.name, agent="other")
        sooner = await put(client, tmp_path.name, agent="other")
        beside = await put(client, tmp_path.name, serial=None)
        foreign = await put(client, f"{tmp_path.name} too")
        assert {await doors.next(), await doors.next()} == {beside, foreign}
        await pass_by(client)
        assert doors.inside == {first, beside, foreign}
        shown = (await client.get(f"/api/jobs/{sooner}")).json()
        assert (shown["status"], shown["serial"], shown["timeoutSeconds"]) == ("queued", True, 3600)
        assert (await client.get(f"/api/jobs/{beside}")).json()["serial"] is False
        assert (await client.post(f"/api/jobs/{dropped}/cancel")).json()["status"] == "cancelled"
        doors.door(first).set()
        assert await doors.next() == sooner
        await pass_by(client)
        assert doors.inside == {sooner, beside, foreign}
        # The one that runs is cancelled: the line goes on as well.
        await client.post(f"/api/jobs/{sooner}/cancel")
        assert await doors.next() == later
        for run_id in (later, beside, foreign):
            doors.door(run_id).set()
            assert (await reached(client, run_id))["status"] == "completed"
        assert await status(client, sooner) == await status(client, dropped) == "cancelled"


@pytest.mark.requirement("CM-3")
async def test_after_three_interactive_jobs_of_a_line_an_old_background_job_goes_first(
    settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(project_lines, "BACKGROUND_MS", -(10**9))  # old enough at once
    async with opened(settings, tmp_path) as (client, doors):
        jobs = [await put(client, tmp_path.name) for _ in range(4)]
        assert await doors.next() == jobs[0]
        patient = await put(client, tmp_path.name, priority="background")
        await pass_by(client)
        order = [jobs[0]]
        while len(order) < 5:
            doors.door(order[-1]).set()
            order.append(await doors.next())
            assert doors.inside == {order[-1]}
        doors.door(order[-1]).set()
        assert order == [*jobs[:3], patient, jobs[3]]
        assert (await reached(client, order[-1]))["status"] == "completed"


@pytest.mark.requirement("CM-3")
async def test_a_job_that_is_to_be_tried_again_later_or_hangs_holds_nobody_up_for_ever(
    settings: Settings, tmp_path: Path
) -> None:
    async with opened(settings, tmp_path) as (client, doors):
        failing = await put(client, tmp_path.name, input="fail", attempts=2, backoffSeconds=3600)
        assert await doors.next() == failing
        # It waits for the one behind it, which cannot begin: its time ends that.
        hanging = await put(client, tmp_path.name, timeoutSeconds=0.3)
        behind = await put(client, tmp_path.name)
        doors.door(failing).set()
        entered = [await doors.next()]
        while entered[-1] != behind:
            entered.append(await doors.next())
        assert entered in ([hanging, behind], [behind])  # on a busy machine its time may end before it enters
        ended = await reached(client, hanging)
        assert (ended["status"], ended["error"]["code"]) == ("failed", "JOB_TIMEOUT")
        assert await status(client, failing) == "queued" and doors.inside == {behind}
        doors.door(behind).set()
        assert (await reached(client, behind))["status"] == "completed"
        assert (await client.post(f"/api/jobs/{failing}/cancel")).json()["status"] == "cancelled"


async def test_a_job_whose_thread_is_taken_lets_the_others_of_its_line_go_first(
    settings: Settings, tmp_path: Path
) -> None:
    async with opened(settings, tmp_path) as (client, doors):
        thread = (await client.post("/api/threads", json={})).json()["id"]
        taken = await put(client, None, serial=None, threadId=thread)
        assert await doors.next() == taken
        blocked = await put(client, tmp_path.name, threadId=thread)
        free = await put(client, tmp_path.name)
        assert await doors.next() == free
        doors.door(taken).set()
        await reached(client, taken)
        await pass_by(client)
        assert doors.inside == {free}
        doors.door(free).set()
        assert await doors.next() == blocked
        # One that was to begin later stands behind those that are on its thread already.
        delayed = await put(client, tmp_path.name, threadId=thread, notBefore="2020-01-01T00:00:00Z")
        last = await put(client, tmp_path.name, threadId=thread)
        order = [blocked]
        for _ in range(2):
            doors.door(order[-1]).set()
            order.append(await doors.next())
        doors.door(order[-1]).set()
        assert set(order[1:]) == {delayed, last}
        for run_id in order:
            assert (await reached(client, run_id))["status"] == "completed"


HOLDING: Final = """\
apiVersion: holdfast/v1
kind: Runtime
metadata: {name: holding}
spec: {defaultAgent: holder}
---
apiVersion: holdfast/v1
kind: Model
metadata: {name: script}
spec:
  provider: scripted
  model: script
  capabilities: {streaming: true, tools: true}
  script:
    rules: [{match: {contains: hold on, turn: 1}, reply: {toolCalls: [{name: hold}]}}]
    default: {text: ok}
---
apiVersion: holdfast/v1
kind: Tool
metadata: {name: hold, description: Waits for a file.}
spec: {kind: python, entry: holding:hold, effect: readonly, timeoutSeconds: 120, input: {type: object}}
---
apiVersion: holdfast/v1
kind: Agent
metadata: {name: holder}
spec: {model: script, tools: [hold]}
"""
TOOL: Final = """\
import asyncio
from pathlib import Path


async def hold():
    while not Path({path!r}).exists():
        await asyncio.sleep(0.02)
    return {{}}
"""


async def spans(client: httpx2.AsyncClient, jobs: list[str]) -> list[tuple[str, str, list[str]]]:
    """Of each job: when it was first begun, when it ended, and what was said of its beginnings."""
    found = []
    for run_id in jobs:
        events = (await client.get(f"/api/runs/{run_id}/events", params={"limit": 500})).json()["items"]
        types = [event["type"].removeprefix("runtime.request.") for event in events]
        begun = [name for name in types if name in ("started", "resumed")]
        found.append((events[types.index("started")]["at"], events[-1]["at"], begun))
    return found


@pytest.mark.requirement("CM-3", "PX-4")
async def test_the_line_goes_on_when_the_server_is_killed_that_works_on_its_first(
    settings: Settings, tmp_path: Path
) -> None:
    """On Postgres another server goes on when the lease has run out; on SQLite the next one on the same folder."""
    root, freed = tmp_path / "workspace", tmp_path / "freed"
    root.mkdir()
    (root / "all.yaml").write_text(HOLDING)
    (root / "holding.py").write_text(TOOL.format(path=str(freed)))
    start = (settings.database_url, root, {"HOLDFAST_LEASE_SECONDS": "4"})
    one = await asyncio.to_thread(ServerProcess.start, tmp_path / "one", *start)
    two: ServerProcess | None = None
    try:
        async with httpx2.AsyncClient(base_url=one.url, timeout=SECONDS) as client:
            jobs = [await put(client, tmp_path.name, input=text) for text in ("hold on", "second")]
            await reached(client, jobs[0], "running")
        if settings.database_url is None:
            one.kill()
            two = await asyncio.to_thread(one.again)
        else:
            two = await asyncio.to_thread(ServerProcess.start, tmp_path / "two", *start)
        async with httpx2.AsyncClient(base_url=two.url, timeout=SECONDS) as client:
            jobs.append(await put(client, tmp_path.name, input="third"))
            await reached(client, await put(client, None, serial=None))
            assert [await status(client, run_id) for run_id in jobs] == ["running", "queued", "queued"]
            if one.is_running:
                one.kill()
            freed.touch()
            for run_id in jobs:
                assert (await reached(client, run_id))["status"] == "completed"
            times = await spans(client, jobs)
        begun = [names for _, _, names in times]
        # Leases are short here, and on a busy machine one may run out without anybody's death.
        assert begun[0][:2] == ["started", "resumed"] and [names[0] for names in begun] == ["started"] * 3
        assert all(end <= begin for (_, end, _), (begin, _, _) in itertools.pairwise(times)), times
    finally:
        for server in (one, two):
            if server is not None and server.is_running:
                await asyncio.to_thread(server.stop)
