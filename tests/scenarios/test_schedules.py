"""Schedules through the front door: every due time fires once, whatever the clocks and the servers do."""

import asyncio
import contextlib
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, date, datetime, time, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import httpx2
import pytest

from app.backends.contract import Context, Result, Resume
from app.core.clock import ManualClock, iso
from app.core.settings import Settings
from app.events.ports import StoreError
from app.runtime.automation.due_times import due_between, next_due
from app.runtime.automation.schedule_desk import ScheduleDesk
from app.runtime.intake.ledger import Ledger
from app.store.schedules import ScheduleTable
from app.views.ports import JobFilter
from app.views.run import Run
from app.workspace.specs.others import ScheduleSpec
from tests.server import InProcessServer, in_process

WORKSPACE = """\
apiVersion: holdfast/v1
kind: Runtime
metadata: {name: times}
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
ZONES = ("Europe/Berlin", "America/New_York", "Australia/Lord_Howe")
YEAR = 2026


def schedule(name: str, spec: str) -> str:
    return f"---\napiVersion: holdfast/v1\nkind: Schedule\nmetadata: {{name: {name}}}\nspec: {{{spec}}}\n"


class Worker:
    kind = "native"
    resume: Resume = "replay"

    def __init__(self) -> None:
        self.open = asyncio.Event()
        self.open.set()

    async def run(self, ctx: Context) -> Result:
        await self.open.wait()
        return "done"


class Dies:
    """A table whose server dies the first time it would note that a due time was dealt with."""

    def __init__(self, table: ScheduleTable) -> None:
        self._table = table
        self._died: set[tuple[Any, ...]] = set()

    @property
    def deaths(self) -> int:
        return len(self._died)

    async def advance(self, *noted: Any) -> None:
        if noted not in self._died:
            self._died.add(noted)
            raise StoreError("STORAGE_FAILED", "killed")
        await self._table.advance(*noted)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._table, name)


@asynccontextmanager
async def serving(
    settings: Settings, tmp_path: Path, clock: ManualClock, *schedules: str
) -> AsyncIterator[tuple[InProcessServer, Worker, httpx2.AsyncClient]]:
    root = tmp_path / "workspace"
    root.mkdir(exist_ok=True)
    (root / "all.yaml").write_text(WORKSPACE + "".join(schedules))
    settings = settings.model_copy(update={"workspace": root, "data_dir": tmp_path / "data"})
    settings.data_dir.mkdir(exist_ok=True)
    worker = Worker()
    async with (
        in_process(settings, {"native": worker}, clock=clock) as server,
        httpx2.AsyncClient(base_url=server.url, timeout=60) as client,
    ):
        await server.holdfast.automation.schedules.close()  # the test says when time passes
        yield server, worker, client


def replica(server: InProcessServer, clock: ManualClock, *, dies: bool = False) -> tuple[ScheduleDesk, Any]:
    """Another server's desk on the same database."""
    holdfast = server.holdfast
    table: Any = ScheduleTable(holdfast.store.database)
    if dies:
        table = Dies(table)
    ledger, reader = Ledger(holdfast.store.recorder), holdfast.store.reader
    desk = ScheduleDesk(
        table, holdfast.service, holdfast.lifecycle, reader, ledger, clock, lambda: holdfast.workspace.loaded
    )
    return desk, table


async def until_it_lives(dying: ScheduleDesk) -> None:
    """Dies at every note that it would make for the first time, and is started again."""
    while True:
        with contextlib.suppress(StoreError):
            await dying.tick()
            return


async def fired(server: InProcessServer, name: str) -> list[Run]:
    found: list[Run] = []
    place = None
    while True:
        wanted = JobFilter(type=f"schedule:{name}")
        page, place = await server.holdfast.store.reader.list_jobs("default", wanted, place, 500)
        found += page
        if place is None:
            return found


async def idle(server: InProcessServer) -> None:
    executor = server.holdfast.executor
    async with asyncio.timeout(30):
        while executor.running or executor.waiting:  # noqa: ASYNC110  # there is no event for it
            await asyncio.sleep(0.005)


def daily(zone: str, at: time, first: date, days: int) -> set[str]:
    """By hand: on each date the first minute at which the clock on the wall shows that time or a later one."""
    found: set[str] = set()
    for number in range(days):
        wanted = datetime.combine(first + timedelta(days=number), at)
        moment = (wanted - timedelta(hours=16)).replace(tzinfo=UTC)
        while moment.astimezone(ZoneInfo(zone)).replace(tzinfo=None) < wanted:
            moment += timedelta(minutes=15)  # times and changes of these clocks are multiples of it
        found.add(iso(round(moment.timestamp() * 1000)))
    return found


def spec(**given: Any) -> ScheduleSpec:
    return ScheduleSpec.model_validate({"run": {"agent": "worker"}, **given})


