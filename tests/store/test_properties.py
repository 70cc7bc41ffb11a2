"""What holds for any history: the fold equals the tables, an export imports to the same head, tampering is found."""

import asyncio
import re
import shutil
from collections.abc import Awaitable, Callable
from typing import Any, Protocol

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from app.core.ids import new_id
from app.core.settings import Settings
from app.events.catalog import interrupt, model, request, thread, tool
from app.events.catalog.adapter import OUTPUT_DELTA, AdapterEvent, Signal
from app.events.catalog.artifact import ArtifactCreated
from app.events.catalog.base import Payload
from app.events.catalog.execution import CommandInjected, StepCompleted
from app.events.catalog.values import ArtifactValue, ErrorValue, Usage
from app.events.chain import Broken, Head, verify
from app.events.envelope import Event
from app.events.recorder import Scope
from app.protocols.dialects.native import export, read_export
from app.store.importer import import_thread
from app.store.migrate import migrate
from app.store.tables import metadata
from app.views.thread import Thread
from app.wiring.store import Store, open_store
from tests.databases import Databases
from tests.postgres import PostgresServer
from tests.store_equals_replay import assert_tables_equal_replay

EXAMPLES = 25

names = st.sampled_from(["a", "b", "c"])
texts = st.text(max_size=20).filter(lambda text: "\x00" not in text)
values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.floats(allow_nan=False, allow_infinity=False) | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=6,
)


def _payloads() -> st.SearchStrategy[Payload]:
    late = "2027-01-01T00:00:00.000Z"
    error = ErrorValue(code="BACKEND_FAILED", message="no")
    return st.one_of(
        st.builds(lambda v: request.RequestQueued(agent="x", input=v), values),
        st.integers(1, 3).map(lambda n: request.RequestStarted(executor="e", epoch=n)),
        st.integers(1, 3).map(lambda n: request.RequestResumed(executor="e", epoch=n, reason="recovery")),
        # A run always has an output: a null would be left out of the payload, which its schema refuses.
        st.builds(
            lambda v, m: request.RequestCompleted(output="" if v is None else v, message_id=m),
            values,
            st.none() | names,
        ),
        st.just(request.RequestFailed(error=error)),
        st.just(request.RequestCancelled()),
        names.map(lambda i: interrupt.InterruptRaised(interrupt_id=i, kind="question", title="?", expires_at=late)),
        names.map(lambda i: interrupt.InterruptResolved(interrupt_id=i, answer={"a": 1}, answered_by="user:u")),
        names.map(lambda i: interrupt.InterruptExpired(interrupt_id=i)),
        st.just(CommandInjected(command="cancel", command_id="c")),
        st.builds(lambda v: StepCompleted(step="s", key="k", result=v), values),
        names.map(
            lambda m: model.ModelCompleted(
                message_id=m, model="m", provider="p", text="t", tool_calls=[], finish_reason="stop",
                usage=Usage(input_tokens=2, output_tokens=3, cost_usd=0.1),
            )
        ),
        names.map(lambda c: tool.ToolInvoked(call_id=c, tool="t", arguments={}, argument_hash="h", effect="readonly")),
        st.builds(lambda c, ok: tool.ToolResulted(call_id=c, tool="t", ok=ok), names, st.booleans()),
        names.map(lambda i: ArtifactCreated(artifact=ArtifactValue(id=new_id("artifact"), name=i))),
        texts.map(
            lambda t: AdapterEvent(event=Signal(adapter="x", phase=OUTPUT_DELTA, message_id="m", part=0, text=t))
        ),
        st.builds(lambda t: thread.ThreadUpdated(title=t), texts),
        st.builds(
            lambda m, s, c, at: thread.TranscriptUpserted(
                message_id=m, turn_id="t", role="user", entry_type="note", content=c, status=s, started_at=at
            ),
            names, st.sampled_from(["streaming", "complete", "error"]), texts, st.none() | st.integers(0, 9),
        ),
        st.just(thread.ThreadClosed()),
    )  # fmt: skip


Step = tuple[str, str, Payload]


