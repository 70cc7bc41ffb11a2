"""What arrives on a connection: cut anywhere, framed wrongly, compressed, endless. Real sockets on loopback."""

import asyncio
import gzip
import zlib
from contextlib import suppress

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.outside.http import MAX_UNPACKED, Deadlines, OutgoingRequest, OutsideError
from tests.outside.raw import LOOPBACK, OK, Peer, a_client, answering, body_of, code_of, first, speaking
from tests.outside.raw import event_loop_policy as event_loop_policy
from tests.outside.raw import way as way

CHUNKED = OK + b"Transfer-Encoding: chunked\r\n\r\n"


def sized(body: bytes, *headers: bytes) -> bytes:
    return OK + b"".join(line + b"\r\n" for line in (*headers, b"Content-Length: %d" % len(body))) + b"\r\n" + body


async def test_an_answer_that_arrives_byte_by_byte_is_read_whole() -> None:
    answer = (
        OK + b"X-Long:  a b \t\r\nTransfer-Encoding: chunked\r\n\r\n5;ext=1\r\nhello\r\n1\r\n!\r\n0\r\nX: y\r\n\r\n"
    )
    async with speaking(answering(*[bytes([byte]) for byte in answer])) as place, a_client() as client:
        for _ in range(2):
            async with await client.send(place.get()) as reply:
                assert (reply.status, reply.headers["x-long"]) == (200, "a b")
                assert await reply.read() == b"hello!"
                assert reply.ended and "X" not in reply.headers
    assert place.connections == 1


@settings(max_examples=40, deadline=None)
@given(st.data())
def test_where_an_answer_is_cut_makes_no_difference(data: st.DataObject) -> None:
    body = data.draw(st.binary(max_size=300))
    packed = data.draw(st.sampled_from([b"", b"Content-Encoding: gzip\r\n"]))
    sent = gzip.compress(body) if packed else body
    chunks = data.draw(st.lists(st.integers(1, 60), max_size=6))
    if chunks:
        answer, left = OK + packed + b"Transfer-Encoding: chunked\r\n\r\n", sent
        while left:
            size = chunks.pop() if chunks else len(left)
            answer, left = answer + b"%x\r\n%b\r\n" % (len(left[:size]), left[:size]), left[size:]
        answer += b"0\r\n\r\n"
    else:
        answer = sized(sent, *([packed.strip()] if packed else []))
    cuts = sorted(data.draw(st.lists(st.integers(0, len(answer)), max_size=8)))
    pieces = [answer[start:end] for start, end in zip([0, *cuts], [*cuts, len(answer)], strict=True)]

    async def twice() -> None:
        async with speaking(answering(*pieces)) as place, a_client() as client:
            for _ in range(2):
                assert await body_of(client, place.get()) == body
        assert place.connections == 1

    asyncio.run(twice())


GOOD = (
    CHUNKED.replace(b"OK", b"OK\r\nContent-Encoding: gzip")
    + b"1e\r\n"
    + gzip.compress(b"0123456789", mtime=0)
    + b"\r\n0\r\n\r\n"
)
PARTS = [
    b"HTTP/1.1 ",
    b"204 No\r\n",
    b"Content-Length: 2\r\n",
    b"\r\n",
    b"\r\n\r\n",
    b"0\r\n",
    b"\0",
    b"\xff",
    OK,
    GOOD,
]


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.integers(0, len(GOOD)), st.integers(0, 9), st.sampled_from(PARTS)), max_size=4))
def test_whatever_a_server_says_is_an_answer_or_an_error_of_ours(edits: list[tuple[int, int, bytes]]) -> None:
    answer = GOOD
    for at, length, instead in edits:
        answer = answer[:at] + instead + answer[at + length :]

    async def ask() -> None:
        async with speaking(answering(answer, close=True)) as place, a_client() as client:
            for _ in range(2):
                with suppress(OutsideError):
                    await body_of(client, place.get())

    asyncio.run(ask())


async def test_everything_that_has_arrived_is_one_piece() -> None:
    async with speaking(answering(CHUNKED + b"1\r\na\r\n" * 50 + b"0\r\n\r\n")) as place, a_client() as client:
        async with await client.send(place.get()) as reply:
            assert await reply.some() == b"a" * 50
            assert reply.ended
            assert await reply.some() == b""


