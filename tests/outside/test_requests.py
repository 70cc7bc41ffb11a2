"""What a request looks like on the wire: one head, one length, no line that a value brought along."""

import asyncio
from collections.abc import Iterator

import pytest

from app.core import tracing
from app.outside.http import HttpClient, OutgoingRequest, OutsideError, Segments
from tests.outside.raw import LOOPBACK, OK, Peer, Place, a_client, answering, body_of, code_of, speaking
from tests.outside.raw import event_loop_policy as event_loop_policy
from tests.outside.raw import way as way

NOTHING = OK + b"Content-Length: 0\r\n\r\n"


async def sent(client: HttpClient, request: OutgoingRequest) -> list[str]:
    """The lines that arrive at a server, the body last."""
    seen: list[bytes] = []

    async def script(peer: Peer) -> None:
        seen.append(await peer.request())
        await peer.say(NOTHING)

    async with speaking(script) as place:
        method, url, headers, body = request.method, place.url + request.url, request.headers, request.body
        await body_of(client, OutgoingRequest(method, url, headers, body, policy=LOOPBACK))
        return seen[0].decode().replace(str(place.port), "PORT").split("\r\n")


async def test_a_request_has_one_head_and_one_length() -> None:
    async with a_client() as client:
        assert await sent(
            client, OutgoingRequest("POST", "a b?c=ü#d", {"X-One": "1", "accept": "text/plain"}, b"body")
        ) == [
            "POST /a%20b?c=%C3%BC HTTP/1.1",
            "Host: 127.0.0.1:PORT",
            "User-Agent: holdfast",
            "accept: text/plain",
            "X-One: 1",
            "Accept-Encoding: gzip, deflate",
            "Content-Length: 4",
            "",
            "body",
        ]


@pytest.mark.parametrize(("method", "expected"), [("GET", False), ("HEAD", False), ("POST", True), ("DELETE", True)])
async def test_a_request_without_a_body_says_so_where_one_is_expected(method: str, expected: bool) -> None:
    async with a_client() as client:
        assert ("Content-Length: 0" in await sent(client, OutgoingRequest(method, ""))) is expected


async def test_how_a_message_is_framed_is_nothing_a_caller_decides() -> None:
    headers = {
        "Content-Length": "999", "content-length": "1", "Transfer-Encoding": "chunked", "Connection": "close",
        "Upgrade": "websocket", "Expect": "100-continue", "Accept-Encoding": "br", "TE": "trailers",
    }  # fmt: skip
    async with a_client() as client:
        lines = await sent(client, OutgoingRequest("POST", "", headers, b"body"))
        assert lines[-3:] == ["Content-Length: 4", "", "body"] and len(lines) == 8


async def test_the_last_of_two_spellings_of_a_header_counts() -> None:
    async with a_client() as client:
        lines = await sent(client, OutgoingRequest("GET", "", {"X-Key": "one", "x-key": "two", "User-Agent": "me"}))
        assert [line for line in lines if "ey:" in line or "gent:" in line] == ["User-Agent: me", "x-key: two"]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("X", "a\r\nEvil: 1"),
        ("X", "a\nEvil: 1"),
        ("X", "a\rb"),
        ("X", "a\0b"),
        ("X", "secret\n"),
        ("X", "\udc80"),
        ("X\r\nEvil", "1"),
        ("X: 1\r\nEvil", "1"),
        ("X Y", "1"),
        ("X:", "1"),
        ("", "1"),
        ("ü", "1"),
    ],
)
async def test_a_header_that_would_be_two_is_refused_before_any_connection(name: str, value: str) -> None:
    async with speaking(answering(NOTHING)) as place, a_client() as client:
        request = OutgoingRequest("GET", place.url, {name: value}, policy=LOOPBACK)
        with pytest.raises(OutsideError, match="OUTSIDE_UNSENDABLE") as caught:
            await client.send(request)
        assert "secret" not in str(caught.value)
    assert place.connections == 0


@pytest.mark.parametrize("method", ["GET /x HTTP/1.1\r\nEvil: 1\r\n\r\nGET", "G T", ""])
async def test_a_method_that_is_more_than_a_word_is_refused(method: str) -> None:
    async with a_client() as client:
        assert (
            await code_of(client, OutgoingRequest(method, "http://127.0.0.1/", policy=LOOPBACK)) == "OUTSIDE_UNSENDABLE"
        )


@pytest.mark.parametrize("url", ["http://a b/", "http://a\tb c/", "http://127.1/", "http://0177.1/", "http://1/"])
async def test_a_host_that_is_no_name_is_refused(url: str) -> None:
    async with a_client() as client:
        assert await code_of(client, OutgoingRequest("GET", url)) == "ADDRESS_REFUSED"