def _as_runs_go(drawn: list[Step]) -> list[Step]:
    """Without the end of a question or a call that is not open, or its start when it is: no run has such a history."""
    at_work: set[tuple[str, str]] = set()
    ended: set[tuple[str, str]] = set()
    open_: set[tuple[str, str, str]] = set()
    kept: list[Step] = []
    for thread_name, run, payload in drawn:
        if isinstance(payload, interrupt.InterruptRaised | tool.ToolInvoked):
            # Before the run is queued and after its end it is refused, and nothing is open then.
            if (thread_name, run) not in at_work or (thread_name, run, _opens(payload)) in open_:
                continue
            open_.add((thread_name, run, _opens(payload)))
        elif isinstance(payload, interrupt.InterruptResolved | interrupt.InterruptExpired | tool.ToolResulted):
            if (thread_name, run, _opens(payload)) not in open_:
                continue
            open_.remove((thread_name, run, _opens(payload)))
        elif payload.type == request.RequestQueued.type:
            at_work |= {(thread_name, run)} - ended
        elif payload.type in request.TERMINAL:
            ended |= at_work & {(thread_name, run)}
            at_work -= ended
            open_ = {one for one in open_ if one[:2] != (thread_name, run)}
        kept.append((thread_name, run, payload))
    return kept


def _opens(
    payload: interrupt.InterruptRaised
    | interrupt.InterruptResolved
    | interrupt.InterruptExpired
    | tool.ToolInvoked
    | tool.ToolResulted,
) -> str:
    if isinstance(payload, tool.ToolInvoked | tool.ToolResulted):
        return f"call {payload.call_id}"
    return f"question {payload.interrupt_id}"


steps = st.lists(st.tuples(names, names, _payloads()), max_size=30).map(_as_runs_go)


async def play(store: Store, history: list[tuple[str, str, Payload]], prefix: str) -> None:
    """Threads and runs by letter; waves of concurrent appends, so that batches mix what was accepted and refused."""
    for letter in "abc":
        await store.recorder.record(Scope("default", f"{prefix}-{letter}"), thread.ThreadCreated())
    for start in range(0, len(history), 5):
        wave = history[start : start + 5]
        await asyncio.gather(
            *(store.recorder.record(Scope("default", f"{prefix}-{t}", f"{prefix}-{t}-{r}"), p) for t, r, p in wave)
        )


