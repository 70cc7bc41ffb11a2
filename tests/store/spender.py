"""One of several processes that spend the same budgets at the same time; says on standard output what it was granted.

python -m tests.store.spender URL KIND COUNT
"""

import asyncio
import random
import sys
import time

from app.core.clock import SystemClock
from app.core.errors import Failure
from app.models.completion import TokenUsage
from app.models.contract import Estimate
from app.models.shared_limits import SharedLimits
from app.runtime.run.budgets import SharedDay
from app.store import postgres
from app.store.postgres import PostgresDatabase
from app.store.shared_limits import ModelLimitRecords, RunBuckets, TenantDays
from app.workspace.specs.model import ModelLimits
from app.workspace.specs.runtime import TenantBudget
from tests.models.provider_setup import a_model

postgres.ANSWER_SECONDS = 10.0  # type: ignore[attr-defined]  # as in tests/conftest.py: a busy machine decides nothing here

TOKENS_PER_DAY = 3_000
RUNS_PER_MINUTE = 40
CONCURRENCY = 3
REQUESTS_PER_MINUTE = 25


async def day(database: PostgresDatabase, count: int) -> int:
    """Tokens used. Each call reserves 10 and uses 1 to 10."""
    shared = SharedDay(TenantDays(database), _nothing, "t", TenantBudget.model_construct(tokens_per_day=TOKENS_PER_DAY))
    used = 0

    async def call() -> None:
        nonlocal used
        reserved = await shared.reserve(Estimate("m", 4, 6, 0.0))
        if not isinstance(reserved, Failure):
            spent = random.randint(1, 10)
            await shared.settle(reserved, TokenUsage(input_tokens=spent))
            used += spent

    await asyncio.gather(*(call() for _ in range(count)))
    return used


async def _nothing(_tenant: str, _since: int) -> tuple[int, float]:
    return 0, 0.0


async def runs(database: PostgresDatabase, count: int) -> int:
    buckets = RunBuckets(database)
    answers = await asyncio.gather(*(buckets.take("t", RUNS_PER_MINUTE) for _ in range(count)))
    return sum(answer is None for answer in answers)


async def models(database: PostgresDatabase, count: int) -> int:
    """Calls that were granted before the minute's limit: each holds its place for a moment and writes down when. The
    others wait until a line says that it is enough."""
    limits = SharedLimits(ModelLimitRecords(database), SystemClock())
    config = a_model("m", "scripted", "test", limits=_limits())
    granted = 0

    async def call(number: int) -> None:
        nonlocal granted
        slot = await limits.acquire(config, f"t{number % 3}", 1)
        granted += 1
        print("from", time.time(), flush=True)
        await asyncio.sleep(0.02)
        print("to", time.time(), flush=True)
        limits.release(slot, 1)

    calls = [asyncio.create_task(call(number)) for number in range(count)]
    await asyncio.to_thread(sys.stdin.readline)
    for one in calls:
        one.cancel()
    await asyncio.wait(calls)
    await limits.close()
    return granted


def _limits() -> ModelLimits:
    return ModelLimits.model_construct(concurrency=CONCURRENCY, requests_per_minute=REQUESTS_PER_MINUTE)


async def main(url: str) -> None:
    database = PostgresDatabase(url)
    for kind, spend, count in (("day", day, 300), ("runs", runs, 60), ("models", models, 20)):
        print("ready", flush=True)
        await asyncio.to_thread(sys.stdin.readline)
        print(kind, await spend(database, count), flush=True)
    await database.close()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1]))
