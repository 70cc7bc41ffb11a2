"""Whether somebody waits for news of other servers: said when it is so, and not because a run has just ended here."""

import asyncio

import httpx2
import pytest

from app.bus import attention as attention_module
from app.bus.attention import Attention
from app.core.settings import Settings
from app.events.hub import Hub
from tests import sse
from tests.bus.conftest import team
from tests.bus.pace import Paced
from tests.clients import submit
from tests.waiting import until


class _Server:
    """What it said, and the threads that it works on."""

    def __init__(self) -> None:
        self.hub, self.said, self.works_on = Hub(), list[bool](), set[str]()
        self.attention = Attention(self.hub, self.said.append)
        self.attention.works_on = lambda tenant, thread_id: thread_id in self.works_on
        self.hub.on_listener = self.attention.listened

    async def looked(self) -> None:
        """Returns when it has looked again at what it doubted."""
        await until(lambda: self.attention._look is None, 30)


@pytest.fixture
async def server() -> _Server:
    return _Server()


async def test_server_without_listeners_says_with_every_beat_that_nobody_waits(server: _Server) -> None:
    server.attention.beat()
    server.attention.beat()
    assert server.said == [False, False]


async def test_listener_of_a_run_that_is_at_work_here_does_not_wait_for_others(server: _Server) -> None:
    server.works_on.add("thr_1")
    server.attention.beat()
    server.hub.subscribe("default", ["thr_1"])
    await server.looked()
    server.attention.beat()
    assert server.said == [False, False]


async def test_listener_of_a_thread_that_others_may_work_on_waits_after_a_grace(server: _Server) -> None:
    server.attention.beat()
    server.hub.subscribe("default", ["thr_1"])
    assert server.said == [False]
    await server.looked()
    assert server.said == [False, True] and server.attention.waits
    server.attention.beat()
    await server.looked()
    assert server.said == [False, True]  # nothing new


async def test_listener_that_leaves_after_its_run_and_one_whose_run_begins_do_not_wait(server: _Server) -> None:
    server.attention.beat()
    leaving = server.hub.subscribe("default", ["thr_1"])
    server.hub.subscribe("default", ["thr_2"])
    server.attention.beat()  # sees both
    leaving.close()
    server.works_on.add("thr_2")
    await server.looked()
    assert server.said == [False, False]


async def test_server_says_that_nobody_waits_any_more_when_the_last_such_listener_left(server: _Server) -> None:
    waiting = server.hub.subscribe("default", ["thr_1"])
    server.attention.beat()
    await server.looked()
    assert server.attention.waits and server.said == []  # whoever never said otherwise is taken to wait
    waiting.close()
    server.attention.beat()
    assert server.said == [False]


async def test_listener_of_all_threads_and_a_run_behind_another_servers_wait_at_once(server: _Server) -> None:
    server.attention.beat()
    everything = server.hub.subscribe("default", None)
    assert server.said == [False, True]
    server.attention.beat()
    assert server.said == [False, True]
    everything.close()
    server.attention.beat()
    server.attention.wait()
    server.attention.beat()
    assert server.said == [False, True, False, True]


async def test_server_with_very_many_doubtful_listeners_waits_without_looking_at_all_of_them(
    server: _Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(attention_module, "MAX_LOOKED_AT", 5)
    server.attention.beat()
    server.hub.subscribe("default", [f"thr_{n}" for n in range(6)])
    assert server.said == [False, True] and server.attention._look is None


async def test_others_wait_unless_each_of_them_has_just_said_that_it_does_not(
    server: _Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    attention = server.attention
    attention.heard("server_1", False)
    assert attention.nobody_waits(["server_1"]) and not attention.nobody_waits(["server_1", "server_2"])
    attention.heard("server_2", False)
    assert attention.nobody_waits(["server_1", "server_2"])
    attention.heard("server_1", True)
    assert not attention.nobody_waits(["server_1", "server_2"]) and attention.nobody_waits(["server_2"])
    monkeypatch.setattr(attention_module, "CALM_SECONDS", 0.0)
    await asyncio.sleep(0)
    assert not attention.nobody_waits(["server_2"])


@pytest.mark.requirement("PX-4")
async def test_news_goes_out_at_once_from_when_somebody_at_another_server_waits_for_it(
    on_bus: Settings, pace: Paced, no_polls: None
) -> None:
    async with team(on_bus, 2, pace) as (first, second), httpx2.AsyncClient(base_url=first.url) as client:
        sender, hearer = first.holdfast.replicas, second.holdfast.replicas
        assert sender is not None and hearer is not None
        await until(lambda: sender._outbox.calm and not hearer.attention.waits, 30)
        run = await submit(client, "echo", "3")
        async with httpx2.AsyncClient(base_url=second.url, timeout=60) as other:
            reading = asyncio.create_task(sse.read(other, f"/api/runs/{run['id']}/stream"))
            await until(lambda: hearer.attention.waits and not sender._outbox.calm, 30)
            for _ in range(3):
                pace.step()
            frames = await reading
        stored = await first.holdfast.store.reader.run_events("default", run["id"], 0, 1000)
        assert [frame.data["seq"] for frame in frames if frame.id is not None] == [event.seq for event in stored]
        await until(lambda: sender._outbox.calm, 30)