async def test_a_path_cannot_bring_a_line_of_its_own() -> None:
    async with a_client() as client:
        lines = await sent(client, OutgoingRequest("GET", "x HTTP/1.1\r\nEvil: 1"))
        assert lines[0].count(" ") == 2 and not any(line.startswith("Evil") for line in lines)


async def test_the_trace_goes_along_unless_the_request_brings_its_own() -> None:
    trace = tracing.Trace("1" * 32, "2" * 16)
    token = tracing.current.set(trace)
    try:
        async with a_client() as client:
            assert f"traceparent: 00-{'1' * 32}-{'2' * 16}-01" in await sent(client, OutgoingRequest("GET", ""))
            own = await sent(client, OutgoingRequest("GET", "", {"Traceparent": "mine"}))
            assert [line for line in own if line.lower().startswith("trace")] == ["Traceparent: mine"]
    finally:
        tracing.current.reset(token)


async def test_nothing_that_a_host_set_is_sent_to_it_again() -> None:
    seen: list[bytes] = []

    async def script(peer: Peer) -> None:
        for _ in range(2):
            seen.append(await peer.request())
            await peer.say(OK + b"Set-Cookie: a=b\r\nContent-Length: 0\r\n\r\n")

    async with speaking(script) as place, a_client() as client:
        for _ in range(2):
            await body_of(client, place.get())
    assert len(seen) == 2 and seen[0] == seen[1]


# -- bodies in pieces ------------------------------------------------------------------------------


def posting(place: Place, body: Segments) -> OutgoingRequest:
    return OutgoingRequest("POST", place.url, body=body, policy=LOOPBACK)


async def test_a_body_in_pieces_waits_for_a_server_that_reads_slowly() -> None:
    made, go = 0, asyncio.Event()
    piece, count = b"x" * 100_000, 400

    def pieces() -> Iterator[bytes]:
        nonlocal made
        for _ in range(count):
            made += 1
            yield piece

    async def script(peer: Peer) -> None:
        await go.wait()
        request = await peer.request()
        await peer.say(OK + b"Content-Length: 8\r\n\r\n%d" % len(request.partition(b"\r\n\r\n")[2]))

    async with speaking(script) as place, a_client() as client:
        task = asyncio.create_task(body_of(client, posting(place, Segments(len(piece) * count, pieces))))
        before = 0
        while made == 0 or made != before:  # until it has to wait
            before = made
            await asyncio.sleep(0.05)
        assert 0 < made < count / 2
        go.set()
        assert await task == b"40000000"


async def test_an_answer_before_the_end_of_a_body_stops_the_rest() -> None:
    made = 0

    def pieces() -> Iterator[bytes]:
        nonlocal made
        for _ in range(1000):
            made += 1
            yield b"x" * 100_000

    async def script(peer: Peer) -> None:
        await peer.reader.readuntil(b"\r\n\r\n")
        await peer.say(b"HTTP/1.1 413 Too Large\r\nContent-Length: 2\r\n\r\nno")
        await peer.hung_up()

    async with speaking(script) as place, a_client() as client:
        async with await client.send(posting(place, Segments(100_000_000, pieces))) as reply:
            assert (reply.status, await reply.read()) == (413, b"no")
        assert made < 1000


@pytest.mark.parametrize("length", [3, 5])
async def test_pieces_of_another_length_than_announced_are_never_a_whole_request(length: int) -> None:
    whole = False

    async def script(peer: Peer) -> None:
        nonlocal whole
        await peer.reader.readuntil(b"\r\n\r\n")
        await peer.reader.readexactly(length)
        whole = True

    async with speaking(script) as place, a_client() as client:
        with pytest.raises(ValueError, match="length"):
            await client.send(posting(place, Segments(length, lambda: iter([b"ab", b"cd"]))))
    assert not whole


async def test_a_body_that_fails_on_its_way_hangs_up() -> None:
    gone = asyncio.Event()

    def pieces() -> Iterator[bytes]:
        yield b"x"
        raise RuntimeError("the file is gone")

    async def script(peer: Peer) -> None:
        await peer.hung_up()
        gone.set()

    async with speaking(script) as place, a_client() as client:
        with pytest.raises(RuntimeError):
            await client.send(posting(place, Segments(2, pieces)))
        await gone.wait()


async def test_a_large_body_arrives_whole() -> None:
    body = bytes(range(256)) * 8000
    seen: list[bytes] = []

    async def script(peer: Peer) -> None:
        seen.append((await peer.request()).partition(b"\r\n\r\n")[2])
        await peer.say(NOTHING)

    async with speaking(script) as place, a_client() as client:
        await body_of(client, OutgoingRequest("POST", place.url, body=body, policy=LOOPBACK))
    assert seen == [body]
