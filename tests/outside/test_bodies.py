"""The body of an answer between the connection that feeds it and the one who reads it."""

import asyncio

import pytest
from aiohttp import ClientPayloadError

from app.outside.direct import JoinedBody
from app.outside.sessions import ANSWERS, _Connection
from tests.outside.raw import OK

HEAD = OK + b"Content-Length: 400000\r\n\r\n"


class Watched(asyncio.Transport):
    def __init__(self) -> None:
        super().__init__()
        self.asked: list[str] = []

    def pause_reading(self) -> None:
        self.asked.append("pause")

    def resume_reading(self) -> None:
        self.asked.append("resume")


async def received(data: bytes) -> tuple[_Connection, Watched, JoinedBody]:
    """A connection that read this at once."""
    connection, transport = _Connection(asyncio.get_running_loop()), Watched()
    connection.connection_made(transport)
    connection.set_response_params(read_until_eof=True, **ANSWERS)
    connection.data_received(data)
    _, body = await connection.read()
    JoinedBody.take_over(body)
    assert isinstance(body, JoinedBody)
    return connection, transport, body


async def test_a_large_body_that_came_at_once_leaves_the_connection_as_it_was() -> None:
    data = b"x" * 400_000
    connection, transport, body = await received(HEAD + data)
    assert transport.asked == ["pause"] and not body.is_eof()
    assert body.arrival() is None and body.taken() == data
    assert body.is_eof() and transport.asked[-1] == "resume" and not connection.should_close


async def test_a_large_part_of_a_body_stops_the_connection_until_it_is_read() -> None:
    data = b"x" * 400_000
    connection, transport, body = await received(HEAD + data[:-1])
    assert transport.asked == ["pause"] and body.arrival() is None
    assert body.taken() == data[:-1] and transport.asked == ["pause", "resume"]
    connection.data_received(b"x")
    assert body.is_eof() and body.taken() == b"x"


async def test_a_body_in_many_chunks_stops_the_connection_and_goes_on_after_each_of_them() -> None:
    chunk = b"2710\r\n" + b"x" * 10_000 + b"\r\n"
    connection, transport, body = await received(OK + b"Transfer-Encoding: chunked\r\n\r\n" + chunk * 100)
    size = 0
    while body.arrival() is None:
        part = body.taken()
        assert 0 < len(part) < 300_000  # what one part may hold, although more was read at once
        size += len(part)
    assert size == 1_000_000 and transport.asked[-1] == "resume"
    connection.data_received(chunk * 2 + b"0\r\n\r\n")
    assert body.is_eof() and len(body.taken()) == 20_000


async def test_one_reader_at_a_time_waits_for_a_body() -> None:
    connection, _, body = await received(OK + b"Content-Length: 2\r\n\r\n")
    cancelled = body.arrival()
    assert cancelled is not None
    with pytest.raises(RuntimeError, match="read already"):
        body.arrival()
    cancelled.cancel()
    arrival = body.arrival()
    assert arrival is not None
    connection.data_received(b"x")
    await arrival
    assert body.taken() == b"x"
    connection.connection_lost(None)
    with pytest.raises(ClientPayloadError):
        body.arrival()
