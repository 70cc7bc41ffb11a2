"""A connection between two requests is closed when it has been idle for the keep-alive time, and not before."""

import asyncio

import uvicorn
from starlette.types import Receive, Scope, Send
from uvicorn.server import ServerState

from app.protocols.wire.uvicorn_connection import HttpProtocol

REQUEST = b"GET / HTTP/1.1\r\nHost: here\r\n\r\n"


async def _app(scope: Scope, receive: Receive, send: Send) -> None:
    await send({"type": "http.response.start", "status": 204, "headers": []})
    await send({"type": "http.response.body"})


class _Clock:
    """The loop of one connection: its time, and the one timer that may be set."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self.now = 0.0
        self.timers: list[asyncio.TimerHandle] = []

    def time(self) -> float:
        return self.now

    def call_later(self, seconds: float, callback: object) -> asyncio.TimerHandle:
        timer = asyncio.TimerHandle(self.now + seconds, callback, (), self._loop)  # type: ignore[arg-type]
        self.timers.append(timer)
        return timer

    def create_task(self, work: object) -> asyncio.Task[None]:
        return self._loop.create_task(work)  # type: ignore[arg-type]

    def due(self) -> asyncio.TimerHandle:
        """The one timer that is set, when its time has come."""
        (timer,) = [timer for timer in self.timers if not timer.cancelled()]
        self.timers.clear()
        self.now = timer.when()
        timer._run()
        return timer


class _Transport(asyncio.Transport):
    def __init__(self) -> None:
        super().__init__()
        self.closed = False

    def write(self, data: object) -> None: ...

    def close(self) -> None:
        self.closed = True

    def is_closing(self) -> bool:
        return self.closed


async def _connected() -> tuple[HttpProtocol, _Clock, _Transport]:
    config = uvicorn.Config(_app, loop="none", lifespan="off", log_config=None, timeout_keep_alive=5)
    clock, transport = _Clock(asyncio.get_running_loop()), _Transport()
    config.load()
    made = HttpProtocol(config, ServerState(), {}, clock)
    made.connection_made(transport)
    return made, clock, transport


async def _ask(protocol: HttpProtocol) -> None:
    protocol.data_received(REQUEST)
    await asyncio.gather(*protocol.tasks)


async def test_an_idle_connection_is_closed_after_the_keep_alive_time() -> None:
    protocol, clock, transport = await _connected()
    await _ask(protocol)
    assert clock.due().when() == 5
    assert transport.closed


async def test_the_time_counts_from_the_last_answer_and_takes_one_timer() -> None:
    protocol, clock, transport = await _connected()
    await _ask(protocol)
    clock.now = 3.0
    await _ask(protocol)
    assert clock.due().when() == 5 and not transport.closed
    assert clock.due().when() == 8 and transport.closed


async def test_a_connection_is_not_closed_while_a_request_comes_in() -> None:
    protocol, clock, transport = await _connected()
    await _ask(protocol)
    protocol.data_received(REQUEST[:20])
    idle, _head = (timer for timer in clock.timers if not timer.cancelled())
    idle._run()
    assert not transport.closed


async def test_no_timer_outlives_its_connection() -> None:
    protocol, clock, _ = await _connected()
    await _ask(protocol)
    protocol.connection_lost(None)
    assert all(timer.cancelled() for timer in clock.timers)