@pytest.fixture(scope="module", params=["sqlite", "postgres"])
def with_store(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> "WithStore":
    """Runs work on a store of its own: Hypothesis calls plain functions, each example brings its event loop."""
    folder = tmp_path_factory.mktemp("properties")
    template, number = folder / "template", 0
    database: str | None = None
    server: PostgresServer | None = None
    if request.param == "postgres":
        server = request.getfixturevalue("postgres_server")
        databases: Databases = request.getfixturevalue("databases")
    else:
        template.mkdir()
        asyncio.run(migrate(Settings(data_dir=template)))

    def run(work: Callable[[Store], Awaitable[None]], fresh: bool = True) -> None:
        """Without `fresh`, the database of earlier examples is used again: threads then need names of their own."""
        nonlocal number
        number += fresh
        data_dir = folder / str(number)

        async def go() -> None:
            nonlocal database
            chosen = Settings(data_dir=data_dir)
            if server is not None:
                if fresh and database is not None:
                    await databases.give_back(database)
                if fresh or database is None:
                    database = await databases.take()
                chosen = Settings(data_dir=data_dir, database_url=server.url(database))
            elif not data_dir.exists():
                shutil.copytree(template, data_dir)
            async with open_store(chosen) as store:
                await work(store)

        asyncio.run(go())

    return run


class WithStore(Protocol):
    def __call__(self, work: Callable[[Store], Awaitable[None]], fresh: bool = True) -> None: ...


PARTITION = re.compile(r"(events|deltas)_p[0-9]+")
"""Parts of the log's two tables on Postgres, which the code knows as one."""

quick = settings(
    max_examples=EXAMPLES,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)


@pytest.mark.requirement("G22", "OS-I1", "SH-4")
@quick
@given(history=steps)
def test_any_history_folded_equals_the_tables(with_store: WithStore, history: list[tuple[str, str, Payload]]) -> None:
    async def work(store: Store) -> None:
        prefix = new_id("thread")
        await play(store, history, prefix)
        await assert_tables_equal_replay(store, [("default", f"{prefix}-{letter}") for letter in "abc"])

    with_store(work, fresh=False)


@pytest.mark.requirement("OS-L4", "HK-36")
@settings(parent=quick, max_examples=10)
@given(history=steps)
def test_an_export_imports_to_the_same_events_and_the_same_tables(
    with_store: WithStore, history: list[tuple[str, str, Payload]]
) -> None:
    exported: list[bytes] = []

    async def write(store: Store) -> None:
        await play(store, history, "x")
        found = await store.reader.thread("default", "x-a")
        assert isinstance(found, Thread)
        exported.extend([line async for line in export(store.reader, "default", found)])

    async def bring(store: Store) -> None:
        brought = read_export(exported)
        head = await import_thread(store.database, brought.events, brought.blobs, brought.head)
        assert head == brought.head
        found = await store.reader.thread("default", "x-a")
        assert isinstance(found, Thread)
        again = [line async for line in export(store.reader, "default", found)]
        assert again == exported
        await assert_tables_equal_replay(store)

    with_store(write)
    with_store(bring)


def _chain(length: int) -> list[Event]:
    from app.events.envelope import GENESIS, seal

    events: list[Event] = []
    previous = GENESIS
    for seq in range(1, length + 1):
        run_id = "run_1" if seq > 1 else None
        payload = b'{"key":"k%d","step":"s"}' % seq
        at, run_seq = 1_767_225_600_000 + seq, seq - 1 if run_id else None
        id, type = f"evt_{seq}", "runtime.step.completed"
        digest = seal(previous, id, "default", "thr_1", run_id, seq, run_seq, type, "system", at, payload, None)
        events.append(
            Event(id, "default", "thr_1", run_id, seq, run_seq, type, "system", at, payload, None, previous, digest)
        )
        previous = digest
    return events


@pytest.mark.requirement("G19")
@settings(max_examples=300, deadline=None)
@given(data=st.data())
def test_a_changed_deleted_inserted_or_swapped_event_is_always_found(data: st.DataObject) -> None:
    events = _chain(data.draw(st.integers(3, 12)))
    head = Head(events[-1].seq, events[-1].hash)
    assert verify(events, head) == head
    at = data.draw(st.integers(0, len(events) - 1))
    how = data.draw(st.sampled_from(["flip", "field", "delete", "insert", "swap", "cut"]))
    victim = events[at]
    if how == "flip":
        position = data.draw(st.integers(0, len(victim.payload_bytes) - 1))
        flipped = bytearray(victim.payload_bytes)
        flipped[position] ^= data.draw(st.integers(1, 127)) & 0x7F or 1
        victim.payload_bytes = bytes(flipped)
    elif how == "field":
        name = data.draw(st.sampled_from(["id", "tenant", "thread_id", "type", "actor", "prev_hash", "hash"]))
        setattr(victim, name, getattr(victim, name) + "x")
    elif how == "delete":
        del events[at]
    elif how == "insert":
        events.insert(at, victim)
    elif how == "swap":
        other = data.draw(st.integers(0, len(events) - 1).filter(lambda n: n != at))
        events[at], events[other] = events[other], events[at]
    else:
        del events[at:]
    found = verify(events, head)
    assert isinstance(found, Broken)
    if how in ("flip", "field"):
        assert found.seq == at + 1


@pytest.mark.requirement("G20")
def test_the_migrations_make_exactly_the_tables_of_the_code(with_store: WithStore) -> None:
    """Alembic's own comparison, on both databases."""
    from alembic.autogenerate import compare_metadata
    from alembic.migration import MigrationContext
    from sqlalchemy import Connection, NullPool, create_engine, make_url
    from sqlalchemy.ext.asyncio import create_async_engine

    def difference(connection: Connection) -> list[Any]:
        found = compare_metadata(MigrationContext.configure(connection), metadata)
        return [one for one in found if not (one[0] == "remove_table" and PARTITION.fullmatch(one[1].name))]

    async def work(store: Store) -> None:
        chosen = store.settings
        if chosen.database_url is not None:
            url = make_url(chosen.database_url).set(drivername="postgresql+asyncpg")
            engine = create_async_engine(url, poolclass=NullPool)
            async with engine.connect() as connection:
                assert await connection.run_sync(difference) == []
            await engine.dispose()
        else:
            sync_engine = create_engine(f"sqlite:///{chosen.sqlite_path}", poolclass=NullPool)
            with sync_engine.connect() as plain:
                assert difference(plain) == []

    with_store(work)


def test_the_newest_revision_is_the_one_that_the_code_expects() -> None:
    from app.store.migrate import NEWEST, known_revisions

    assert max(known_revisions()) == NEWEST