@pytest.mark.requirement("PX-11", "HK-31")
@pytest.mark.parametrize("zone", ZONES)
def test_a_daily_time_is_due_once_a_day_in_every_zone_all_year(zone: str) -> None:
    start = round(datetime(YEAR, 1, 1, tzinfo=ZoneInfo(zone)).timestamp() * 1000)
    end = round(datetime(YEAR + 1, 1, 1, tzinfo=ZoneInfo(zone)).timestamp() * 1000)
    found = due_between(spec(cron="15 2 * * *", timezone=zone), start, end)
    assert {iso(due) for due in found} == daily(zone, time(2, 15), date(YEAR, 1, 1), 365)
    assert len(found) == 365
    days = (end - start) // 86_400_000
    half_hours = [due for due in next_due(spec(cron="*/30 * * * *", timezone=zone), start - 1, 18_000) if due < end]
    assert len(half_hours) == days * 48, "one that runs all day loses and repeats no half hour"
    assert {b - a for a, b in pairwise(half_hours)} == {1_800_000}


async def _simulate(settings: Settings, tmp_path: Path, begin: date, days: int, hours: int = 1) -> None:
    """Three servers: each due time is first handled by one that dies before it notes it, then by the others."""
    name = f"y{begin:%Y%m%d}"
    documents = [
        schedule(f"{name}-{n}", f'cron: "15 2 * * *", timezone: {zone}, missed: all, run: {{agent: worker}}')
        for n, zone in enumerate(ZONES)
    ]
    start = round(datetime.combine(begin, time(), UTC).timestamp() * 1000)
    clock = ManualClock(start)
    async with serving(settings, tmp_path, clock, *documents) as (server, _, _client):
        dying, table = replica(server, clock, dies=True)
        others = [replica(server, clock)[0] for _ in range(2)]
        await others[0].tick()
        for _ in range(days * 24 // hours):
            clock.advance(3600 * hours)
            await until_it_lives(dying)
            await asyncio.gather(dying.tick(), *(one.tick() for one in others))
            await idle(server)
        expected_deaths = 0
        for n, zone in enumerate(ZONES):
            times = Counter(run.metadata["dueAt"] for run in await fired(server, f"{name}-{n}"))
            near = daily(zone, time(2, 15), begin - timedelta(days=1), days + 2)
            expected = {due for due in near if iso(start) < due <= iso(clock.now_ms())}
            assert times == Counter(expected)
            assert len(expected) == days
            expected_deaths += days
        assert table.deaths >= expected_deaths


@pytest.mark.requirement("PX-11", "HK-31")
@pytest.mark.parametrize("begin", [date(YEAR, 3, 28), date(YEAR, 10, 31)])
async def test_three_servers_fire_each_due_time_once_across_daylight_saving_though_they_die(
    settings: Settings, tmp_path: Path, begin: date
) -> None:
    await _simulate(settings, tmp_path, begin, 2)


@pytest.mark.faults
@pytest.mark.timeout(3600)
@pytest.mark.requirement("PX-11", "HK-31")
async def test_three_servers_fire_each_due_time_of_a_year_once(settings: Settings, tmp_path: Path) -> None:
    await _simulate(settings, tmp_path, date(YEAR + 1, 1, 1), 365, hours=6)


@pytest.mark.requirement("PX-11")
async def test_missed_times_are_skipped_made_up_for_once_or_all_of_them(settings: Settings, tmp_path: Path) -> None:
    clock = ManualClock(1_900_000_000_000)
    documents = [
        schedule(f"missed-{policy}", f"everySeconds: 3600, missed: {policy}, overlap: queue, run: {{agent: worker}}")
        for policy in ("skip", "once", "all")
    ]
    async with serving(settings, tmp_path, clock, *documents) as (server, _, _client):
        desk, _ = replica(server, clock)
        await desk.tick()
        clock.advance(5 * 3600 + 2 * 60)
        for _ in range(2):
            await desk.tick()
            await idle(server)
        counts = [len(await fired(server, f"missed-{policy}")) for policy in ("skip", "once", "all")]
        assert counts == [0, 1, 5]


@pytest.mark.requirement("PX-11")
async def test_an_overlap_is_skipped_queued_or_cancels_the_run_before(settings: Settings, tmp_path: Path) -> None:
    clock = ManualClock(1_910_000_000_000)
    policies = ("skip", "queue", "cancel")
    documents = [
        schedule(f"over-{policy}", f"everySeconds: 60, overlap: {policy}, missed: all, run: {{agent: worker}}")
        for policy in policies
    ]
    async with serving(settings, tmp_path, clock, *documents) as (server, worker, _client):
        desk, _ = replica(server, clock)
        await desk.tick()
        worker.open.clear()
        for _ in range(3):
            clock.advance(60)
            await desk.tick()
        runs = {policy: await fired(server, f"over-{policy}") for policy in policies}
        assert [len(runs[policy]) for policy in policies] == [1, 3, 3]
        assert len({run.thread_id for run in runs["queue"]}) == 1
        worker.open.set()
        await idle(server)
        ended = {policy: sorted(run.status for run in await fired(server, f"over-{policy}")) for policy in policies}
        assert (ended["skip"], ended["queue"]) == (["completed"], ["completed"] * 3)
        assert ended["cancel"] == ["cancelled", "cancelled", "completed"]


@pytest.mark.requirement("PX-11")
async def test_schedules_are_listed_paused_resumed_run_created_and_deleted(settings: Settings, tmp_path: Path) -> None:
    clock = ManualClock(1_920_000_000_000)
    nightly = schedule("nightly", 'cron: "0 3 * * *", timezone: Europe/Berlin, run: {agent: worker, attempts: 3}')
    async with serving(settings, tmp_path, clock, nightly) as (server, _, client):
        desk, _ = replica(server, clock)
        await desk.tick()
        shown = (await client.get("/api/schedules/nightly", params={"count": 3})).json()
        assert len(shown["next"]) == 3 and shown["declared"] and not shown["paused"]
        assert [one["name"] for one in (await client.get("/api/schedules")).json()["items"]] == ["nightly"]
        paused = (await client.post("/api/schedules/nightly/pause")).json()
        assert (paused["paused"], paused["next"]) == (True, [])
        clock.advance(3 * 86_400)
        await desk.tick()
        assert await fired(server, "nightly") == []
        assert (await client.post("/api/schedules/nightly/resume")).json()["paused"] is False
        await desk.tick()
        assert await fired(server, "nightly") == [], "what became due in a pause is not made up for"
        run = await client.post("/api/schedules/nightly/run")
        assert run.status_code == 202 and run.json()["labels"] == {"schedule": "nightly"}
        assert (await client.delete("/api/schedules/nightly")).json()["error"]["code"] == "SCHEDULE_DECLARED"
        at = iso(clock.now_ms() + 1000)
        once = {"name": "once", "spec": {"at": at, "run": {"agent": "worker", "input": "now"}}}
        made = await client.post("/api/schedules", json=once)
        assert (made.status_code, made.json()["next"]) == (201, [at])
        assert (await client.post("/api/schedules", json=once)).json()["error"]["code"] == "SCHEDULE_EXISTS"
        clock.advance(2)
        await asyncio.gather(desk.tick(), replica(server, clock)[0].tick())
        (only,) = await fired(server, "once")
        assert only.input == "now" and only.metadata["dueAt"] == at
        await idle(server)
        assert (await client.delete("/api/schedules/once")).status_code == 204


async def test_a_schedule_that_could_never_run_anything_is_refused(settings: Settings, tmp_path: Path) -> None:
    async with serving(settings, tmp_path, ManualClock(1_930_000_000_000)) as (_, _worker, client):
        zone = {"cron": "* * * * *", "timezone": "X/Y"}
        late, early = {"at": "9999-12-31T23:59:59-14:00"}, {"at": "0001-01-01T00:00:00+14:00"}
        for wrong in ({"cron": "0 0 31 2 *"}, {"cron": "x"}, {"at": "tomorrow"}, zone, {}, late, early):
            body = {"name": "w", "spec": {**wrong, "run": {"agent": "worker"}}}
            refused = await client.post("/api/schedules", json=body)
            error = refused.json()["error"]
            assert (refused.status_code, error["code"]) == (400, "INVALID_REQUEST"), wrong
            place = "timezone" if wrong is zone else next(iter(wrong), "")
            assert [issue["path"] for issue in error["issues"]] == [f"/spec/{place}".rstrip("/")]
            assert "Value error" not in refused.text
        passed = {"at": "2020-01-01T00:00:00Z", "run": {"agent": "worker"}}
        other_tenant = {"everySeconds": 60, "tenant": "other", "run": {"agent": "worker"}}
        for spec, code in (
            (passed, "INVALID_REQUEST"),
            (other_tenant, "INVALID_REQUEST"),
            ({"everySeconds": 60, "run": {"tool": "worker", "input": "text"}}, "INVALID_REQUEST"),
            ({"everySeconds": 60, "run": {"agent": "nobody"}}, "AGENT_NOT_FOUND"),
            ({"everySeconds": 60, "run": {"workflow": "nobody"}}, "WORKFLOW_NOT_FOUND"),
            ({"everySeconds": 60, "run": {"tool": "nobody", "input": {}}}, "TOOL_NOT_FOUND"),
        ):
            refused = await client.post("/api/schedules", json={"name": "w", "spec": spec})
            assert refused.json()["error"]["code"] == code, spec
        # What a client chose to call its job never stands in the way of a schedule.
        taken = await client.post("/api/runs", json={"agent": "worker", "input": "x", "jobType": "schedule:w"})
        assert taken.json()["error"]["issues"][0]["message"].startswith("a `jobType` that begins with `schedule:`")
        named = {"cron": "0 9 * JAN-mar MON,wed", "run": {"agent": "worker"}}
        made = await client.post("/api/schedules", json={"name": "named", "spec": named})
        assert made.status_code == 201 and len(made.json()["next"]) == 5
        listed = (await client.get("/api/schedules")).json()["items"]
        assert [one["name"] for one in listed] == ["named"]
