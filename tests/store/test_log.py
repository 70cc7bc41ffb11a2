"""The log on both databases: order, all or nothing, conditions with one winner, deltas, fences, blobs."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from app.core.ids import new_id
from app.core.settings import Settings
from app.events import ports
from app.events.catalog import interrupt, request, thread
from app.events.catalog.adapter import OUTPUT_DELTA
from app.events.catalog.artifact import ArtifactCreated
from app.events.catalog.execution import CommandInjected, StepCompleted
from app.events.catalog.values import ArtifactValue
from app.events.chain import Head, verify
from app.events.envelope import Event
from app.events.ports import Answer, Appended, Draft, Fence, Refused
from app.events.recorder import Scope
from app.store.blobs import Blobs
from app.wiring.store import Store, open_store
from tests.store_equals_replay import assert_tables_equal_replay


@pytest.fixture
async def store(settings: Settings) -> AsyncIterator[Store]:
    async with open_store(settings) as opened:
        yield opened
        await assert_tables_equal_replay(opened)


async def started(store: Store, thread_id: str | None = None) -> Scope:
    """A thread with one running run at epoch 1."""
    scope = Scope("default", thread_id or new_id("thread"), new_id("run"))
    assert scope.run_id is not None
    await accept(store.recorder.record(scope, thread.ThreadCreated(), request.RequestQueued(agent="a", input="hi")))
    claim = ports.ClaimRun(scope.run_id, "owner", 1, 15)
    await accept(store.recorder.record(scope, request.RequestStarted(executor="owner", epoch=1), conditions=[claim]))
    return Scope(scope.tenant, scope.thread_id, scope.run_id, "backend:test", Fence(scope.run_id, 1))


async def accept(answer: "asyncio.Future[Answer] | object") -> Appended:
    got = await answer  # type: ignore[misc]  # a coroutine of the recorder
    assert isinstance(got, Appended), got
    return got


async def refuse(answer: "asyncio.Future[Answer] | object") -> Refused:
    got = await answer  # type: ignore[misc]  # a coroutine of the recorder
    assert isinstance(got, Refused), got
    return got


def step(n: int) -> StepCompleted:
    return StepCompleted(step="test", key=f"test:{n}")


@pytest.mark.smoke
@pytest.mark.requirement("G3", "OS-L4")
async def test_concurrent_appends_get_dense_numbers_per_thread_and_per_run(store: Store) -> None:
    scopes = [await started(store) for _ in range(5)]
    await asyncio.gather(*(store.recorder.record(scopes[n % 5], step(n)) for n in range(200)))
    for scope in scopes:
        events = await store.reader.events("default", scope.thread_id, 0, 1000)
        assert [event.seq for event in events] == list(range(1, 44))
        assert [event.run_seq for event in events if event.run_id] == list(range(1, 43))
        assert isinstance(verify(events), Head)


async def test_commands_of_neighbouring_turns_of_the_loop_are_one_commit(store: Store) -> None:
    scopes = [await started(store) for _ in range(4)]
    commits: list[int] = []
    store.log.on_commit = lambda events, seconds: commits.append(len(events))

    async def after(turns: int, scope: Scope) -> None:
        for _ in range(turns):
            await asyncio.sleep(0)
        await store.recorder.record(scope, step(turns))

    await asyncio.gather(*(after(turns, scope) for turns, scope in enumerate(scopes)))
    assert commits == [4]
    await store.recorder.record(scopes[0], step(4))
    assert commits == [4, 1], "one that is alone waits for nobody"


@pytest.mark.requirement("G2", "PX-1")
async def test_what_is_published_is_already_in_the_database(store: Store) -> None:
    scope = await started(store)
    seen: list[int] = []
    listener = store.hub.subscribe("default", [scope.thread_id])
    writing = asyncio.gather(*(store.recorder.record(scope, step(n)) for n in range(50)))
    while len(seen) < 50:
        await asyncio.wait_for(listener.wait(), 30)
        for event in listener.take():
            stored = await store.reader.events("default", scope.thread_id, event.seq - 1, 1)
            assert stored[0].id == event.id and stored[0].hash == event.hash
            seen.append(event.seq)
    await writing
    assert seen == list(range(4, 54))


async def test_a_refused_command_leaves_no_trace_and_its_batch_alone(store: Store) -> None:
    scope = await started(store)
    good, bad, other = await asyncio.gather(
        store.recorder.record(scope, step(1)),
        store.recorder.record(scope, step(2), conditions=[ports.InterruptOpen("int_nowhere")]),
        store.recorder.record(scope, step(3)),
    )
    assert isinstance(good, Appended) and isinstance(other, Appended)
    assert isinstance(bad, Refused) and bad.failure.code == "INTERRUPT_NOT_OPEN"
    keys = [e.payload["key"] for e in await store.reader.events("default", scope.thread_id, 3, 10)]
    assert keys == ["test:1", "test:3"]


@pytest.mark.requirement("G7")
async def test_nothing_follows_a_run_s_terminal_event(store: Store) -> None:
    scope = await started(store)
    await accept(store.recorder.record(scope, request.RequestCompleted(output="done")))
    for late in (step(1), request.RequestCancelled(), request.RequestCompleted(output="again")):
        assert (await refuse(store.recorder.record(scope, late))).failure.code == "RUN_TERMINAL"
    run = await store.reader.run("default", scope.run_id or "")
    assert run is not None and run.status == "completed" and run.output == "done"


async def test_two_terminal_events_at_once_have_one_winner(store: Store) -> None:
    scope = await started(store)
    answers = await asyncio.gather(
        store.recorder.record(scope, request.RequestCompleted(output="done")),
        store.recorder.record(scope, request.RequestCancelled()),
    )
    assert [type(answer) for answer in answers] == [Appended, Refused]


@pytest.mark.requirement("G10")
async def test_a_stale_epoch_appends_nothing(store: Store) -> None:
    old = await started(store)
    assert old.run_id is not None
    await store.leases.expire_all()
    claim = ports.ClaimRun(old.run_id, "newer", 2, 15)
    resumed = request.RequestResumed(executor="newer", epoch=2, reason="recovery")
    plain = Scope(old.tenant, old.thread_id, old.run_id)
    await accept(store.recorder.record(plain, resumed, conditions=[claim]))
    before = await store.reader.events("default", old.thread_id, 0, 100)
    assert (await refuse(store.recorder.record(old, step(1)))).failure.code == "STALE_EPOCH"
    assert (await refuse(store.recorder.record_delta(old, OUTPUT_DELTA, "m", 0, "x"))).failure.code == "STALE_EPOCH"
    assert len(await store.reader.events("default", old.thread_id, 0, 100)) == len(before)


@pytest.mark.requirement("G10")
async def test_a_living_lease_is_claimed_by_nobody_else(store: Store) -> None:
    scope = await started(store)
    assert scope.run_id is not None
    claim = ports.ClaimRun(scope.run_id, "thief", 2, 15)
    resumed = request.RequestResumed(executor="thief", epoch=2, reason="recovery")
    plain = Scope("default", scope.thread_id, scope.run_id)
    answer = await refuse(store.recorder.record(plain, resumed, conditions=[claim]))
    assert (answer.failure.code, answer.winner) == ("LEASE_HELD", "owner")


async def test_twenty_claims_at_once_have_one_winner(store: Store) -> None:
    scope = Scope("default", new_id("thread"), new_id("run"))
    assert scope.run_id is not None
    await accept(store.recorder.record(scope, thread.ThreadCreated(), request.RequestQueued(agent="a")))
    answers = await asyncio.gather(
        *(
            store.recorder.record(
                scope,
                request.RequestStarted(executor=f"owner-{n}", epoch=1),
                conditions=[ports.ClaimRun(scope.run_id, f"owner-{n}", 1, 15)],
            )
            for n in range(20)
        )
    )
    assert [isinstance(answer, Appended) for answer in answers].count(True) == 1


async def test_a_waiting_run_holds_no_lease_and_is_claimable_after_its_answer(store: Store) -> None:
    scope = await started(store)
    raised = interrupt.InterruptRaised(
        interrupt_id="int_1", kind="approval", title="may I?", expires_at="2027-01-01T00:00:00.000Z"
    )
    await accept(store.recorder.record(scope, raised))
    assert await store.reader.runs_without_an_owner(10) == []
    run = await store.reader.run("default", scope.run_id or "")
    assert run is not None and (run.status, run.waiting_on) == ("waiting", ["int_1"])
    answered = interrupt.InterruptResolved(interrupt_id="int_1", answer={"decision": "approve"}, answered_by="user:x")
    plain = Scope("default", scope.thread_id, scope.run_id)
    await accept(store.recorder.record(plain, answered, conditions=[ports.InterruptOpen("int_1")]))
    assert [row[1] for row in await store.reader.runs_without_an_owner(10)] == [scope.run_id]
    second = await refuse(store.recorder.record(plain, answered, conditions=[ports.InterruptOpen("int_1")]))
    assert (second.failure.code, second.winner) == ("INTERRUPT_NOT_OPEN", "user:x")


@pytest.mark.requirement("G10")
async def test_a_run_that_somebody_else_has_ended_keeps_no_lease(store: Store) -> None:
    """Its executor finds out by the next renewal, whatever it is waiting for."""
    scopes = [await started(store) for _ in range(3)]
    held = [(scope.tenant, scope.run_id or "", 1) for scope in scopes]
    runs = [(tenant, run_id) for tenant, run_id, _ in held]
    assert await store.leases.renew(held, 15) == set(runs)
    ended = scopes[0]
    anybody = Scope(ended.tenant, ended.thread_id, ended.run_id)
    await accept(store.recorder.record(anybody, request.RequestCancelled(reason="the thread was deleted")))
    assert await store.leases.renew(held[:1], 15) == set()
    assert await store.leases.renew(held, 15) == set(runs[1:])
    assert [await store.leases.owner(*run) for run in runs] == [None, "owner", "owner"]
    assert await store.reader.runs_without_an_owner(10) == []


@pytest.mark.requirement("G6")
async def test_an_idempotency_key_stands_for_one_run_and_one_body(store: Store) -> None:
    async def submit(body: str) -> Answer:
        scope = Scope("default", new_id("thread"), new_id("run"))
        key = ports.KeyUnused("runs", "key-1", body, scope.run_id or "", 2**60)
        return await store.recorder.record(
            scope, thread.ThreadCreated(), request.RequestQueued(agent="a"), conditions=[key, ports.ThreadIsNew()]
        )

    answers = await asyncio.gather(*(submit("same") for _ in range(20)))
    (won,) = [answer for answer in answers if isinstance(answer, Appended)]
    for answer in answers:
        if isinstance(answer, Refused):
            assert (answer.failure.code, answer.winner) == (
                "IDEMPOTENCY_KEY_SEEN",
                won.events[0].run_id or won.events[1].run_id,
            )
    assert (await refuse(submit("other"))).failure.code == "IDEMPOTENCY_KEY_REUSED"


async def test_runs_of_a_thread_are_claimed_in_their_order(store: Store) -> None:
    first = await started(store)
    second = Scope("default", first.thread_id, new_id("run"))
    assert second.run_id is not None
    await accept(store.recorder.record(second, request.RequestQueued(agent="a")))
    claim = ports.ClaimRun(second.run_id, "owner", 1, 15)
    begin = request.RequestStarted(executor="owner", epoch=1)
    assert (await refuse(store.recorder.record(second, begin, conditions=[claim]))).failure.code == "THREAD_BUSY"
    full = [ports.ThreadHasRoom(2)]
    third = Scope("default", first.thread_id, new_id("run"))
    answer = await refuse(store.recorder.record(third, request.RequestQueued(agent="a"), conditions=full))
    assert (answer.failure.code, answer.winner) == ("QUEUE_FULL", first.run_id)
    await accept(store.recorder.record(first, request.RequestCompleted(output=1)))
    await accept(store.recorder.record(second, begin, conditions=[claim]))


@pytest.mark.requirement("HK-29", "PX-1")
async def test_deltas_that_wait_together_become_one_event_and_lose_no_text(store: Store) -> None:
    scope = await started(store)
    words = [f"word{n} " for n in range(300)]
    answers = await asyncio.gather(*(store.recorder.record_delta(scope, OUTPUT_DELTA, "msg_1", 0, w) for w in words))
    events = await store.reader.events("default", scope.thread_id, 3, 1000)
    assert len(events) < 20
    assert "".join(event.payload["event"]["text"] for event in events) == "".join(words)
    assert all(isinstance(answer, Appended) and answer.events[0].id in {e.id for e in events} for answer in answers)


async def test_deltas_of_different_messages_parts_or_phases_are_never_merged(store: Store) -> None:
    scope = await started(store)
    await asyncio.gather(
        store.recorder.record_delta(scope, OUTPUT_DELTA, "msg_1", 0, "a"),
        store.recorder.record_delta(scope, OUTPUT_DELTA, "msg_2", 0, "b"),
        store.recorder.record_delta(scope, OUTPUT_DELTA, "msg_2", 1, "c"),
        store.recorder.record_delta(scope, "agent.reasoning.delta", "msg_2", 1, "d"),
        store.recorder.record(scope, step(1)),
        store.recorder.record_delta(scope, "agent.reasoning.delta", "msg_2", 1, "e"),
    )
    events = await store.reader.events("default", scope.thread_id, 3, 1000)
    assert [event.payload.get("event", {}).get("text") for event in events] == ["a", "b", "c", "d", None, "e"]


async def test_a_large_value_becomes_a_blob_that_its_thread_can_read(store: Store) -> None:
    scope = await started(store)
    text = "long " * 10_000
    done = await accept(store.recorder.record(scope, request.RequestCompleted(output={"note": "kept", "text": text})))
    output = done.events[0].payload["output"]
    assert output["note"] == "kept" and output["text"]["$blob"]["size"] == len(text)
    digest = output["text"]["$blob"]["sha256"]
    assert await store.reader.blob("default", scope.thread_id, digest) == ("text/plain; charset=utf-8", text.encode())
    assert await store.reader.blob("other", scope.thread_id, digest) is None
    assert await store.reader.blob("default", "thr_elsewhere", digest) is None


@pytest.mark.requirement("SH-13", "OS-I5")
@pytest.mark.parametrize(
    ("draft", "code"),
    [
        (Draft("runtime.nothing.known", {}), "UNKNOWN_EVENT_TYPE"),
        (Draft("runtime.step.completed", {"step": 7, "key": "k"}), "PAYLOAD_INVALID"),
        (Draft("runtime.step.completed", {"step": "s"}), "PAYLOAD_INVALID"),
        (Draft("runtime.step.completed", {"step": "s", "key": "k", "more": 1}), "PAYLOAD_INVALID"),
        (Draft("runtime.checkpoint.created", {"label": "l", "data": float("nan")}), "JSON_UNENCODABLE"),
    ],
)
async def test_a_bad_payload_is_refused_with_its_code_and_noted_in_the_run(
    store: Store, draft: Draft, code: str
) -> None:
    scope = await started(store)
    draft.run_id = scope.run_id
    assert (await refuse(store.recorder.record(scope, draft))).failure.code == code
    (noted,) = await store.reader.events("default", scope.thread_id, 3, 100)
    assert noted.type == "runtime.schema.violated" and noted.payload["code"] == code


async def test_a_payload_over_the_limit_is_refused(store: Store) -> None:
    scope = await started(store)
    delta = store.recorder.record_delta(scope, OUTPUT_DELTA, "msg", 0, "x" * (1024 * 1024 + 1))
    assert (await refuse(delta)).failure.code == "PAYLOAD_TOO_LARGE"
    (noted,) = await store.reader.events("default", scope.thread_id, 3, 100)
    assert noted.type == "runtime.schema.violated"


@pytest.mark.requirement("G21", "HK-32")
async def test_a_secret_is_replaced_and_not_refused(store: Store) -> None:
    scope = await started(store)
    secret = "sk-proj-" + "a1B2c3D4" * 5
    done = await accept(store.recorder.record(scope, request.RequestCompleted(output=f"the key is {secret}!")))
    assert done.events[0].payload["output"] == "the key is [REDACTED:api_key]!"
    events = await store.reader.events("default", scope.thread_id, 0, 100)
    assert all(secret.encode() not in event.payload_bytes for event in events)


@pytest.mark.requirement("OS-L4")
async def test_a_correction_is_a_new_event_and_the_old_one_stays(store: Store) -> None:
    from app.events.catalog.log import EventAmended

    scope = await started(store)
    wrong = (await accept(store.recorder.record(scope, step(1)))).events[0]
    amended = EventAmended(amends_seq=wrong.seq, amends_id=wrong.id, reason="typo", correction={"key": "test:2"})
    await accept(store.recorder.record(scope, amended))
    events = await store.reader.events("default", scope.thread_id, 3, 10)
    assert [event.type for event in events] == ["runtime.step.completed", "runtime.event.amended"]
    assert events[0].payload["key"] == "test:1" and isinstance(verify(await whole(store, scope)), Head)


async def whole(store: Store, scope: Scope) -> list[Event]:
    return await store.reader.events(scope.tenant, scope.thread_id, 0, 1000)


async def test_a_deleted_thread_takes_nothing_and_is_purged_to_a_tombstone(store: Store) -> None:
    scope = await started(store)
    big = "x" * 20_000
    await accept(store.recorder.record(scope, request.RequestCompleted(output=big)))
    other = await started(store)
    await accept(store.recorder.record(other, request.RequestCompleted(output=big)))
    plain = Scope("default", scope.thread_id)
    await accept(store.recorder.record(plain, thread.ThreadDeleted()))
    assert (
        await refuse(store.recorder.record(plain, thread.ThreadUpdated(title="x")))
    ).failure.code == "THREAD_DELETED"
    gone = await store.reader.thread("default", scope.thread_id)
    assert await store.retention.purge() == 0, "its days are not over"
    from app.store.retention import RetentionPurge

    assert await RetentionPurge(store.database, _Later(), 30).purge() == 1
    tombstone = await store.reader.thread("default", scope.thread_id)
    assert tombstone is not None and gone is not None
    assert (tombstone.last_seq, tombstone.head_hash) == (gone.last_seq, gone.head_hash)
    assert await store.reader.events("default", scope.thread_id, 0, 10) == []
    again = await refuse(store.recorder.record(plain, thread.ThreadCreated(), conditions=[ports.ThreadIsNew()]))
    assert again.failure.code == "THREAD_EXISTS"
    output = (await whole(store, other))[-1].payload["output"]
    kept = await store.reader.blob("default", other.thread_id, output["$blob"]["sha256"])
    assert kept is not None, "another thread still needs the same content"


class _Later:
    def now_ms(self) -> int:
        import time

        return time.time_ns() // 1_000_000 + 31 * 86_400_000

    def monotonic(self) -> float:
        return 0.0


@pytest.mark.requirement("S6")
async def test_the_same_ids_in_two_tenants_are_two_threads(store: Store) -> None:
    for tenant in ("one", "two"):
        scope = Scope(tenant, "thr_same", "run_same")
        queued = request.RequestQueued(agent="a", input=tenant)
        await accept(store.recorder.record(scope, thread.ThreadCreated(title=tenant), queued))
    for tenant in ("one", "two"):
        run = await store.reader.run(tenant, "run_same")
        assert run is not None and run.input == tenant
        assert len(await store.reader.events(tenant, "thr_same", 0, 10)) == 2
    assert await store.reader.run("three", "run_same") is None


async def test_artifacts_and_transcript_follow_in_the_same_commit(store: Store) -> None:
    scope = await started(store)
    made = ArtifactCreated(artifact=ArtifactValue(id="art_1", name="report.md", mime="text/markdown", size=3))
    await accept(store.recorder.record(scope, made, request.RequestCompleted(output="bye", message_id="msg_9")))
    (artifact,) = await store.reader.artifacts("default", scope.thread_id)
    assert artifact.value["name"] == "report.md"
    entries = await store.reader.transcript("default", scope.thread_id)
    assert [(entry.role, entry.content) for entry in entries] == [("user", "hi"), ("assistant", "bye")]


async def test_cancel_is_seen_on_the_run(store: Store) -> None:
    scope = await started(store)
    await accept(store.recorder.record(scope, CommandInjected(command="cancel", command_id="c1")))
    run = await store.reader.run("default", scope.run_id or "")
    assert run is not None and run.cancel_requested_at is not None and run.status == "running"


@pytest.mark.requirement("S6")
async def test_every_table_has_a_tenant_or_stands_under_a_thread(store: Store) -> None:
    from app.store.tables import metadata

    without_tenant = {
        "workspaces": "one server has one workspace, seen by all its tenants",
        "schema_support": "one row, about the database as a whole",
        "model_limits": "a provider's limit is shared by all tenants",
        "consumers": "one row for each follower of the whole log; what it has not read has a tenant",
        "memory_index": "stands under a namespace, which has a tenant",
        "memory_vectors": "stands under a namespace, which has a tenant",
        "memory_terms": "stands under a namespace, which has a tenant",
        "memory_postings": "stands under a term, which stands under a namespace",
    }
    for table in metadata.tables.values():
        if table.name in without_tenant:
            continue
        assert {"tenant", "thread_key"} & set(table.columns.keys()), table.name


async def test_a_run_that_belongs_to_another_thread_is_not_written_to(store: Store) -> None:
    mine, theirs = await started(store), await started(store)
    crossed = Scope("default", mine.thread_id, theirs.run_id)
    assert (await refuse(store.recorder.record(crossed, step(1)))).failure.code == "RUN_NOT_FOUND"
    queued = request.RequestQueued(agent="a")
    assert (await refuse(store.recorder.record(crossed, queued))).failure.code == "RUN_EXISTS"


@pytest.mark.requirement("HK-30")
async def test_large_content_is_stored_and_read_whole_once_per_tenant(store: Store) -> None:
    """Larger than what SQLite is given as a whole, beside content that is not."""
    first, second, blobs = await started(store), await started(store), Blobs(store.database)
    large, small = bytes(range(256)) * 8192, b"a few bytes"
    for scope in (first, second):
        for data in (large, small):
            reference = await blobs.put("default", scope.thread_id, data, "image/png")
            assert await store.reader.blob("default", scope.thread_id, reference["sha256"]) == ("image/png", data)
            part = await store.reader.blob_part("default", scope.thread_id, reference["sha256"], 2, 10)
            assert part == data[2:10]
    done = request.RequestCompleted(output=large.hex())
    (event,) = (await accept(store.recorder.record(first, done))).events
    found = await store.reader.blob("default", first.thread_id, event.payload["output"]["$blob"]["sha256"])
    assert found is not None and found[1] == large.hex().encode()
