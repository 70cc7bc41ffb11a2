"""The head of a stream: what every stream says, then the server's headers and the answer's own, none of them forged."""

from types import SimpleNamespace
from typing import Any, cast

import pytest

from app.protocols.wire.uvicorn_connection import UvicornConnection

ALWAYS = b"\r\n".join(
    [
        b"HTTP/1.1 200 OK",
        b"content-type: text/event-stream; charset=utf-8",
        b"cache-control: no-store",
        b"x-accel-buffering: no",
    ]
)
CHUNKED = b"transfer-encoding: chunked\r\n\r\n"


def _connection(*, default_headers: list[tuple[bytes, bytes]]) -> tuple[UvicornConnection, list[bytes]]:
    written: list[bytes] = []
    protocol = SimpleNamespace(
        transport=SimpleNamespace(write=written.append),
        flow=SimpleNamespace(write_paused=False, read_paused=False),
        logger=None,
        access_logger=None,
        access_log=False,
        server_state=SimpleNamespace(default_headers=default_headers),
        expect_100_continue=False,
        on_response_complete=lambda: None,
        answering=None,
    )
    return UvicornConnection(cast(Any, protocol), cast(Any, {}), keep_alive=True), written


def test_a_stream_begins_with_its_head_and_its_first_frame_in_one_piece() -> None:
    connection, written = _connection(default_headers=[(b"date", b"today")])
    connection.headers = [(b"x-request-id", b"req_1")]
    connection.open([(b"x-run", b"run_1")])
    connection.write(b"data: 1\n\n")
    headers = b"date: today\r\nx-run: run_1\r\nx-request-id: req_1\r\n"
    assert written == [ALWAYS + b"\r\n" + headers + CHUNKED + b"9\r\ndata: 1\n\n\r\n"]


def test_a_head_without_headers_of_its_own_is_whole() -> None:
    connection, written = _connection(default_headers=[])
    connection.open([])
    connection.write(b"", last=True)
    assert written == [ALWAYS + b"\r\n" + CHUNKED + b"0\r\n\r\n"]


@pytest.mark.parametrize("value", [b"a\r\nset-cookie: b", b"a\nb", b"a\x00b", b"a\x7f"])
def test_a_header_that_would_end_before_its_end_is_refused(value: bytes) -> None:
    connection, written = _connection(default_headers=[])
    with pytest.raises(ValueError, match="control character"):
        connection.open([(b"x-run", value)])
    assert written == []


def test_a_header_may_hold_a_tab() -> None:
    connection, written = _connection(default_headers=[])
    connection.open([(b"x-run", b"a\tb")])
    connection.write(b"", last=True)
    assert b"x-run: a\tb\r\n" in written[0]