@pytest.mark.parametrize(
    "answer",
    [
        b"hello",
        b"\x16\x03\x01\x02\x00",
        b"HTTP/2.0 200 OK\r\nContent-Length: 0\r\n\r\n",
        OK + b"Content-Length: 3\r\nContent-Length: 4\r\n\r\nabcd",
        OK + b"Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        OK + b"Transfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\n0\r\n\r\n",
        OK + b"Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n",
        OK + b"Transfer-Encoding: chunked\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        OK + b"Transfer-Encoding: xchunked\r\n\r\n0\r\n\r\n",
        b"HTTP/1.0 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        OK + b"Content-Length: -1\r\n\r\n",
        OK + b"X: a\0b\r\nContent-Length: 0\r\n\r\n",
        CHUNKED + b"fffffffffffffffff\r\n",
        CHUNKED + b"-1\r\n",
        CHUNKED + b"3\r\nabcd\r\n0\r\n\r\n",
        CHUNKED + b"3\nabc\n0\n\n",
        b"HTTP/1.1 101 Switching Protocols\r\nConnection: upgrade\r\nUpgrade: x\r\n\r\n",
    ],
)
async def test_an_answer_whose_framing_is_wrong_or_doubtful_is_refused(answer: bytes) -> None:
    async with speaking(answering(answer)) as place, a_client() as client:
        assert await code_of(client, place.get()) == "OUTSIDE_CUT_OFF"
        assert await code_of(client, place.get()) == "OUTSIDE_CUT_OFF"
    assert place.connections == 2


@pytest.mark.parametrize("before", [b"", b"1\r\na\r\n"])
@pytest.mark.parametrize("wrong", [b"zz\r\n", b"3\r\nabcd\r\n0\r\n\r\n", b"fffffffffffffffff\r\n", b"-1\r\n"])
async def test_framing_that_turns_out_wrong_later_ends_the_answer_at_once(before: bytes, wrong: bytes) -> None:
    async with speaking(answering(CHUNKED + before, wrong)) as place, a_client() as client:
        for _ in range(2):
            async with asyncio.timeout(5):  # a client waits 10 s and more for a server that is silent
                assert await code_of(client, place.get()) == "OUTSIDE_CUT_OFF"
    assert place.connections == 2


@pytest.mark.parametrize(
    ("answer", "body"),
    [
        (OK + b"Content-Length : 1\r\n\r\nx", b"x"),
        (OK + b"X: a\r\n b\r\nContent-Length: 0\r\n\r\n", b""),
        (b"HTTP/1.1 200 OK\nContent-Length: 0\n\n", b""),
    ],
)
async def test_an_answer_that_is_careless_but_clear_is_read(answer: bytes, body: bytes) -> None:
    async with speaking(answering(answer)) as place, a_client() as client:
        for _ in range(2):
            assert await body_of(client, place.get()) == body


