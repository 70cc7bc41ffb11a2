"""An executor that lost its lease appends nothing; replicas that write to the same threads lose nothing."""

import asyncio
import contextlib
import zlib
from pathlib import Path

import pytest

from app.backends.contract import Context, Result, Resume
from app.core.principal import DEFAULT_TENANT, LOCAL
from app.core.settings import Settings
from app.events.catalog import adapter, request
from app.events.catalog.request import TERMINAL
from app.events.ports import Answer, ClaimRun, Fence, Refused
from app.events.recorder import Scope
from app.runtime.intake.submission import Submission
from app.views.run import Run
from app.wiring.runtime import open_holdfast
from app.wiring.store import Store, open_store
from tests.databases import create_database
from tests.faults.audit import SeenEvent, audit
from tests.faults.client import end_of
from tests.faults.conftest import Count
from tests.faults.load import Producer, create_thread
from tests.postgres import PostgresServer
from tests.server import secret_file
from tests.store_equals_replay import assert_tables_equal_replay


async def _take_over(store: Store, run_id: str, thread_id: str, epoch: int) -> Scope:
    """What another executor does once the lease has run out."""
    await store.leases.expire_all()
    scope = Scope(DEFAULT_TENANT, thread_id, run_id, "backend:other", Fence(run_id, epoch))
    resumed = request.RequestResumed(executor="other", epoch=epoch, reason="recovery")
    claim = ClaimRun(run_id, "other", epoch, 15.0)
    answer = await store.recorder.record(Scope(DEFAULT_TENANT, thread_id, run_id), resumed, conditions=[claim])
    assert not isinstance(answer, Refused), answer
    return scope


def _refused(answer: Answer) -> str | None:
    return answer.failure.code if isinstance(answer, Refused) else None


@pytest.mark.requirement("G10")
async def test_a_stale_epoch_appends_nothing_of_any_kind(settings: Settings) -> None:
    async with open_store(settings) as store:
        stale = await Producer(store.recorder, lambda event: None).begin()
        assert stale.run_id is not None
        fresh = await _take_over(store, stale.run_id, stale.thread_id, 2)
        before = await store.reader.events(DEFAULT_TENANT, stale.thread_id, 0, 100)
        signal = adapter.AdapterEvent(event=adapter.Signal(adapter="load", phase="agent.handoff"))
        for answer in await asyncio.gather(
            store.recorder.record_delta(stale, adapter.OUTPUT_DELTA, "msg_1", 0, "late"),
            store.recorder.record(stale, signal),
            store.recorder.record(stale, request.RequestCompleted(output="late")),
        ):
            assert _refused(answer) == "STALE_EPOCH"
        after = await store.reader.events(DEFAULT_TENANT, stale.thread_id, 0, 100)
        assert [event.id for event in after] == [event.id for event in before]
        assert _refused(await store.recorder.record(fresh, request.RequestCompleted(output="mine"))) is None
        await assert_tables_equal_replay(store)


class Sleeper:
    """A backend that is stuck until it is released, and then speaks as if nothing had happened."""

    kind = "echo"
    resume: Resume = "restart"

    def __init__(self) -> None:
        self.started = asyncio.Event()
        self.go_on = asyncio.Event()
        self.ended = asyncio.Event()
        self.spoke = False

    async def run(self, ctx: Context) -> Result:
        self.started.set()
        await self.go_on.wait()
        try:
            await ctx.say("msg_1", "late")
            self.spoke = True
        finally:
            self.ended.set()
        return "late"


