"""Budgets and rates that several processes share on one Postgres: never more than there is, however they race."""

import asyncio
import itertools
import sys
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass

import asyncpg
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.core.clock import ManualClock
from app.core.errors import Failure
from app.models.completion import TokenUsage
from app.models.contract import Estimate
from app.models.shared_limits import WINDOW, LimitState, SharedLimits
from app.runtime.run.budgets import SharedDay
from app.store.engine import Database
from app.store.postgres import PostgresDatabase
from app.store.shared_limits import RunBuckets, TenantDays, purge_old_counts
from app.workspace.specs.model import ModelLimits
from app.workspace.specs.runtime import TenantBudget
from tests.databases import create_database
from tests.models.provider_setup import a_model
from tests.postgres import PostgresServer
from tests.server import ROOT, clean_environment
from tests.store.spender import CONCURRENCY, REQUESTS_PER_MINUTE, RUNS_PER_MINUTE, TOKENS_PER_DAY
from tests.waiting import until

PROCESSES = 3
QUIET_SECONDS = 4.0
"""How long nobody may be granted more than the minute has, once it is used up."""
_names = itertools.count(1)


@pytest.fixture
async def url(postgres_server: PostgresServer) -> str:
    name = f"shared_{next(_names)}"
    await create_database(postgres_server, name)
    return postgres_server.url(name)


@pytest.fixture
async def database(url: str) -> AsyncIterator[Database]:
    made = PostgresDatabase(url)
    yield made
    await made.close()


@dataclass
class Race:
    """What all processes together were granted, and when their model calls began and ended."""

    url: str
    granted: dict[str, int]
    seconds: dict[str, float]
    moments: list[tuple[float, int]]

    @property
    def ended(self) -> int:
        """Model calls that were granted and are over."""
        return sum(step < 0 for _, step in self.moments)


@pytest.fixture(scope="module")
def race(postgres_server: PostgresServer) -> Race:
    asyncio.run(create_database(postgres_server, "shared_race"))
    return asyncio.run(_race(postgres_server.url("shared_race")))


async def _race(url: str) -> Race:
    command, pipe = [sys.executable, "-m", "tests.store.spender", url], asyncio.subprocess.PIPE
    racing = [
        await asyncio.create_subprocess_exec(*command, stdin=pipe, stdout=pipe, cwd=ROOT, env=clean_environment())
        for _ in range(PROCESSES)
    ]
    race = Race(url, {}, {}, [])
    try:
        await _run_race(racing, race)
    finally:
        for one in racing:
            if one.returncode is None:
                one.kill()
            await one.communicate()
    return race


async def _run_race(racing: list[asyncio.subprocess.Process], race: Race) -> None:
    for kind in ("day", "runs", "models"):
        for one in racing:
            assert one.stdout is not None and (await one.stdout.readline()) == b"ready\n"
        began = time.monotonic()
        for one in racing:
            assert one.stdin is not None
            one.stdin.write(b"go\n")
        granted = asyncio.gather(*(_granted(one, kind, race) for one in racing))
        if kind == "models":
            await _used_up(granted, race)
            for one in racing:
                assert one.stdin is not None
                one.stdin.write(b"enough\n")
        race.granted[kind] = sum(await granted)
        race.seconds[kind] = time.monotonic() - began
    assert [await one.wait() for one in racing] == [0] * PROCESSES


async def _used_up(granted: "asyncio.Future[list[int]]", race: Race) -> None:
    """Returns when the minute's calls are over and nobody was granted more for a while, or when a process failed."""
    await until(lambda: granted.done() or race.ended >= REQUESTS_PER_MINUTE, 60)
    await asyncio.wait({granted}, timeout=QUIET_SECONDS)


async def _granted(one: asyncio.subprocess.Process, kind: str, race: Race) -> int:
    assert one.stdout is not None
    while True:
        what, number = (await one.stdout.readline()).decode().split()
        if what == kind:
            return int(number)
        race.moments.append((float(number), 1 if what == "from" else -1))