@pytest.mark.parametrize("surplus", [b"x", b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nother"])
@pytest.mark.parametrize("together", [True, False])
async def test_what_follows_an_answer_is_never_taken_for_the_next_one(surplus: bytes, together: bool) -> None:
    answer = sized(b"mine")
    script = answering(answer + surplus) if together else answering(answer, surplus)
    async with speaking(script) as place, a_client() as client:
        for _ in range(3):
            with suppress(OutsideError):  # an answer with a tail that is no answer may be refused as a whole
                assert await body_of(client, place.get()) == b"mine"
            await asyncio.sleep(0.01)  # so that the surplus is there, if it comes apart
    assert place.connections == 3


async def test_a_body_without_a_length_ends_with_the_connection() -> None:
    async with speaking(answering(OK + b"\r\n", b"all ", b"of it", close=True)) as place, a_client() as client:
        assert await body_of(client, place.get()) == b"all of it"
        assert await body_of(client, place.get()) == b"all of it"
    assert place.connections == 2


@pytest.mark.parametrize("answer", [OK + b"Content-Length: 9\r\n\r\npart", CHUNKED + b"4\r\npart\r\n"])
async def test_a_body_that_stops_early_gives_what_came_and_then_the_error(answer: bytes) -> None:
    read = asyncio.Event()

    async def script(peer: Peer) -> None:
        await peer.request()
        await peer.say(answer)
        await read.wait()

    async with speaking(script) as place, a_client() as client:
        async with await client.send(place.get()) as reply:
            assert await first(reply, 4) == b"part"
            read.set()
            with pytest.raises(OutsideError, match="OUTSIDE_CUT_OFF"):
                await reply.some()
            assert not reply.ended


async def test_answers_that_only_announce_the_answer_are_skipped() -> None:
    early = b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nLink: x\r\n\r\n"
    async with speaking(answering(early + sized(b"late"))) as place, a_client() as client:
        for _ in range(2):
            async with await client.send(place.get()) as reply:
                assert (reply.status, "Link" in reply.headers, await reply.read()) == (200, False, b"late")
    assert place.connections == 1


@pytest.mark.parametrize("status", [b"204 No Content", b"304 Not Modified"])
async def test_an_answer_that_never_has_a_body_leaves_the_connection_usable(status: bytes) -> None:
    answer = b"HTTP/1.1 " + status + b"\r\nContent-Encoding: br\r\n\r\n"
    async with speaking(answering(answer)) as place, a_client() as client:
        for _ in range(2):
            async with await client.send(place.get()) as reply:
                assert reply.ended and await reply.read() == b""
    assert place.connections == 1


async def test_the_answer_to_head_has_no_body_whatever_it_announces() -> None:
    async with speaking(answering(OK + b"Content-Length: 5\r\n\r\n")) as place, a_client() as client:
        async with await client.send(OutgoingRequest("HEAD", place.url, policy=LOOPBACK)) as reply:
            assert (reply.headers["Content-Length"], await reply.read()) == ("5", b"")


# -- compression -----------------------------------------------------------------------------------

TEXT = b"word " * 1000
RAW = zlib.compressobj(wbits=-15)
BARE = RAW.compress(TEXT) + RAW.flush()
PACKED = gzip.compress(TEXT, mtime=0)  # the ids of tests must not contain the time


@pytest.mark.parametrize(
    ("coding", "packed"),
    [
        (b"gzip", PACKED),
        (b"X-GZIP", PACKED),
        (b"gzip", gzip.compress(TEXT[:77], mtime=0) + gzip.compress(TEXT[77:], mtime=0) + b"\0\0"),
        (b"deflate", zlib.compress(TEXT)),
        (b"deflate", BARE),
        (b"identity", TEXT),
    ],
    ids=["gzip", "old name", "two members", "deflate", "bare deflate", "identity"],
)
@pytest.mark.parametrize("step", [1, 10_000])
async def test_a_compressed_body_is_unpacked(coding: bytes, packed: bytes, step: int) -> None:
    answer = sized(packed, b"Content-Encoding: " + coding)
    body = answer.index(b"\r\n\r\n") + 4
    pieces = [answer[:body], *[answer[at : at + step] for at in range(body, len(answer), step)][:200]]
    pieces.append(answer[sum(map(len, pieces)) :])
    async with speaking(answering(*pieces)) as place, a_client() as client:
        assert await body_of(client, place.get()) == TEXT
        assert await body_of(client, place.get()) == TEXT
    assert place.connections == 1


@pytest.mark.parametrize(
    ("coding", "packed"),
    [
        (b"br", b"x"),
        (b"gzip, gzip", gzip.compress(PACKED, mtime=0)),
        (b"gzip", TEXT),
        (b"gzip", PACKED[:-9]),
        (b"gzip", PACKED + b"junk"),
        (b"deflate", zlib.compress(TEXT) + b"junk"),
    ],
)
async def test_a_body_that_cannot_be_unpacked_is_an_error(coding: bytes, packed: bytes) -> None:
    async with speaking(answering(sized(packed, b"Content-Encoding: " + coding))) as place, a_client() as client:
        assert await code_of(client, place.get()) == "OUTSIDE_CUT_OFF"


async def test_a_bomb_is_never_unpacked_beyond_the_limit() -> None:
    bomb = gzip.compress(b"\0" * 50_000_000)
    async with speaking(answering(sized(bomb, b"Content-Encoding: gzip"))) as place, a_client() as client:
        assert await code_of(client, place.get(max_bytes=100_000)) == "OUTSIDE_TOO_LARGE"


async def test_a_compressed_body_of_nothing_is_bounded_too() -> None:
    nothing = zlib.compressobj(wbits=31)
    packed = nothing.compress(b"") + nothing.flush(zlib.Z_FULL_FLUSH) * 40_000

    async def script(peer: Peer) -> None:
        await peer.request()
        peer.writer.write(OK + b"Content-Encoding: gzip\r\n\r\n" + packed)
        await peer.hung_up()

    async with speaking(script) as place, a_client() as client:
        assert await code_of(client, place.get(max_bytes=1000)) == "OUTSIDE_TOO_LARGE"


# -- too much --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "endless",
    [b"x" * 100, b"X: " + b"y" * 100 + b"\r\n", b"X: y\r\n"],
    ids=["one header", "long headers", "short headers"],
)
async def test_a_head_without_end_is_cut_off(endless: bytes) -> None:
    async def script(peer: Peer) -> None:
        await peer.request()
        peer.writer.write(OK + b"A: ")
        while True:
            peer.writer.write(endless * 100)
            await peer.writer.drain()

    async with speaking(script) as place, a_client() as client:
        assert await code_of(client, place.get()) == "OUTSIDE_CUT_OFF"


async def test_announcements_without_an_answer_end_with_the_time() -> None:
    async def script(peer: Peer) -> None:
        await peer.request()
        while True:
            peer.writer.write(b"HTTP/1.1 100 Continue\r\n\r\n" * 100)
            await peer.writer.drain()

    async with speaking(script) as place, a_client() as client:
        assert await code_of(client, place.get(deadlines=Deadlines(total=0.2))) == "OUTSIDE_TIMEOUT"


async def test_a_head_over_the_limit_is_refused_although_it_came_at_once() -> None:
    answer = OK + b"X: " + b"y" * 70_000 + b"\r\nContent-Length: 0\r\n\r\n"
    async with speaking(answering(answer)) as place, a_client() as client:
        assert await code_of(client, place.get()) == "OUTSIDE_CUT_OFF"


async def test_a_trailer_without_end_is_cut_off() -> None:
    async def script(peer: Peer) -> None:
        await peer.request()
        peer.writer.write(CHUNKED + b"0\r\nX: ")
        while True:
            peer.writer.write(b"y" * 10_000)
            await peer.writer.drain()

    async with speaking(script) as place, a_client() as client:
        assert await code_of(client, place.get()) == "OUTSIDE_CUT_OFF"


async def test_whoever_reads_slowly_makes_the_other_side_wait() -> None:
    size, sent, blocked = 40_000_000, 0, asyncio.Event()

    async def script(peer: Peer) -> None:
        nonlocal sent
        await peer.request()
        await peer.say(OK + b"Content-Length: %d\r\n\r\n" % size)
        while sent < size:
            peer.writer.write(b"x" * 100_000)
            sent += 100_000
            drained = asyncio.create_task(peer.writer.drain())
            if not (await asyncio.wait([drained], timeout=0.2))[0]:
                blocked.set()
            await drained

    async with speaking(script) as place, a_client() as client:
        async with await client.send(place.get(max_bytes=size)) as reply:
            await blocked.wait()
            assert sent < size / 2
            assert len(await reply.read()) == size


async def test_a_body_in_very_many_pieces_waits_for_its_reader_too() -> None:
    blocked = asyncio.Event()

    async def script(peer: Peer) -> None:
        await peer.request()
        await peer.say(OK + b"Transfer-Encoding: chunked\r\n\r\n")
        while not blocked.is_set():
            peer.writer.write(b"2\r\nxx\r\n" * 10_000)
            drained = asyncio.create_task(peer.writer.drain())
            if not (await asyncio.wait([drained], timeout=0.2))[0]:
                blocked.set()
                drained.cancel()

    async with speaking(script) as place, a_client() as client:
        async with await client.send(place.get()) as reply:
            await blocked.wait()
            # What is paused is the connection: what one read of it held is parsed to its end.
            assert 0 < len(reply._content._buffer) < 60_000
            first = await reply.some()
            assert set(first) == {ord("x")}


async def test_a_deadline_ends_a_body_that_comes_too_slowly() -> None:
    async def script(peer: Peer) -> None:
        await peer.request()
        await peer.say(OK + b"\r\nx")
        await peer.hung_up()

    async with speaking(script) as place, a_client() as client:
        for deadlines in (Deadlines(total=0.05), Deadlines(idle=0.05)):
            async with await client.send(place.get(deadlines=deadlines)) as reply:
                assert await reply.some() == b"x"
                with pytest.raises(OutsideError, match="OUTSIDE_TIMEOUT"):
                    await reply.some()


async def test_a_small_part_that_holds_much_is_handed_out_in_parts_between_which_others_have_a_turn() -> None:
    body = b"0123456789" * 300_000
    packed = gzip.compress(body, mtime=0)
    async with speaking(answering(sized(packed, b"Content-Encoding: gzip"))) as place, a_client() as client:
        async with await client.send(place.get()) as reply:
            turns, parts = 0, list[bytes]()

            async def others() -> None:
                nonlocal turns
                while not reply.ended:
                    turns += 1
                    await asyncio.sleep(0)

            watching = asyncio.create_task(others())
            while part := await reply.some():
                assert len(part) <= MAX_UNPACKED and (not reply.ended or len(b"".join(parts) + part) == len(body))
                parts.append(part)
            await watching
        assert b"".join(parts) == body and reply.ended
        assert turns >= len(parts) > 10
    assert place.connections == 1
