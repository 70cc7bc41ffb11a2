"""The hub never waits for a reader: every queue is bounded, and one that overflows concerns nobody else."""

import asyncio

import pytest

from app.events.envelope import GENESIS, Event
from app.events.hub import MAX_QUEUED_BYTES, MAX_QUEUED_EVENTS, Hub


def _event(seq: int, size: int = 2, thread_id: str = "thr_1", tenant: str = "default", type: str = "x") -> Event:
    return Event(
        f"evt_{seq}", tenant, thread_id, None, seq, None, type, "system", 0, b" " * size, None, GENESIS, GENESIS
    )


@pytest.mark.smoke
@pytest.mark.requirement("G12", "HK-29")
def test_a_reader_that_never_reads_overflows_and_nobody_else_notices() -> None:
    hub = Hub()
    sleeper, reader = hub.subscribe("default", ["thr_1"]), hub.subscribe("default", ["thr_1"])
    seen: list[int] = []
    for seq in range(1, 3 * MAX_QUEUED_EVENTS + 1):
        hub.publish([_event(seq)])
        seen += [event.seq for event in reader.take()]
    assert seen == list(range(1, 3 * MAX_QUEUED_EVENTS + 1))
    assert (sleeper.overflowed, reader.overflowed, hub.dropped) == (True, False, 1)
    assert sleeper.take() == []  # what it missed is in the store, not in memory


@pytest.mark.requirement("G12")
def test_large_events_overflow_a_queue_by_their_size() -> None:
    hub = Hub()
    sleeper = hub.subscribe("default", ["thr_1"])
    hub.publish([_event(1, MAX_QUEUED_BYTES), _event(2, 1)])
    assert sleeper.overflowed


@pytest.mark.requirement("G12")
def test_one_event_over_the_limit_is_delivered_to_a_reader_that_keeps_up() -> None:
    hub = Hub()
    reader = hub.subscribe("default", ["thr_1"])
    hub.publish([_event(1, 2 * MAX_QUEUED_BYTES)])
    assert [event.seq for event in reader.take()] == [1]


@pytest.mark.requirement("CM-2", "S6")
def test_another_tenant_hears_nothing() -> None:
    hub = Hub()
    other = hub.subscribe("other", None)
    named = hub.subscribe("other", ["thr_1"])
    hub.publish([_event(1), _event(2, thread_id="sys_ledger", type="runtime.workspace.loaded")])
    assert (other.take(), named.take()) == ([], [])


@pytest.mark.requirement("CM-2")
def test_global_news_reaches_a_paused_subscription_of_another_thread() -> None:
    hub = Hub()
    reader = hub.subscribe("default", ["thr_1"])
    reader.pause()
    hub.publish([_event(7), _event(8), _event(1, thread_id="sys_ledger", type="runtime.workspace.loaded")])
    assert [event.thread_id for event in reader.take()] == ["sys_ledger"]
    assert reader.missed == {"thr_1": (7, 8)}


def test_what_was_queued_when_a_subscription_pauses_counts_as_missed() -> None:
    hub = Hub()
    reader = hub.subscribe("default", ["thr_1", "thr_2"])
    hub.publish([_event(4), _event(9, thread_id="thr_2")])
    reader.pause()
    assert (reader.take(), reader.missed) == ([], {"thr_1": (4, 4), "thr_2": (9, 9)})


def test_a_closed_subscription_leaves_nothing_behind() -> None:
    hub = Hub()
    for threads in (None, ["thr_1"], ["thr_1", "thr_2"]):
        subscription = hub.subscribe("default", threads)
        subscription.listen_to(["thr_3"])
        subscription.close()
        subscription.close()
    assert len(hub) == 0
    assert (hub._by_thread, hub._unfiltered, hub._by_tenant) == ({}, {}, {})


class _Listener:
    """As a socket: writes what is queued when it is woken. `stalled` has no room."""

    def __init__(self, hub: Hub, *, stalled: bool = False) -> None:
        self.subscription, self.stalled = hub.subscribe("default", ["thr_1"]), stalled
        self.writes: list[list[int]] = []
        self.subscription.on_news = self._flush

    def _flush(self) -> None:
        if not self.stalled:
            self.writes.append([event.seq for event in self.subscription.take()])


async def _turns_taken(listeners: list[_Listener]) -> None:
    """Each turn is a step of the loop."""
    for _ in listeners:
        await asyncio.sleep(0)
    assert not any(listener.subscription.has_turn for listener in listeners)


@pytest.mark.requirement("G12")
async def test_many_listeners_take_turns_and_get_at_once_what_came_meanwhile() -> None:
    hub = Hub()
    listeners = [_Listener(hub) for _ in range(100)]
    hub.publish([_event(1)])
    assert all(listener.writes == [] for listener in listeners)
    hub.publish([_event(2), _event(3)])
    await _turns_taken(listeners)
    assert all(listener.writes == [[1, 2, 3]] for listener in listeners)
    few = [_Listener(hub) for _ in range(3)]
    for listener in listeners:
        listener.subscription.close()
    hub.publish([_event(4), _event(5)])
    assert [listener.writes for listener in few] == [[[4, 5]]] * 3, "few listeners need no turns"


@pytest.mark.requirement("G12")
def test_what_is_published_at_once_overflows_no_listener_that_reads() -> None:
    hub = Hub()
    reader, stalled = _Listener(hub), _Listener(hub, stalled=True)
    hub.publish([_event(seq) for seq in range(1, 3 * MAX_QUEUED_EVENTS + 1)])
    assert [seq for write in reader.writes for seq in write] == list(range(1, 3 * MAX_QUEUED_EVENTS + 1))
    assert (reader.subscription.overflowed, stalled.subscription.overflowed) == (False, True)


@pytest.mark.requirement("G12")
async def test_in_a_crowd_only_a_reader_that_does_not_read_overflows() -> None:
    hub = Hub()
    listeners, stalled = [_Listener(hub) for _ in range(50)], _Listener(hub, stalled=True)
    hub.publish([_event(seq) for seq in range(1, 3 * MAX_QUEUED_EVENTS + 1)])  # no turn in between
    await _turns_taken(listeners)
    for listener in listeners:
        assert [seq for write in listener.writes for seq in write] == list(range(1, 3 * MAX_QUEUED_EVENTS + 1))
    assert stalled.subscription.overflowed
    assert hub.dropped == 1
