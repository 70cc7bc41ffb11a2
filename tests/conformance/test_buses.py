"""What every bus has to do, whichever engine carries its messages."""

from collections.abc import AsyncIterator, Callable
from functools import partial

import pytest

from app.bus.contract import MAX_MESSAGE_BYTES, Bus, BusDown
from app.core.settings import Settings
from app.store.notifications import open_channel
from app.wiring.kinds import make_bus
from tests.waiting import until


class Listener:
    def __init__(self, bus: Bus) -> None:
        self.bus = bus
        self.heard: list[tuple[str, bytes]] = []
        self.connections = 0

    def start(self) -> None:
        self.bus.start(lambda subject, message: self.heard.append((subject, message)), self._connected)

    def _connected(self) -> None:
        self.connections += 1


Make = Callable[[], Listener]


@pytest.fixture
async def make(joined: Settings) -> AsyncIterator[Make]:
    made: list[Listener] = []

    def one() -> Listener:
        assert joined.bus is not None and joined.database_url is not None
        _, bus = make_bus(joined.bus, partial(open_channel, joined.database_url))
        made.append(Listener(bus))
        return made[-1]

    yield one
    for listener in made:
        await listener.bus.close()


async def _connected(listener: Listener) -> Listener:
    before = listener.connections
    if not before:
        listener.start()
    await until(lambda: listener.connections > before)
    return listener


async def test_a_message_reaches_every_listener_of_its_subject_and_its_sender_but_nobody_else(make: Make) -> None:
    one, two, other = make(), make(), make()
    await one.bus.listen("news.a.b")
    await two.bus.listen("news.a.b")
    await other.bus.listen("news.a")
    for listener in (one, two, other):
        await _connected(listener)
    await one.bus.publish([("news.a.b", b"[1]"), ("news.a.b", '["ä"]'.encode())])
    await until(lambda: len(one.heard) == len(two.heard) == 2)
    assert one.heard == two.heard == [("news.a.b", b"[1]"), ("news.a.b", '["ä"]'.encode())]
    await one.bus.publish([("news.a", b"[2]")])
    await until(lambda: len(other.heard) == 1)
    assert other.heard == [("news.a", b"[2]")]


async def test_what_is_listened_to_while_connected_is_heard_when_listen_returns(make: Make) -> None:
    one, two = await _connected(make()), await _connected(make())
    await two.bus.listen("news.late")
    await one.bus.publish([("news.late", b"[1]")])
    await until(lambda: two.heard == [("news.late", b"[1]")])
    await two.bus.leave("news.late")
    await two.bus.listen("control")
    await one.bus.publish([("news.late", b"[2]"), ("control", b"[3]")])
    await until(lambda: len(two.heard) == 2)
    assert two.heard[-1] == ("control", b"[3]")


async def test_subjects_of_the_longest_names_and_the_largest_messages_are_carried(make: Make) -> None:
    one = make()
    subject, message = "news." + "x" * 64, b'"' + b"y" * (MAX_MESSAGE_BYTES - 2) + b'"'
    await one.bus.listen(subject)
    await _connected(one)
    await one.bus.publish([(subject, message)])
    await until(lambda: one.heard == [(subject, message)])


async def test_a_request_reaches_its_receiver(make: Make) -> None:
    one, owner = make(), make()
    await owner.bus.listen("owner.executor_1")
    await _connected(one)
    await _connected(owner)
    assert await one.bus.request("owner.executor_1", b"[1]", 5)
    await until(lambda: owner.heard == [("owner.executor_1", b"[1]")])


async def test_a_connection_that_is_dropped_is_made_again_and_hears_the_same(make: Make) -> None:
    one, two = make(), make()
    await one.bus.listen("news.a")
    await _connected(one)
    await _connected(two)
    one.bus.reconnect()
    await until(lambda: one.connections == 2)
    await two.bus.publish([("news.a", b"[1]")])
    await until(lambda: one.heard == [("news.a", b"[1]")])


async def test_without_a_connection_nothing_can_be_said(make: Make) -> None:
    one = make()
    with pytest.raises(BusDown):
        await one.bus.publish([("control", b"[]")])
    with pytest.raises(BusDown):
        await one.bus.request("owner.x", b"[]", 1)
