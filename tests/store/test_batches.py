"""Batches of any size and mixture: what is written many rows at a time is what single rows would have been."""

import asyncio
import shutil
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from app.core.clock import SystemClock
from app.core.settings import Settings
from app.events import ports
from app.events.catalog import request, thread
from app.events.catalog.adapter import OUTPUT_DELTA
from app.events.catalog.artifact import ArtifactCreated
from app.events.catalog.execution import StepCompleted
from app.events.catalog.interrupt import InterruptRaised, InterruptResolved
from app.events.catalog.model import ModelCompleted
from app.events.catalog.values import ArtifactValue, Usage
from app.events.ports import Answer, Appended, Command, Draft, Fence, Refused
from app.events.recorder import Scope
from app.store.engine import Sql, Tx
from app.store.log import Log
from app.store.sqlite import SIZES, SqliteDatabase
from app.wiring.store import Store, open_store
from tests.store_equals_replay import assert_tables_equal_replay

COUNTS = [1, 3, 17, 100]


@pytest.fixture
async def store(settings: Settings) -> AsyncIterator[Store]:
    async with open_store(settings) as opened:
        yield opened
        await assert_tables_equal_replay(opened)


@pytest.fixture
async def database(tmp_path: Path, migrated_file: Path) -> AsyncIterator[SqliteDatabase]:
    opened = SqliteDatabase(Path(shutil.copy(migrated_file, tmp_path / "holdfast.db")))
    yield opened
    await opened.close()


def _scope(number: int, *, fenced: bool = True, tenant: str = "default") -> Scope:
    run_id = f"run_{number}"
    return Scope(tenant, f"thr_{number}", run_id, fence=Fence(run_id, 1) if fenced else None)


def _claim(number: int) -> ports.ClaimRun:
    return ports.ClaimRun(f"run_{number}", "me", 1, 15.0, claimed_at_submit=True)


async def _opened(store: Store, number: int, tenant: str = "default") -> Answer:
    """As the edge opens a run: thread, run and claim in one command."""
    started = request.RequestStarted(executor="me", epoch=1)
    return await store.recorder.record(
        _scope(number, fenced=False, tenant=tenant), thread.ThreadCreated(),
        request.RequestQueued(agent="x", input=f"question {number}"), started,
        conditions=[ports.ThreadIsNew(), _claim(number)],
    )  # fmt: skip


async def _ended(store: Store, number: int, tenant: str = "default") -> Answer:
    said = ModelCompleted(message_id=f"msg_{number}", model="m", provider="p", text=f"answer {number}", tool_calls=[],
                          finish_reason="stop", usage=Usage(input_tokens=1, output_tokens=2, cost_usd=0.0))  # fmt: skip
    done = request.RequestCompleted(output=f"answer {number}", message_id=said.message_id)
    return await store.recorder.record(_scope(number, tenant=tenant), said, done)


async def _delta(store: Store, number: int, tenant: str = "default") -> Answer:
    return await store.recorder.record_delta(_scope(number, tenant=tenant), OUTPUT_DELTA, f"msg_{number}", 0, "word ")


def _codes(answers: list[Answer]) -> list[str | None]:
    return [answer.failure.code if isinstance(answer, Refused) else None for answer in answers]


