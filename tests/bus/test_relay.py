"""What a server says that polls: each event once, and none that was old when somebody began to listen."""

from collections.abc import Sequence

from app.bus.relay import Relay
from app.events.envelope import GENESIS, Event
from app.events.hub import Hub

THREAD = "thr_1"


def _event(seq: int) -> Event:
    return Event(f"evt_{seq}", "default", THREAD, None, seq, None, "x", "system", 0, b"{}", None, GENESIS, GENESIS)


class _Stored:
    """A thread of so many events."""

    def __init__(self) -> None:
        self.last = 0

    async def events(self, tenant: str, thread_id: str, after: int, limit: int) -> list[Event]:
        return [_event(seq) for seq in range(after + 1, self.last + 1)][:limit]

    async def events_of(
        self, tenant: str, thread_id: str, types: Sequence[str], after: int, up_to: int, limit: int
    ) -> list[Event]:
        return []


def _relay(hub: Hub, stored: _Stored) -> Relay:
    relay = Relay(hub, stored)
    relay.shared = True
    return relay


async def _read(relay: Relay) -> None:
    for task in list(relay._tasks):
        await task


async def test_an_own_event_that_a_poll_counts_as_old_before_it_is_published_is_heard_all_the_same() -> None:
    hub = Hub()
    relay, everything = _relay(hub, _Stored()), hub.subscribe("default", None)
    relay.prime("default", THREAD, 6)  # it found the commit of the sixth a moment before the log published it
    relay.publish([_event(6)])
    relay.publish([_event(7)])
    assert [event.seq for event in everything.take()] == [6, 7]


async def test_own_events_before_the_one_that_a_poll_finds_are_heard_all_the_same_and_in_order() -> None:
    hub, stored = Hub(), _Stored()
    relay, follower = _relay(hub, stored), hub.subscribe("default", [THREAD])
    stored.last = 3
    relay.found("default", THREAD, 3, 3)  # they are stored, and the log publishes them while the last one is read
    relay.publish([_event(seq) for seq in (1, 2, 3)])
    await _read(relay)
    relay.publish([_event(4)])
    assert [event.seq for event in follower.take()] == [1, 2, 3, 4]


async def test_an_own_event_that_a_poll_read_before_it_is_published_is_heard_once() -> None:
    hub, stored = Hub(), _Stored()
    relay, follower = _relay(hub, stored), hub.subscribe("default", [THREAD])
    stored.last = 6
    relay.found("default", THREAD, 6, 6)
    await _read(relay)
    relay.publish([_event(6)])
    assert [event.seq for event in follower.take()] == [6]


async def test_what_was_said_before_somebody_listened_is_not_found_by_a_poll_and_what_was_not_is() -> None:
    hub, stored = Hub(), _Stored()
    relay = _relay(hub, stored)
    relay.publish([_event(seq) for seq in (1, 2, 3)])
    stored.last = 3
    follower, everything = hub.subscribe("default", [THREAD]), hub.subscribe("default", None)
    relay.found("default", THREAD, 1, 3)
    await _read(relay)
    assert follower.take() == everything.take() == []
    stored.last = 5  # another server wrote, and its news was lost
    relay.found("default", THREAD, 1, 5)
    await _read(relay)
    relay.publish([_event(6)])
    assert [event.seq for event in follower.take()] == [event.seq for event in everything.take()] == [4, 5, 6]


async def test_threads_of_a_tenant_that_nobody_listens_to_any_more_are_as_old_as_they_were_said() -> None:
    hub, stored = Hub(), _Stored()
    relay, early = _relay(hub, stored), hub.subscribe("default", None)
    stored.last = 2
    relay.publish([_event(1), _event(2)])
    assert len(early.take()) == 2
    early.close()
    relay.forget("default")
    late = hub.subscribe("default", None)
    relay.found("default", THREAD, 1, 2)
    await _read(relay)
    assert late.take() == []
