"""Which requests a standby may answer, and when: with a database that says what it has."""

import contextlib
from collections.abc import Iterator
from typing import Any

import pytest
from starlette.types import Message, Receive, Scope, Send

from app.core.principal import Principal
from app.protocols.edge.standby_reads import StandbyReads

WHO = Principal("somebody", tenant="default")


class FakeStandby:
    def __init__(self) -> None:
        self.served = self.refused = 0
        self.primary, self.reached = 100, 100
        self.asked = 0
        self.from_standby = False
        self.staleness_seconds = 0.25

    async def position(self) -> int:
        self.asked += 1
        return self.primary

    async def may_serve(self, position: int) -> bool:
        return self.reached >= position

    @contextlib.contextmanager
    def reading(self) -> Iterator[None]:
        self.from_standby = True
        try:
            yield
        finally:
            self.from_standby = False


class App:
    """Answers who answered; a run that is new is only known to the primary."""

    def __init__(self, standby: FakeStandby) -> None:
        self._standby = standby

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "websocket":
            await receive()
            return
        if scope["method"] != "GET":
            self._standby.primary += 1
        unknown = scope["path"].endswith("/unknown/events")
        new = scope["path"].endswith("/new/events") and self._standby.from_standby
        await send({"type": "http.response.start", "status": 404 if new or unknown else 200, "headers": []})
        await send({"type": "http.response.body", "body": b"standby" if self._standby.from_standby else b"primary"})


class Caller:
    def __init__(self) -> None:
        self.standby = FakeStandby()
        self.reads = StandbyReads(App(self.standby), self.standby)

    def scope(self, type_: str, method: str, path: str, headers: dict[bytes, bytes]) -> dict[str, Any]:
        return {
            "type": type_,
            "method": method,
            "path": path,
            "headers": list(headers.items()),
            "holdfast.principal": WHO,
        }

    async def ask(
        self, path: str, method: str = "GET", headers: dict[bytes, bytes] | None = None
    ) -> tuple[int, bytes, dict[bytes, bytes]]:
        sent: list[Message] = []

        async def send(message: Message) -> None:
            sent.append(message)

        async def receive() -> Message:
            return {"type": "http.request"}

        await self.reads(self.scope("http", method, path, headers or {}), receive, send)
        assert [message["type"] for message in sent] == ["http.response.start", "http.response.body"]
        return sent[0]["status"], sent[1]["body"], dict(sent[0]["headers"])


@pytest.mark.parametrize(
    ("path", "from_standby"),
    [
        ("/api/runs", True),
        ("/api/threads", True),
        ("/api/runs/run_1/events", True),
        ("/api/threads/thr_1/transcript", True),
        ("/api/runs/run_1", False),
        ("/api/runs/run_1/stream", False),
        ("/api/keys", False),
        ("/api/runs/run_1/events/more", False),
        ("/v1/models", False),
    ],
)
async def test_reports_come_from_the_standby_and_nothing_else_does(path: str, from_standby: bool) -> None:
    status, body, headers = await Caller().ask(path)
    assert (status, body) == (200, b"standby" if from_standby else b"primary")
    assert headers == ({b"holdfast-staleness": b"0.25"} if from_standby else {})


async def test_after_a_change_the_primary_answers_until_the_standby_has_it() -> None:
    caller = Caller()
    _, _, headers = await caller.ask("/api/runs", "POST")
    assert headers == {b"holdfast-position": b"101"}
    assert (await caller.ask("/api/runs"))[1] == b"primary"
    caller.standby.reached = 101
    assert (await caller.ask("/api/runs"))[1] == b"standby"


@pytest.mark.parametrize(
    ("position", "answered"),
    [(b"100", b"standby"), (b"101", b"primary"), (b"soon", b"primary"), (b"-1", b"primary"), (b"9" * 30, b"primary")],
)
async def test_a_position_from_another_server_counts(position: bytes, answered: bytes) -> None:
    assert (await Caller().ask("/api/runs", headers={b"holdfast-position": position}))[1] == answered


async def test_what_the_standby_does_not_know_is_asked_of_the_primary() -> None:
    caller = Caller()
    assert (await caller.ask("/api/runs/new/events"))[:2] == (200, b"primary")
    assert (await caller.ask("/api/runs/unknown/events"))[:2] == (404, b"primary")


async def test_a_caller_with_an_open_socket_may_change_something_at_any_moment() -> None:
    caller = Caller()

    async def receive() -> Message:
        caller.standby.primary = 105  # by a command over the socket
        assert (await caller.ask("/api/runs"))[1] == b"primary"
        caller.standby.reached = 105
        assert (await caller.ask("/api/runs"))[1] == b"standby"
        caller.standby.primary = 106
        return {"type": "websocket.connect"}

    async def send(message: Message) -> None:
        raise AssertionError(message)

    await caller.reads(caller.scope("websocket", "", "/api/stream", {}), receive, send)
    assert (await caller.ask("/api/runs"))[1] == b"primary", "what came last over the socket counts"
    caller.standby.reached = 106
    assert (await caller.ask("/api/runs"))[1] == b"standby"