@pytest.mark.requirement("G7", "G10")
async def test_a_zombie_executor_says_nothing_more_and_its_run_ends_once(settings: Settings) -> None:
    backend = Sleeper()
    async with open_holdfast(settings, backends={"echo": backend}) as holdfast:
        run = await holdfast.service.submit(LOCAL, Submission("echo", "hello"))
        assert isinstance(run, Run)
        async with asyncio.timeout(30):
            await backend.started.wait()
        store = holdfast.store
        fresh = await _take_over(store, run.id, run.thread_id, 2)
        await store.recorder.record(fresh, request.RequestCompleted(output="mine"))
        backend.go_on.set()
        async with asyncio.timeout(30):
            await backend.ended.wait()
        assert backend.spoke is False
        events = await store.reader.run_events(DEFAULT_TENANT, run.id, 0, 100)
        assert [event.type for event in events if event.type in TERMINAL] == [request.RequestCompleted.type]
        assert events[-1].payload["output"] == "mine"
        await assert_tables_equal_replay(store)


@pytest.mark.requirement("G15", "G10")
async def test_a_run_that_does_not_end_in_time_is_given_back_and_taken_at_once(settings: Settings) -> None:
    backend = Sleeper()
    # Far longer than the test: it ends only if the lease was given back.
    settings = settings.model_copy(update={"lease_seconds": 600.0})
    async with open_holdfast(settings, backends={"echo": backend}) as first:
        run = await first.service.submit(LOCAL, Submission("echo", "hello"))
        assert isinstance(run, Run)
        async with asyncio.timeout(30):
            await backend.started.wait()
        await first.executor.drain(0.1)
    backend.go_on.set()
    async with open_holdfast(settings, backends={"echo": backend}) as second:
        async with asyncio.timeout(30):
            assert await end_of(second.store, run) == request.RequestCompleted.type


# -- replicas on one Postgres ----------------------------------------------------------------------------


@pytest.fixture
async def shared(postgres_server: PostgresServer, request: pytest.FixtureRequest, tmp_path: Path) -> Settings:
    name = f"replicas_{zlib.crc32(request.node.name.encode())}"
    await create_database(postgres_server, name)
    return Settings(database_url=postgres_server.url(name), secret_file=secret_file(tmp_path))


@pytest.mark.requirement("G3", "G10")
async def test_two_replicas_on_the_same_threads_keep_the_order_dense_and_lose_nothing(
    shared: Settings, count: Count
) -> None:
    acknowledged: list[SeenEvent] = []
    async with contextlib.AsyncExitStack() as stack:
        replicas = [await stack.enter_async_context(open_store(shared)) for _ in range(2)]
        await asyncio.gather(
            *(create_thread(one.recorder, thread, lambda event: acknowledged.append(SeenEvent.of(event)))
              for one in replicas for thread in ("thr_a", "thr_b"))
        )  # fmt: skip
        await asyncio.gather(
            *(Producer(one.recorder, lambda event: acknowledged.append(SeenEvent.of(event)), thread).produce(10)
              for one in replicas for thread in ("thr_a", "thr_b") for _ in range(3))
        )  # fmt: skip
        figures = await audit(replicas[0], acknowledged)
        assert figures.stored == figures.acknowledged
        count(figures)


@pytest.mark.requirement("G10")
async def test_two_replicas_that_claim_the_same_runs_have_one_winner_each(shared: Settings) -> None:
    async with contextlib.AsyncExitStack() as stack:
        replicas = [await stack.enter_async_context(open_store(shared)) for _ in range(2)]
        first = Producer(replicas[0].recorder, lambda event: None)
        runs = [await first.begin(number) for number in range(10)]
        await replicas[0].leases.expire_all()

        async def claim(store: Store, owner: str, scope: Scope) -> bool:
            assert scope.run_id is not None
            resumed = request.RequestResumed(executor=owner, epoch=2, reason="recovery")
            place = Scope(DEFAULT_TENANT, scope.thread_id, scope.run_id)
            lease = ClaimRun(scope.run_id, owner, 2, 15.0)
            return _refused(await store.recorder.record(place, resumed, conditions=[lease])) is None

        for scope in runs:
            won = await asyncio.gather(*(claim(one, f"owner_{n}", scope) for n, one in enumerate(replicas)))
            assert sum(won) == 1
        await assert_tables_equal_replay(replicas[1])
