"""Jobs through the front door: attempts, delays, dedupe and cancels, each ending exactly once."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import httpx2
import pytest

from app.backends.contract import Context, Result, Resume
from app.core.clock import ManualClock, iso
from app.core.errors import HoldfastError
from app.core.settings import Settings
from tests.server import InProcessServer, in_process
from tests.store_equals_replay import assert_tables_equal_replay

WORKSPACE = """\
apiVersion: holdfast/v1
kind: Runtime
metadata: {name: jobs}
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
"""


class Worker:
    """Does as its input says: succeeds, fails a number of times, or works until it is stopped."""

    kind = "native"
    resume: Resume = "replay"

    def __init__(self) -> None:
        self.entered: Counter[str] = Counter()
        self.prepared = 0
        self.hanging = asyncio.Event()

    async def run(self, ctx: Context) -> Result:
        wanted: dict[str, Any] = ctx.input
        self.entered[ctx.run_id] += 1
        await ctx.step("prepare", "keyed", self._prepare)
        if wanted.get("hang"):
            self.hanging.set()
            await asyncio.Event().wait()
        if self.entered[ctx.run_id] <= wanted.get("fail", 0):
            raise HoldfastError("PROVIDER_UNREACHABLE", "try again", retryable=wanted.get("retryable", True))
        return "done"

    async def _prepare(self) -> dict[str, Any]:
        self.prepared += 1
        return {}


Queue = tuple[InProcessServer, Worker, httpx2.AsyncClient]


@asynccontextmanager
async def queue(
    settings: Settings, tmp_path: Path, clock: ManualClock | None = None
) -> AsyncIterator[tuple[InProcessServer, Worker, httpx2.AsyncClient]]:
    root = tmp_path / "workspace"
    root.mkdir()
    (root / "all.yaml").write_text(WORKSPACE)
    settings = settings.model_copy(update={"workspace": root, "data_dir": tmp_path / "data"})
    settings.data_dir.mkdir()
    worker = Worker()
    async with in_process(settings, {"native": worker}, clock=clock) as server:
        async with httpx2.AsyncClient(base_url=server.url, timeout=60) as client:
            yield server, worker, client
        await assert_tables_equal_replay(server.holdfast.store)


async def put(client: httpx2.AsyncClient, given: dict[str, Any], *, wait: float = 0, **job: Any) -> httpx2.Response:
    return await client.post("/api/runs", params={"wait": wait}, json={"input": given, **job})


async def types_of(client: httpx2.AsyncClient, run: str) -> list[str]:
    events = (await client.get(f"/api/runs/{run}/events", params={"limit": 500})).json()["items"]
    return [event["type"].removeprefix("runtime.") for event in events]


def in_ms(milliseconds: float) -> str:
    return (datetime.now(UTC) + timedelta(milliseconds=milliseconds)).isoformat()


@pytest.mark.requirement("CM-3")
async def test_all_attempts_are_one_run_and_only_the_last_writes_its_end(settings: Settings, tmp_path: Path) -> None:
    async with queue(settings, tmp_path) as (_, worker, client):
        answer = await put(client, {"fail": 2}, wait=20, attempts=4, backoffSeconds=0.1, jobType="report")
        run = answer.json()
        assert (answer.status_code, run["status"], run["output"]) == (200, "completed", "done")
        assert worker.entered[run["id"]] == 3
        assert worker.prepared == 1, "what an earlier attempt completed is not done again"
        types = await types_of(client, run["id"])
        assert [name for name in types if name.startswith("job.") and name != "job.progress"] == [
            "job.queued", "job.started", "job.retry.scheduled", "job.started", "job.retry.scheduled", "job.started",
            "job.completed",
        ]  # fmt: skip
        assert types.count("request.failed") == 0 and types[-1] == "request.completed"
        job = (await client.get(f"/api/jobs/{run['id']}")).json()
        assert (job["type"], job["status"], job["attempt"], job["result"]) == ("report", "completed", 3, "done")
        assert [one["error"] and one["error"]["code"] for one in job["history"]] == ["PROVIDER_UNREACHABLE"] * 2 + [
            None
        ]
        assert job["progress"] == {"stage": "step", "steps": 1}


@pytest.mark.requirement("CM-3")
async def test_a_poison_job_ends_as_failed_with_its_history(settings: Settings, tmp_path: Path) -> None:
    async with queue(settings, tmp_path) as (_, _worker, client):
        poison = (await put(client, {"fail": 99}, wait=20, attempts=3, backoffSeconds=0.1)).json()
        assert (poison["status"], poison["error"]["code"]) == ("failed", "PROVIDER_UNREACHABLE")
        job = (await client.get(f"/api/jobs/{poison['id']}")).json()
        assert [one["attempt"] for one in job["history"]] == [1, 2, 3]
        assert all(one["error"]["code"] == "PROVIDER_UNREACHABLE" and one["endedAt"] for one in job["history"])
        types = await types_of(client, poison["id"])
        assert (types.count("request.failed"), types.count("job.failed")) == (1, 1)
        # What would fail again is not tried again.
        final = (await put(client, {"fail": 1, "retryable": False}, wait=20, attempts=3)).json()
        assert final["status"] == "failed"
        assert (await client.get(f"/api/jobs/{final['id']}")).json()["attempt"] == 1


async def test_an_attempt_that_takes_too_long_is_ended(settings: Settings, tmp_path: Path) -> None:
    async with queue(settings, tmp_path) as (_, _worker, client):
        late = (await put(client, {"hang": True}, wait=20, attempts=2, backoffSeconds=0.1, timeoutSeconds=0.2)).json()
        assert (late["status"], late["error"]["code"]) == ("failed", "JOB_TIMEOUT")
        history = (await client.get(f"/api/jobs/{late['id']}")).json()["history"]
        assert [one["error"]["code"] for one in history] == ["JOB_TIMEOUT"] * 2


@pytest.mark.requirement("CM-3")
async def test_a_delayed_job_waits_without_a_worker_and_holds_nobody_up(settings: Settings, tmp_path: Path) -> None:
    clock = ManualClock()
    async with queue(settings, tmp_path, clock) as (server, _worker, client):
        executor = server.holdfast.executor
        thread = (await client.post("/api/threads", json={})).json()["id"]
        delayed = (await put(client, {}, threadId=thread, notBefore=iso(clock.now_ms() + 900_000))).json()
        assert delayed["status"] == "queued"
        assert (await client.get(f"/api/threads/{thread}")).json()["status"] == "idle"
        at_once = (await put(client, {}, threadId=thread, wait=20)).json()
        assert at_once["status"] == "completed", "a later run of the thread goes first"
        await asyncio.wait_for(executor.idle(), 30)
        assert executor.running == executor.waiting == 0
        assert (await client.get(f"/api/jobs/{delayed['id']}")).json()["status"] == "queued"
        clock.advance(900)
        executor.sweep_now()
        ended = await _ended(client, delayed["id"])
        assert ended["status"] == "completed" and ended["startedAt"] >= ended["notBefore"]
        far = (await put(client, {}, notBefore=in_ms(3_600_000))).json()
        cancelled = (await client.post(f"/api/jobs/{far['id']}/cancel")).json()
        assert (cancelled["status"], cancelled["startedAt"]) == ("cancelled", None)
        assert (await types_of(client, far["id"]))[-2:] == ["job.cancelled", "request.cancelled"]


@pytest.mark.requirement("CM-3")
async def test_a_dedupe_key_stands_for_one_active_job(settings: Settings, tmp_path: Path) -> None:
    async with queue(settings, tmp_path) as (_, _worker, client):
        key: dict[str, Any] = {"dedupeKey": "nightly", "projectId": "p"}
        answers = await asyncio.gather(*(put(client, {}, notBefore=in_ms(3_600_000), **key) for _ in range(12)))
        ids = {answer.json()["id"] for answer in answers}
        assert len(ids) == 1
        assert sum("x-deduplicated" in answer.headers for answer in answers) == 11
        (first,) = ids
        other = (await put(client, {}, dedupeKey="nightly", projectId="q", wait=20)).json()
        assert other["id"] != first, "the key of another project is another key"
        await client.post(f"/api/jobs/{first}/cancel")
        again = (await put(client, {}, wait=20, **key)).json()
        assert again["id"] != first and again["status"] == "completed"
        stored: dict[str, Any] = {"dedupe": "drop_duplicate", **key}
        once = (await put(client, {}, wait=20, **stored)).json()
        twice = await put(client, {}, **stored)
        assert (twice.json()["id"], twice.headers["x-deduplicated"]) == (once["id"], "true")


@pytest.mark.requirement("CM-3")
async def test_a_duplicate_adds_its_metadata_to_the_active_job(settings: Settings, tmp_path: Path) -> None:
    async with queue(settings, tmp_path) as (_, _worker, client):
        merging: dict[str, Any] = {"dedupeKey": "merged", "dedupe": "merge_duplicate", "notBefore": in_ms(3_600_000)}
        first = (await put(client, {}, metadata={"a": 1, "b": 1}, **merging)).json()
        many = await asyncio.gather(*(put(client, {}, metadata={"b": 2, f"c{n}": n}, **merging) for n in range(4)))
        assert {(one.json()["id"], one.headers["x-deduplicated"]) for one in many} == {(first["id"], "true")}
        shown = (await client.get(f"/api/runs/{first['id']}")).json()
        assert shown["metadata"] == {"a": 1, "b": 2, "c0": 0, "c1": 1, "c2": 2, "c3": 3}
        assert (await types_of(client, first["id"])).count("job.merged") == 4
        too_much = await put(client, {}, metadata={"large": "x" * 16_350}, **merging)
        assert (too_much.status_code, too_much.json()["error"]["code"]) == (422, "JOB_MERGE_TOO_LARGE")
        # When the first has ended its key is free, and nothing is added to it.
        await client.post(f"/api/jobs/{first['id']}/cancel")
        second = (await put(client, {}, metadata={"d": 1}, **merging)).json()
        assert second["id"] != first["id"] and second["metadata"] == {"d": 1}
        await client.post(f"/api/jobs/{second['id']}/cancel")


@pytest.mark.requirement("CM-3")
async def test_a_running_job_is_cancelled_once_and_not_tried_again(settings: Settings, tmp_path: Path) -> None:
    async with queue(settings, tmp_path) as (_, worker, client):
        run = (await put(client, {"hang": True}, attempts=5)).json()
        await asyncio.wait_for(worker.hanging.wait(), 30)
        await asyncio.gather(*(client.post(f"/api/jobs/{run['id']}/cancel") for _ in range(5)))
        ended = await _ended(client, run["id"])
        types = await types_of(client, run["id"])
        assert (ended["status"], ended["attempt"]) == ("cancelled", 1)
        assert (types.count("job.cancelled"), types.count("request.cancelled")) == (1, 1)
        # In the pause between two attempts nobody works on it: it ends at once.
        pausing = (await put(client, {"fail": 9}, attempts=5, backoffSeconds=3600)).json()
        await _until(client, pausing["id"], lambda job: job["nextAttemptAt"] is not None)
        assert (await client.post(f"/api/jobs/{pausing['id']}/cancel")).json()["status"] == "cancelled"


async def test_jobs_are_listed_by_what_they_are(settings: Settings, tmp_path: Path) -> None:
    async with queue(settings, tmp_path) as (_, _worker, client):
        await put(client, {}, wait=20)
        one = (await put(client, {}, wait=20, projectId="list", priority="background")).json()
        two = (await put(client, {}, wait=20, projectId="list", jobType="report", sourceSessionId="s")).json()

        async def listed(**query: str) -> list[str]:
            page = (await client.get("/api/jobs", params={"projectId": "list", **query})).json()
            return [job["id"] for job in page["items"]]

        assert await listed() == [two["id"], one["id"]]
        assert await listed(priority="background") == [one["id"]]
        assert await listed(type="report", sourceSessionId="s") == [two["id"]]
        assert await listed(status="queued") == []
        assert (await client.get("/api/jobs/run_nobody")).json()["error"]["code"] == "JOB_NOT_FOUND"
        plain = (await put(client, {}, wait=20)).json()
        assert (await client.get(f"/api/jobs/{plain['id']}")).status_code == 404
        assert (plain["priority"], one["priority"]) == (None, "background")
        for wrong in (
            {"attempts": 21},
            {"dedupe": "merge_duplicate"},
            {"notBefore": "0001-01-01T00:00:00+14:00"},
            {"notBefore": "0001-01-01T00:00:00Z"},
            {"notBefore": "9999-12-31T23:59:59-14:00"},
        ):
            assert (await put(client, {}, **wrong)).status_code == 400, wrong


async def _ended(client: httpx2.AsyncClient, job: str) -> dict[str, Any]:
    return await _until(client, job, lambda it: it["finishedAt"] is not None)


async def _until(client: httpx2.AsyncClient, job: str, holds: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
    async with asyncio.timeout(30):
        while True:
            found: dict[str, Any] = (await client.get(f"/api/jobs/{job}")).json()
            if holds(found):
                return found
            await asyncio.sleep(0.02)