@pytest.mark.requirement("PX-8")
async def test_servers_that_race_never_spend_more_than_the_tenants_day(race: Race) -> None:
    connection = await asyncpg.connect(race.url)
    counted = await connection.fetchval("SELECT sum(tokens) FROM tenant_days WHERE tenant = 't'")
    await connection.close()
    assert counted == race.granted["day"] <= TOKENS_PER_DAY
    # How much was refused while calls were under way is chance. What is left can be had, and no token more.
    left, database = TOKENS_PER_DAY - counted, PostgresDatabase(race.url)
    day = SharedDay(TenantDays(database), _nothing, "t", TenantBudget.model_construct(tokens_per_day=TOKENS_PER_DAY))
    assert isinstance(await day.reserve(Estimate("m", left + 1, 0, 0.0)), Failure)
    if left:
        assert not isinstance(await day.reserve(Estimate("m", left, 0, 0.0)), Failure)
    await database.close()


@pytest.mark.requirement("PX-8")
def test_servers_that_race_start_no_more_runs_than_the_minute_has(race: Race) -> None:
    refilled = race.seconds["runs"] * RUNS_PER_MINUTE / 60
    assert RUNS_PER_MINUTE <= race.granted["runs"] <= RUNS_PER_MINUTE + refilled + 1


@pytest.mark.requirement("HK-31")
def test_servers_that_race_keep_a_models_limits_together(race: Race) -> None:
    assert race.granted["models"] == REQUESTS_PER_MINUTE
    at_once = list(itertools.accumulate(step for _, step in sorted(race.moments)))
    assert max(at_once) <= CONCURRENCY
    assert at_once[-1] == 0


async def test_a_day_begins_with_what_the_log_says_and_ends_with_its_limit(database: Database) -> None:
    async def spent(tenant: str, since: int) -> tuple[int, float]:
        assert tenant == "t" and since % 86_400_000 == 0
        return 70, 0.5

    budget = SharedDay(
        TenantDays(database), spent, "t", TenantBudget.model_construct(tokens_per_day=100, cost_usd_per_day=1.0)
    )
    first = await budget.reserve(Estimate("m", 10, 10, 0.1))
    assert not isinstance(first, Failure)
    refused = await budget.reserve(Estimate("m", 10, 10, 0.1))
    assert isinstance(refused, Failure) and refused.code == "BUDGET_EXCEEDED"
    assert refused.detail == {"budget": "tokens", "limit": 100, "used": 90, "scope": "tenant"}
    await budget.settle(first, TokenUsage(input_tokens=1, cost_usd=0.45))
    costly = await budget.reserve(Estimate("m", 1, 1, 0.1))
    assert isinstance(costly, Failure) and costly.detail == {
        "budget": "cost", "limit": 1.0, "used": 0.95, "scope": "tenant"
    }  # fmt: skip
    assert not isinstance(await budget.reserve(Estimate("m", 10, 10, 0.01)), Failure)
    other = SharedDay(TenantDays(database), _nothing, "u", TenantBudget.model_construct(tokens_per_day=20))
    assert not isinstance(await other.reserve(Estimate("m", 10, 10, 5.0)), Failure)


async def _nothing(_tenant: str, _since: int) -> tuple[int, float]:
    return 0, 0.0


async def test_a_run_given_back_can_be_taken_again_and_tenants_do_not_share(database: Database) -> None:
    buckets = RunBuckets(database)
    assert await buckets.take("t", 1) is None
    left = await buckets.take("t", 1)
    assert left is not None and 0 <= left < 1
    assert await buckets.take("u", 1) is None
    await buckets.give_back("t", 1)
    assert await buckets.take("t", 1) is None
    # Under another limit what was used stays used.
    assert await buckets.take("t", 3) is None and await buckets.take("t", 3) is None
    assert await buckets.take("t", 3) is not None


async def test_old_counts_are_purged(database: Database, url: str) -> None:
    connection = await asyncpg.connect(url)
    today = await connection.fetchval("SELECT CAST(extract(epoch FROM clock_timestamp()) * 1000 AS bigint) / 86400000")
    await connection.executemany("INSERT INTO tenant_days VALUES ($1, $2, 1, 1)", [("t", today - n) for n in range(4)])
    await connection.execute("INSERT INTO run_rates VALUES ('old', 1, 0, 1), ('new', 1, $1, 1)", (today + 1) * 86400000)
    await purge_old_counts(database)
    assert [row[0] for row in await connection.fetch("SELECT day FROM tenant_days ORDER BY 1")] == [today - 1, today]
    assert [row[0] for row in await connection.fetch("SELECT tenant FROM run_rates")] == ["new"]
    await connection.close()


