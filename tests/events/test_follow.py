"""Following a thread: history, then news, without gap or duplicate, however often the reader comes back."""

import asyncio
import contextlib
from collections.abc import AsyncIterator

import pytest
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st

from app.core.ids import new_id
from app.core.principal import DEFAULT_TENANT
from app.core.settings import Settings
from app.events import follow as following
from app.events.catalog import Payload, ledger, thread
from app.events.envelope import Event
from app.events.follow import FellBehind, follow
from app.events.recorder import Scope
from app.wiring.store import Store, open_store
from tests.waiting import until


@pytest.fixture
async def store(settings: Settings) -> AsyncIterator[Store]:
    async with open_store(settings) as store:
        yield store


def _row(number: int, content: str = "x") -> thread.TranscriptUpserted:
    return thread.TranscriptUpserted(
        message_id=f"m{number}", turn_id="t", role="user", type="message", content=content, status="complete"
    )  # type: ignore[call-arg]  # the field's name is an alias


async def _record(store: Store, thread_id: str, *payloads: Payload) -> None:
    await store.recorder.record(Scope(DEFAULT_TENANT, thread_id), *payloads)


async def _some(store: Store, thread_id: str, after: int, count: int) -> list[Event]:
    """A reader that connects, takes about `count` events and goes away."""
    seen: list[Event] = []
    async with contextlib.aclosing(follow(store.hub, store.reader.events, DEFAULT_TENANT, thread_id, after)) as batches:
        async for batch in batches:
            seen += batch
            if len(seen) >= count:
                break
    return seen


@pytest.mark.requirement("PX-1", "G2", "G3")
@hypothesis_settings(
    max_examples=12, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)
@given(
    batches=st.lists(st.integers(1, 7), min_size=4, max_size=14),
    visits=st.lists(st.integers(1, 12), min_size=1, max_size=8),
    page=st.integers(1, 5),
)
async def test_a_reader_that_comes_back_at_any_seq_sees_exactly_the_stream(
    store: Store, batches: list[int], visits: list[int], page: int
) -> None:
    thread_id, total = new_id("thread"), 1 + sum(batches)
    await _record(store, thread_id, thread.ThreadCreated())

    async def produce() -> None:
        for size in batches:
            await _record(store, thread_id, *(_row(n) for n in range(size)))

    async def read() -> list[Event]:
        seen: list[Event] = []
        while len(seen) < total:
            wanted = min(visits[len(seen) % len(visits)], total - len(seen))
            seen += await _some(store, thread_id, seen[-1].seq if seen else 0, wanted)
        return seen

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(following, "PAGE", page)  # many page borders in a short history
        _, seen, other = await asyncio.wait_for(asyncio.gather(produce(), read(), read()), 30)
    stored = await store.reader.events(DEFAULT_TENANT, thread_id, 0, total + 1)
    for events in (seen, other):
        assert [event.seq for event in events] == list(range(1, total + 1))
        assert [event.hash for event in events] == [event.hash for event in stored]


@pytest.mark.requirement("PX-1")
async def test_global_news_of_another_thread_does_not_disturb_a_follower(store: Store) -> None:
    """The ledger's next seq is the very one that the follower waits for."""
    thread_id = new_id("thread")
    await _record(store, thread_id, thread.ThreadCreated())
    reading = asyncio.create_task(_some(store, thread_id, 0, 3))
    await until(lambda: len(store.hub) == 1)
    await _record(store, "sys_ledger", thread.ThreadCreated(owner="system"))
    await _record(store, "sys_ledger", ledger.WorkspaceLoaded(digest="d", agents=1))
    await _record(store, thread_id, _row(1))
    await _record(store, "sys_ledger", ledger.WorkspaceLoaded(digest="e", agents=1))
    await _record(store, thread_id, _row(2))
    seen = await asyncio.wait_for(reading, 30)
    assert [(event.thread_id, event.seq) for event in seen] == [(thread_id, 1), (thread_id, 2), (thread_id, 3)]


@pytest.mark.requirement("G11")
async def test_a_jump_in_the_news_is_filled_from_the_store(store: Store) -> None:
    """As when another replica wrote in between and its news is late."""
    thread_id = new_id("thread")
    await _record(store, thread_id, thread.ThreadCreated())
    reading = asyncio.create_task(_some(store, thread_id, 1, 4))
    await until(lambda: len(store.hub) == 1)
    subscriptions = store.hub._by_thread.pop((DEFAULT_TENANT, thread_id))  # deaf for a moment
    await _record(store, thread_id, _row(1), _row(2))
    store.hub._by_thread[DEFAULT_TENANT, thread_id] = subscriptions
    await _record(store, thread_id, _row(3))
    await _record(store, thread_id, _row(4))
    assert [event.seq for event in await asyncio.wait_for(reading, 30)] == [2, 3, 4, 5]


@pytest.mark.requirement("G12", "HK-29")
async def test_a_follower_that_does_not_take_its_events_learns_where_it_stopped(store: Store) -> None:
    thread_id = new_id("thread")
    await _record(store, thread_id, thread.ThreadCreated())
    batches = follow(store.hub, store.reader.events, DEFAULT_TENANT, thread_id, 0)
    first = await anext(batches)
    (subscription,) = store.hub._by_tenant[DEFAULT_TENANT]
    waiting = asyncio.ensure_future(anext(batches))
    await until(lambda: not subscription.paused)
    await _record(store, thread_id, _row(0))
    second = await waiting
    for _ in range(3):
        await _record(store, thread_id, *(_row(n) for n in range(400)))
    with pytest.raises(FellBehind) as fell:
        await asyncio.wait_for(anext(batches), 30)
    assert ([event.seq for event in first + second], fell.value.last_seq) == ([1, 2], 2)
    assert (store.hub.dropped, len(store.hub)) == (1, 0)
    rest = await _some(store, thread_id, fell.value.last_seq, 1200)
    assert [event.seq for event in rest] == list(range(3, 1203))


async def test_a_follower_ends_when_the_hub_closes(store: Store) -> None:
    thread_id = new_id("thread")
    await _record(store, thread_id, thread.ThreadCreated())
    reading = asyncio.create_task(_some(store, thread_id, 0, 99))
    await until(lambda: len(store.hub) == 1)
    store.hub.close_all()
    assert [event.seq for event in await asyncio.wait_for(reading, 30)] == [1]
