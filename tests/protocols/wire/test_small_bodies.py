"""A small body that came with its head is taken at once, by one reader, and by nobody who would have to wait."""

from types import SimpleNamespace
from typing import Any, cast

import pytest

from app.protocols.wire.connection import WHOLE_BODY_BYTES
from app.protocols.wire.uvicorn_connection import UvicornConnection


def _request(body: bytes, **more: Any) -> UvicornConnection:
    """As uvicorn leaves it when the body is complete before the request's task begins."""
    state = SimpleNamespace(default_headers=[])
    absent = dict.fromkeys(("transport", "flow", "logger", "access_logger", "on_response_complete"))
    protocol = SimpleNamespace(server_state=state, access_log=False, expect_100_continue=False, **absent)
    made = UvicornConnection(cast(Any, protocol), cast(Any, {}), keep_alive=True)
    made.body, made.more_body = bytearray(body), False
    made.message_event.set()
    for name, value in more.items():
        setattr(made, name, value)
    return made


def test_a_body_that_has_arrived_is_taken_once() -> None:
    connection = _request(b"{}")
    assert connection.has_whole_body
    assert (connection.take_body(), connection.take_body()) == (b"{}", None)
    assert not connection.message_event.is_set(), "whoever asks for more waits for the client to leave"


@pytest.mark.parametrize(
    "state",
    [{"more_body": True}, {"disconnected": True}, {"waiting_for_100_continue": True}],
    ids=lambda state: next(iter(state)),
)
def test_a_body_that_must_be_asked_for_is_left_alone(state: dict[str, bool]) -> None:
    connection = _request(b"{}", **state)
    assert connection.take_body() is None
    assert connection.body == b"{}"


@pytest.mark.requirement("S9")
def test_a_large_body_passes_its_limits() -> None:
    connection = _request(b"x" * (WHOLE_BODY_BYTES + 1))
    assert (connection.has_whole_body, connection.take_body()) == (False, None)
