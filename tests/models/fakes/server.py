"""A fake provider: a real HTTP server that speaks one provider's format and plays one behaviour per request.

A `Speaker` knows the format; everything about connections and faults is here.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Protocol

from aiohttp import web

from app.core import json


@dataclass(frozen=True)
class Call:
    name: str
    arguments: str
    id: str = "call_1"


@dataclass(frozen=True)
class Answer:
    """What the provider says, and what goes wrong on the way."""

    chunks: tuple[str, ...] = ("Hello", ", ", "world")
    reasoning: tuple[str, ...] = ()
    calls: tuple[Call, ...] = ()
    finish: str = "stop"
    usage: tuple[int, int] = (7, 3)
    argument_size: int = 1_000_000
    write_size: int | None = None
    """Bytes per write; None writes event by event."""
    # The following count text deltas.
    hang_after: int | None = None
    close_after: int | None = None
    malformed_after: int | None = None
    error_after: int | None = None
    gate_after: int | None = None
    """Then the server waits for `Fake.gate`."""
    linger: bool = False
    """Leaves the connection open after the whole answer."""
    endless: bool = False
    content_type: str | None = None


@dataclass(frozen=True)
class Status:
    status: int
    headers: dict[str, str] = field(default_factory=dict)
    message: str = "it went wrong"


@dataclass(frozen=True)
class Hang:
    """Before the headers."""


Behaviour = Answer | Status | Hang


class Speaker(Protocol):
    key_header: tuple[str, str]
    stream_type: str
    lead: int
    """Wire events before the first text."""

    def problem(self, path: str, query: str, body: Any) -> str | None:
        """What the real server would refuse."""
        ...

    def wants_stream(self, path: str, body: Any) -> bool: ...

    def stream(self, answer: Answer) -> list[bytes]:
        """One wire event per element; the first `len(chunks)` of text are separate ones."""
        ...

    def whole(self, answer: Answer) -> Any: ...

    def error_event(self) -> bytes: ...

    def malformed(self) -> bytes: ...

    def error_body(self, status: int, message: str) -> Any: ...


@dataclass
class Seen:
    path: str
    headers: dict[str, str]
    body: Any
    raw: bytes


class Fake:
    def __init__(self, speaker: Speaker) -> None:
        self.speaker = speaker
        self.behaviours: list[Behaviour] = [Answer()]
        self.seen: list[Seen] = []
        self.arrived = asyncio.Event()
        self.hanging = asyncio.Event()
        self.gate = asyncio.Event()
        self.disconnected = asyncio.Event()
        self.url = ""
        self.stop: Callable[[], Awaitable[None]]
        """Connections are refused from now on."""
        self.start_again: Callable[[], Awaitable[None]]

    def plays(self, *behaviours: Behaviour) -> None:
        """One per request, the last one for ever."""
        self.behaviours = list(behaviours)

    async def handle(self, request: web.Request) -> web.StreamResponse:
        raw = await request.read()
        body = json.loads(raw)
        headers = {name.lower(): value for name, value in request.headers.items()}
        self.seen.append(Seen(request.path, headers, body, raw))
        self.arrived.set()
        behaviour = self.behaviours.pop(0) if len(self.behaviours) > 1 else self.behaviours[0]
        name, value = self.speaker.key_header
        if headers.get(name) != value:
            return self._refusal(Status(401, message=f"Incorrect API key provided: {headers.get(name)}"))
        if problem := self.speaker.problem(request.path, request.query_string, body):
            return self._refusal(Status(400, message=problem))
        try:
            return await self._play(request, body, behaviour)
        except asyncio.CancelledError:
            self.disconnected.set()
            raise
        except ConnectionResetError:
            self.disconnected.set()
            return web.Response()

    async def _play(self, request: web.Request, body: Any, behaviour: Behaviour) -> web.StreamResponse:
        if isinstance(behaviour, Status):
            return self._refusal(behaviour)
        if isinstance(behaviour, Hang):
            await self._hang()
        assert isinstance(behaviour, Answer)
        if not self.speaker.wants_stream(request.path, body):
            document = json.dumps(self.speaker.whole(behaviour))
            kind = behaviour.content_type or "application/json"
            return web.Response(body=document, content_type=kind, headers={"x-request-id": "req_fake"})
        response = web.StreamResponse(headers={"x-request-id": "req_fake"})
        response.content_type = behaviour.content_type or self.speaker.stream_type
        await response.prepare(request)
        await self._write(request, response, behaviour)
        return response

    async def _write(self, request: web.Request, response: web.StreamResponse, answer: Answer) -> None:
        events = self.speaker.stream(answer)
        if answer.write_size is not None:
            wire, size = b"".join(events), answer.write_size
            events = [wire[start : start + size] for start in range(0, len(wire), size)]
        for sent, event in enumerate(events, -self.speaker.lead):
            if sent == answer.hang_after:
                await self._hang()
            if sent == answer.close_after:
                assert request.transport is not None
                request.transport.close()
                return
            if sent == answer.gate_after:
                self.hanging.set()
                await self.gate.wait()
            if sent == answer.malformed_after:
                event = self.speaker.malformed()
            if sent == answer.error_after:
                event = self.speaker.error_event()
            await response.write(event)
            if answer.write_size is not None:
                await asyncio.sleep(0)
            while answer.endless and sent == 2:
                await response.write(event * 200)
        if answer.linger:
            await self._hang()

    async def _hang(self) -> None:
        self.hanging.set()
        await asyncio.Event().wait()

    def _refusal(self, behaviour: Status) -> web.Response:
        document = self.speaker.error_body(behaviour.status, behaviour.message)
        body = json.dumps(document)
        return web.Response(
            status=behaviour.status, body=body, content_type="application/json", headers=behaviour.headers
        )


@asynccontextmanager
async def running(speaker: Speaker) -> AsyncIterator[Fake]:
    fake = Fake(speaker)
    app = web.Application(client_max_size=64 * 1024 * 1024)
    app.router.add_post("/{path:.*}", fake.handle)
    runner = web.AppRunner(app, handler_cancellation=True, shutdown_timeout=0)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    port = runner.addresses[0][1]
    fake.url = f"http://127.0.0.1:{port}"
    fake.stop = site.stop
    fake.start_again = web.TCPSite(runner, "127.0.0.1", port, reuse_address=True).start
    try:
        yield fake
    finally:
        await runner.cleanup()