@pytest.mark.parametrize("count", COUNTS)
async def test_runs_that_begin_go_on_and_end_together_leave_what_replay_gives(store: Store, count: int) -> None:
    for step in (_opened, _delta, _ended):
        answers = await asyncio.gather(*(step(store, number) for number in range(count)))
        assert _codes(answers) == [None] * count
    for number in (0, count // 2, count - 1):
        run = await store.reader.run("default", f"run_{number}")
        assert run is not None
        assert (run.status, run.output, run.run_seq) == ("completed", f"answer {number}", 5)


@pytest.mark.parametrize("count", COUNTS)
async def test_a_batch_of_new_old_and_refused_commands_keeps_them_apart(store: Store, count: int) -> None:
    await asyncio.gather(*(_opened(store, number) for number in range(count)))
    kinds: list[tuple[Any, int, str | None]] = []
    for number in range(count):
        kinds += [
            (_delta, number, None),  # a thread that the writer remembers
            (_opened, number, "THREAD_EXISTS"),
            (_opened, count + number, None),  # a new one
            (_ended, count + number, None),  # which ends in the batch that it begins in
            (_delta, count + number, "RUN_TERMINAL"),
            (_delta, 10_000 + number, "STALE_EPOCH"),  # one that there never was
        ]
    answers = await asyncio.gather(*(step(store, number) for step, number, _ in kinds))
    assert _codes(list(answers)) == [code for _, _, code in kinds]
    assert await store.reader.thread("default", "thr_10000") is None


async def test_one_batch_serves_several_tenants_with_the_same_names(store: Store) -> None:
    tenants = ["default", "b", "c"]
    for step in (_opened, _delta, _ended):
        answers = await asyncio.gather(*(step(store, number, tenant) for number in range(5) for tenant in tenants))
        assert _codes(list(answers)) == [None] * 15


async def test_what_belongs_to_many_threads_is_loaded_for_each_of_them(store: Store) -> None:
    count = 17
    names = [Scope("default", f"thr_{number}", f"run_{number}") for number in range(count)]
    late = "2027-01-01T00:00:00.000Z"
    raised = InterruptRaised(interrupt_id="same", kind="question", title="?", expires_at=late)
    artifact = ArtifactCreated(artifact=ArtifactValue(id="same", name="first"))
    await asyncio.gather(
        *(
            store.recorder.record(scope, thread.ThreadCreated(), request.RequestQueued(agent="x"), raised, artifact)
            for scope in names
        )
    )
    for number, scope in enumerate(names):
        answer = InterruptResolved(interrupt_id="same", answer={"a": number}, answered_by="user:u")
        again = ArtifactCreated(artifact=ArtifactValue(id="same", name="second"))
        assert isinstance(await store.recorder.record(scope, answer, again), Appended)
    refused = await asyncio.gather(
        *(
            store.recorder.record(scope, StepCompleted(step="s", key="k"), conditions=[ports.InterruptOpen("same")])
            for scope in names
        )
    )
    assert _codes(list(refused)) == ["INTERRUPT_NOT_OPEN"] * count


@pytest.mark.parametrize("count", [1, 2, 3, 17, max(SIZES), 2 * max(SIZES) + 63])
async def test_many_rows_are_written_and_given_back_as_one_by_one(database: SqliteDatabase, count: int) -> None:
    put = Sql("INSERT INTO workspaces (digest, files) VALUES ($1, $2) RETURNING digest")
    change = Sql(
        "UPDATE workspaces SET files = $2 WHERE digest = $1",
        sqlite_bulk="UPDATE workspaces SET files = v.column2 FROM (VALUES {rows}) AS v WHERE digest = v.column1",
    )
    rows = [(f"{number:04}", b"%d" % number) for number in range(count)]

    async def work(tx: Tx) -> None:
        assert sorted(row[0] for row in await tx.returning(put, rows)) == [digest for digest, _ in rows]
        await tx.many(change, [(digest, files * 2) for digest, files in rows])
        stored = await tx.rows(Sql("SELECT digest, files FROM workspaces ORDER BY digest"))
        assert [tuple(row) for row in stored] == [(digest, files * 2) for digest, files in rows]

    await database.write(work)


async def test_a_row_that_cannot_be_stored_takes_its_whole_transaction_back(database: SqliteDatabase) -> None:
    put = Sql("INSERT INTO workspaces (digest, files) VALUES ($1, $2)")

    async def work(tx: Tx) -> None:
        await tx.many(put, [("a", b""), ("b", b""), ("a", b"")])

    with pytest.raises(ports.StorageDown):
        await database.write(work)

    async def count(tx: Tx) -> int:
        return int((await tx.rows(Sql("SELECT count(*) FROM workspaces")))[0][0])

    assert await database.read(count) == 0


async def test_what_somebody_else_wrote_to_a_thread_in_memory_is_noticed_however_late(store: Store) -> None:
    """Another writer on the same database, and batches of other threads between its work and the thread's next."""
    await asyncio.gather(*(_opened(store, number) for number in range(3)))
    other = Log(store.database, SystemClock(), lambda events: None)
    other.start()
    draft = Draft(StepCompleted.type, {"step": "s", "key": "k"}, "run_0", at=1, encoded=b'{"key":"k","step":"s"}')
    assert isinstance(await other.append(Command("default", "thr_0", [draft])), Appended)
    await other.close()
    for number in (1, 2, 1):
        assert isinstance(await _delta(store, number), Appended)
    answer = await _delta(store, 0)
    assert isinstance(answer, Appended)
    assert (answer.events[0].seq, answer.events[0].run_seq) == (5, 4)