class Records:
    """In memory, with somebody else who may write in between."""

    def __init__(self) -> None:
        self.state: dict[str, object] = {}
        self.version, self.now_ms, self.conflicts = 0, 1_000_000, 0

    async def read(self, name: str) -> tuple[dict[str, object], int, int]:
        return self.state, self.version, self.now_ms

    async def replace(self, name: str, version: int, state: dict[str, object]) -> int | None:
        await asyncio.sleep(0)
        if self.conflicts:
            self.conflicts -= 1
            self.version += 1
        if version != self.version:
            return None
        self.state, self.version = state, version + 1
        return self.now_ms


async def test_a_lost_race_is_worked_out_again_and_tenants_take_turns() -> None:
    records, order = Records(), list[str]()
    records.conflicts = 3
    limits = SharedLimits(records, ManualClock(), "me")
    config = a_model("m", "scripted", "test", limits=ModelLimits.model_construct(concurrency=1))

    async def call(tenant: str) -> None:
        slot = await limits.acquire(config, tenant, 1)
        order.append(tenant)
        await asyncio.sleep(0)
        limits.release(slot, 1)

    calls = [asyncio.create_task(call("noisy")) for _ in range(4)] + [asyncio.create_task(call("quiet"))]
    async with asyncio.timeout(30):
        await asyncio.gather(*calls)
        await until(lambda: not records.state.get("held"))
    assert order[:2] == ["noisy", "quiet"]
    await limits.close()


async def test_the_places_of_a_dead_server_count_until_they_expire() -> None:
    records = Records()
    records.state = {"held": {"dead": [2, records.now_ms + 50]}}
    limits = SharedLimits(records, ManualClock(), "me")
    config = a_model("m", "scripted", "test", limits=ModelLimits.model_construct(concurrency=2))
    waiting = asyncio.create_task(limits.acquire(config, "t", 1))
    await asyncio.sleep(0.05)
    assert not waiting.done()
    records.now_ms += 100
    async with asyncio.timeout(30):
        limits.release(await waiting, 1)
    await limits.close()


async def test_a_call_that_is_given_up_leaves_no_place_behind() -> None:
    records = Records()
    limits = SharedLimits(records, ManualClock(), "me")
    config = a_model("m", "scripted", "test", limits=ModelLimits.model_construct(concurrency=1))
    first = await limits.acquire(config, "t", 1)
    waiting = asyncio.create_task(limits.acquire(config, "t", 1))
    await asyncio.sleep(0.01)
    waiting.cancel()
    await asyncio.wait({waiting})
    limits.release(first, 1)
    async with asyncio.timeout(30):
        limits.release(await limits.acquire(config, "t", 1), 1)
        await until(lambda: not records.state.get("held"))
    await limits.close()


_CALLS = st.lists(st.tuples(st.integers(0, 9_000), st.integers(1, 40), st.integers(0, 40)), max_size=60)


@given(_CALLS, st.integers(1, 10), st.integers(1, 60))
def test_no_minute_has_more_than_its_limit(calls: list[tuple[int, int, int]], requests: int, tokens: int) -> None:
    """Calls come after some milliseconds each, ask for so many tokens and use so many of them."""
    limits = ModelLimits.model_construct(requests_per_minute=requests, tokens_per_minute=tokens)
    now, state = 5_000_000, LimitState()
    spent: list[tuple[int, int]] = []
    for pause, wanted, used in calls:
        now += pause
        state = LimitState.of(state.as_json(), now)
        wait = state.wait(limits, wanted, "me", 0, now)
        if wait == 0.0:
            second = state.spend(wanted, now)
            real = min(used, wanted)
            state.correct(second, real - wanted)
            spent.append((now, real))
        else:
            assert wait is not None and 0 < wait <= WINDOW
    for start, _ in spent:
        within = [amount for at, amount in spent if start <= at < start + 60_000]
        assert len(within) <= requests
        # A call that exceeds the limit alone is granted an empty window.
        assert sum(min(amount, tokens) for amount in within) <= tokens
