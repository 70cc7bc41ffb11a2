"""What servers say to each other: read back as it was said, bounded, and nothing else is read."""

import asyncio
import itertools
from collections.abc import Sequence

import pytest

from app.bus import outbox as outbox_module
from app.bus.contract import CONTROL, MAX_MESSAGE_BYTES
from app.bus.kinds.local import LocalBus
from app.bus.messages import (
    ExtensionsChange,
    Hello,
    KeyRevocation,
    Message,
    News,
    NewsWish,
    RateUse,
    RunCommand,
    ThreadNews,
    WorkOffer,
    WorkspaceChange,
    beginning_of_news,
    decode,
    encode,
    portions,
    use_portions,
)
from app.bus.outbox import Outbox
from tests.waiting import until

SAID: list[Message] = [
    News("server_1", (ThreadNews("thr_1", 1, 7, 3), ThreadNews('a "quoted" ü', 5, 5))),
    Hello("server_1", 4, True),
    NewsWish("server_1", True),
    NewsWish("server_1", False),
    WorkOffer("server_1"),
    RunCommand("server_1", "default", "run_1"),
    KeyRevocation("server_1", "key_1"),
    WorkspaceChange("server_1"),
    ExtensionsChange("server_1"),
    RateUse("server_1", (("default", "key_1", 3),)),
]


@pytest.mark.parametrize("message", SAID, ids=lambda message: type(message).__name__)
def test_what_is_said_is_read_back(message: Message) -> None:
    assert decode(encode(message)) == message


@pytest.mark.parametrize(
    "data",
    [
        b"", b"{}", b"[]", b"[1]", b'["news"]', b'["news","s"]', b'["news","s",{}]', b'["news","s",[["t",0,1,0]]]',
        b'["news","s",[["t",5,1,0]]]', b'["news","s",[["t",1,true,0]]]', b'["news","s",[["t",1,1e3,0]]]',
        b'["news","s",[["t",1,1]]]', b'["news","",[]]', b'["hello","s",1]', b'["hello","s","1",true]',
        b'["command","s","t",1]', b'["rates","s",[["t","c",-1]]]', b'["rates","s",[["t"]]]', b'["rates","s",[{}]]',
        b'["wish","s"]', b'["wish","s",1]',
        b'["other","s"]', b"\xff", b'["work","s",1]', b'["revoked","s","' + b"x" * 300 + b'"]', b"[" * 5000,
        b'["news","s",[' + b'["t",1,1,0],' * 2000 + b'["t",1,1,0]]]',
    ],
)  # fmt: skip
def test_anything_else_is_not_a_message(data: bytes) -> None:
    assert decode(data) is None


def test_many_news_and_uses_are_said_in_messages_that_every_bus_carries() -> None:
    news = [ThreadNews(f"thr_{n:060}", n + 1, n + 2) for n in range(500)]
    said = list(portions("server_1", news))
    assert all(len(data) <= MAX_MESSAGE_BYTES for data in said) and all(one.startswith(b'["news"') for one in said)
    read = [decode(data) for data in said]
    assert [one for message in read if isinstance(message, News) for one in message.threads] == news
    used = [("ten\n" * 16, f"key_{n:060}", n) for n in range(300)]
    sent = list(use_portions("server_1", used))
    assert all(len(data) <= MAX_MESSAGE_BYTES for data in sent)
    heard = [decode(data) for data in sent]
    assert [one for message in heard if isinstance(message, RateUse) for one in message.used] == used


def test_a_server_knows_its_own_news_by_their_beginning() -> None:
    own = beginning_of_news("server_1")
    assert encode(SAID[0]).startswith(own)
    assert not any(encode(message).startswith(own) for message in SAID[1:])
    assert not encode(News("server_12", ())).startswith(own)


class Carried(LocalBus):
    def __init__(self) -> None:
        self.said: list[tuple[str, bytes]] = []

    async def publish(self, messages: Sequence[tuple[str, bytes]]) -> None:
        self.said += messages


async def test_equal_uses_of_a_moment_are_added_up() -> None:
    """Postgres would carry them as one."""
    bus = Carried()
    outbox = Outbox(bus, "server_1")
    for _ in range(50):
        outbox.say_use(("default", "key_1"), 2)
    outbox.say_use(("default", "key_2"), 1)
    outbox.start()
    await until(lambda: bool(bus.said))
    await outbox.close()
    assert [(subject, decode(data)) for subject, data in bus.said] == [
        (CONTROL, RateUse("server_1", (("default", "key_1", 100), ("default", "key_2", 1))))
    ]


async def test_a_busy_server_gathers_news_for_longer_but_says_everything_else_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(outbox_module, "GATHER_SECONDS", 0)
    monkeypatch.setattr(outbox_module, "LONGEST_GATHER_SECONDS", 3600)
    bus = Carried()
    outbox = Outbox(bus, "server_1")
    hours = itertools.count()
    monkeypatch.setattr(outbox, "_time", lambda: next(hours) * 3600)  # as slow as that
    outbox.say_use(("default", "key_1"), 1)
    outbox.start()
    await until(lambda: len(bus.said) == 1)
    outbox.say(Hello("server_1"))
    for _ in range(100):
        await asyncio.sleep(0)  # whoever did not wait for more would have sent it by now
    assert len(bus.said) == 1
    outbox.say(KeyRevocation("server_1", "key_1"))
    await until(lambda: len(bus.said) == 3)
    await outbox.close()
    assert [decode(data) for _, data in bus.said[1:]] == [Hello("server_1"), KeyRevocation("server_1", "key_1")]


async def test_news_is_gathered_for_longer_while_nobody_waits_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outbox_module, "CALM_GATHER_SECONDS", 3600)
    bus = Carried()
    outbox = Outbox(bus, "server_1")
    outbox.calm = True
    outbox.say(Hello("server_1"))
    outbox.start()
    await until(lambda: len(bus.said) == 1)
    outbox.say(Hello("server_1"))
    outbox.say(NewsWish("server_1", False))
    await asyncio.sleep(2 * outbox_module.GATHER_SECONDS)
    assert len(bus.said) == 1
    outbox.hurry()
    await until(lambda: len(bus.said) == 3)
    outbox.calm = True
    outbox.say(Hello("server_1"))
    outbox.say(NewsWish("server_1", True))  # which is not gathered
    await until(lambda: len(bus.said) == 5)
    await outbox.close()
