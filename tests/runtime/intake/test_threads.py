"""Threads through the real log, on both databases: created, changed, forked, deleted, and what clients add to them."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from app.backends.contract import Context, Resume
from app.core.ids import new_id
from app.core.principal import LOCAL
from app.core.settings import Settings
from app.events.catalog import thread as facts
from app.runtime.intake.rejection import Rejected
from app.runtime.intake.submission import Submission
from app.runtime.intake.threads import NewThread, ThreadChange
from app.views.run import Run
from app.views.thread import Thread
from app.views.transcript import Entry
from app.wiring.runtime import Holdfast, open_holdfast
from tests.runs import events_until, submit
from tests.store_equals_replay import assert_tables_equal_replay


class Remembering:
    """Answers with its input and what was said before."""

    kind = "echo"
    resume: Resume = "restart"

    async def run(self, ctx: Context) -> str:
        if ctx.input == "wait":
            await asyncio.Event().wait()
        if ctx.input == "ask":
            await ctx.ask("May I?", [{"id": "q"}])
        return f"{ctx.input} after {len(ctx.history)}: " + "|".join(str(m["content"])[:20] for m in ctx.history)


@pytest.fixture
async def holdfast(settings: Settings) -> AsyncIterator[Holdfast]:
    async with open_holdfast(settings, backends={"echo": Remembering()}) as opened:
        yield opened
        await assert_tables_equal_replay(opened.store)


async def _made(holdfast: Holdfast, **wanted: Any) -> Thread:
    thread = await holdfast.threads.create(LOCAL, NewThread(**wanted))
    assert isinstance(thread, Thread)
    return thread


async def _run(holdfast: Holdfast, thread_id: str, text: str, last: str = "runtime.request.completed") -> Run:
    run = await submit(holdfast, "echo", text, thread_id)
    await events_until(holdfast, run, last)
    found = await holdfast.store.reader.run("default", run.id)
    assert found is not None
    return found


def _code(answer: object) -> str:
    assert isinstance(answer, Rejected)
    return answer.failure.code


async def test_a_thread_is_created_with_what_it_is_called(holdfast: Holdfast) -> None:
    thread = await _made(holdfast, title="Plans", metadata={"a": 1}, labels={"team": "x"})
    assert (thread.title, thread.metadata, thread.labels, thread.last_seq) == ("Plans", {"a": 1}, {"team": "x"}, 1)


async def test_a_thread_is_created_once(holdfast: Holdfast) -> None:
    thread = await _made(holdfast)
    assert _code(await holdfast.threads.create(LOCAL, NewThread(id=thread.id))) == "THREAD_EXISTS"
    assert _code(await holdfast.threads.create(LOCAL, NewThread(id="sys_mine"))) == "THREAD_RESERVED"


async def test_a_change_leaves_alone_what_it_does_not_name(holdfast: Holdfast) -> None:
    thread = await _made(holdfast, title="Plans", metadata={"a": 1, "b": 2}, labels={"x": "1", "y": "2"})
    change = ThreadChange(metadata={"a": None, "c": {"d": None}}, labels={"x": None, "z": "3"}, archived=True)
    changed = await holdfast.threads.update(LOCAL, thread.id, change)
    assert isinstance(changed, Thread)
    assert (changed.title, changed.archived) == ("Plans", True)
    assert (changed.metadata, changed.labels) == ({"b": 2, "c": {"d": None}}, {"y": "2", "z": "3"})
    again = await holdfast.threads.update(LOCAL, thread.id, ThreadChange(title="New", archived=False))
    assert isinstance(again, Thread)
    assert (again.title, again.archived, again.metadata) == ("New", False, {"b": 2, "c": {"d": None}})


async def test_concurrent_changes_are_all_kept(holdfast: Holdfast) -> None:
    thread = await _made(holdfast)
    changes = [ThreadChange(metadata={f"k{n}": n}) for n in range(20)]
    await asyncio.gather(*(holdfast.threads.update(LOCAL, thread.id, change) for change in changes))
    found = await holdfast.store.reader.thread("default", thread.id)
    assert isinstance(found, Thread)
    assert found.metadata == {f"k{n}": n for n in range(20)}


async def test_a_change_of_nothing_records_nothing(holdfast: Holdfast) -> None:
    thread = await _made(holdfast)
    same = await holdfast.threads.update(LOCAL, thread.id, ThreadChange())
    assert isinstance(same, Thread) and same.last_seq == 1


async def test_metadata_too_large_for_an_event_is_refused(holdfast: Holdfast) -> None:
    thread = await _made(holdfast)
    change = ThreadChange(metadata={"a": "x" * 20_000})
    assert _code(await holdfast.threads.update(LOCAL, thread.id, change)) == "INVALID_REQUEST"


async def test_the_systems_threads_are_not_touched(holdfast: Holdfast) -> None:
    threads = holdfast.threads
    assert _code(await threads.update(LOCAL, "sys_ledger", ThreadChange(title="x"))) == "THREAD_RESERVED"
    assert _code(await threads.delete(LOCAL, "sys_ledger")) == "THREAD_RESERVED"
    assert _code(await threads.fork(LOCAL, "sys_ledger")) == "THREAD_RESERVED"


@pytest.mark.parametrize("doing", ["update", "close", "delete", "fork"])
async def test_a_thread_that_is_gone_or_never_was_says_which(holdfast: Holdfast, doing: str) -> None:
    threads = holdfast.threads
    calls: dict[str, Any] = {
        "update": lambda id: threads.update(LOCAL, id, ThreadChange(title="x")),
        "close": lambda id: threads.close(LOCAL, id),
        "delete": lambda id: threads.delete(LOCAL, id),
        "fork": lambda id: threads.fork(LOCAL, id),
    }
    gone = await _made(holdfast)
    assert isinstance(await threads.delete(LOCAL, gone.id), Thread)
    assert _code(await calls[doing](gone.id)) == "THREAD_DELETED"
    assert _code(await calls[doing](new_id("thread"))) == "THREAD_NOT_FOUND"


async def test_a_closed_thread_takes_no_runs_and_closes_once(holdfast: Holdfast) -> None:
    thread = await _made(holdfast)
    for _ in range(2):
        closed = await holdfast.threads.close(LOCAL, thread.id)
        assert isinstance(closed, Thread) and (closed.status, closed.last_seq) == ("closed", 2)
    assert _code(await holdfast.service.submit(LOCAL, Submission("echo", "x", thread_id=thread.id))) == "THREAD_CLOSED"


# -- deletion -----------------------------------------------------------------------------------------


async def test_deleting_a_thread_ends_its_runs_in_the_same_commit(holdfast: Holdfast) -> None:
    thread = await _made(holdfast)
    running = await _run(holdfast, thread.id, "wait", "runtime.request.started")
    queued = await holdfast.service.submit(LOCAL, Submission("echo", "later", thread_id=thread.id))
    assert isinstance(queued, Run)
    assert isinstance(await holdfast.threads.delete(LOCAL, thread.id), Thread)
    await asyncio.wait_for(holdfast.executor.idle(), 30)
    events = await holdfast.store.reader.events("default", thread.id, 0, 100)
    ends = [(event.type, event.run_id) for event in events][-5:]
    assert ends == [
        ("runtime.command.injected", queued.id), ("runtime.request.cancelled", queued.id),
        ("runtime.command.injected", running.id), ("runtime.request.cancelled", running.id),
        ("runtime.thread.deleted", None),
    ]  # fmt: skip
    assert await holdfast.store.reader.runs_without_an_owner(100) == []


async def test_deleting_a_thread_closes_the_questions_of_its_runs(holdfast: Holdfast) -> None:
    thread = await _made(holdfast)
    run = await _run(holdfast, thread.id, "ask", "runtime.interrupt.raised")
    assert isinstance(await holdfast.threads.delete(LOCAL, thread.id), Thread)
    events = await holdfast.store.reader.events("default", thread.id, 0, 100)
    [expired] = [event for event in events if event.type == "runtime.interrupt.expired"]
    assert expired.run_id == run.id
    assert await holdfast.store.reader.interrupts("default", thread_id=thread.id) == []  # nobody is asked any more


async def test_runs_submitted_while_their_thread_is_deleted_end_or_are_refused(holdfast: Holdfast) -> None:
    thread = await _made(holdfast)
    submissions = [holdfast.service.submit(LOCAL, Submission("echo", "x", thread_id=thread.id)) for _ in range(20)]
    answers = await asyncio.gather(*submissions[:10], holdfast.threads.delete(LOCAL, thread.id), *submissions[10:])
    assert isinstance(answers[10], Thread)
    assert {_code(a) for a in answers if isinstance(a, Rejected)} <= {"THREAD_DELETED"}
    await asyncio.wait_for(holdfast.executor.idle(), 30)
    for status in ("queued", "running", "waiting"):
        assert await holdfast.store.reader.runs("default", thread_id=thread.id, status=status) == []


# -- forks --------------------------------------------------------------------------------------------


async def test_a_fork_knows_what_was_said_and_has_a_log_of_its_own(holdfast: Holdfast) -> None:
    source = await _made(holdfast, title="Plans", metadata={"a": 1})
    first = await _run(holdfast, source.id, "one")
    await _run(holdfast, source.id, "two")
    fork = await holdfast.threads.fork(LOCAL, source.id, first.last_seq)
    assert isinstance(fork, Thread)
    [event] = await holdfast.store.reader.events("default", fork.id, 0, 10)
    at = (await holdfast.store.reader.events("default", source.id, first.last_seq - 1, 1))[0]
    assert (event.type, event.seq, event.prev_hash) == ("runtime.thread.forked", 1, "0" * 64)
    assert fork.forked_from == {"threadId": source.id, "seq": first.last_seq, "hash": at.hash}
    assert (fork.title, fork.metadata) == ("Plans", {"a": 1})
    run = await _run(holdfast, fork.id, "three")
    assert run.output == "three after 2: one|one after 0: "
    deep = await holdfast.threads.fork(LOCAL, fork.id)
    assert isinstance(deep, Thread)
    assert (await _run(holdfast, deep.id, "four")).output.startswith("four after 4: one|one after 0: |three|")


async def test_a_fork_carries_large_messages_itself(holdfast: Holdfast) -> None:
    source = await _made(holdfast)
    large = "0123456789" * 4000
    await _run(holdfast, source.id, large)
    fork = await holdfast.threads.fork(LOCAL, source.id)
    assert isinstance(fork, Thread)
    assert isinstance(await holdfast.threads.delete(LOCAL, source.id), Thread)
    run = await _run(holdfast, fork.id, "next")
    assert run.output.startswith("next after 2: 01234567890123456789|")


async def test_a_fork_beyond_the_thread_is_refused(holdfast: Holdfast) -> None:
    source = await _made(holdfast)
    assert _code(await holdfast.threads.fork(LOCAL, source.id, 2)) == "INVALID_REQUEST"
    assert _code(await holdfast.threads.fork(LOCAL, source.id, 0)) == "INVALID_REQUEST"


# -- transcript rows ----------------------------------------------------------------------------------


def _row(**more: Any) -> facts.TranscriptUpserted:
    payload = {"messageId": "m", "turnId": "t", "role": "system", "type": "note", "content": "x", "status": "complete"}
    return facts.TranscriptUpserted.model_validate(payload | more)


@pytest.mark.requirement("CM-7")
async def test_an_upsert_answers_the_merged_row(holdfast: Holdfast) -> None:
    thread = await _made(holdfast)
    await holdfast.threads.upsert(LOCAL, thread.id, _row(details="d", startedAt=5, completedAt=9))
    row = await holdfast.threads.upsert(
        LOCAL, thread.id, _row(status="streaming", content="y", type="other", startedAt=7, completedAt=2)
    )
    assert isinstance(row, Entry)
    assert (row.content, row.status, row.details, row.kind) == ("x", "complete", "d", "other")
    assert (row.started_at, row.completed_at) == (5, 9)


@pytest.mark.requirement("CM-7")
async def test_an_upsert_needs_a_thread(holdfast: Holdfast) -> None:
    assert _code(await holdfast.threads.upsert(LOCAL, new_id("thread"), _row())) == "THREAD_NOT_FOUND"
    gone = await _made(holdfast)
    await holdfast.threads.delete(LOCAL, gone.id)
    assert _code(await holdfast.threads.upsert(LOCAL, gone.id, _row())) == "THREAD_DELETED"
