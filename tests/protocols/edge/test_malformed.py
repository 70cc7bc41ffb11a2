"""A thousand malformed bodies and as many malformed frames: each gets its documented answer, and the server lives on.

Made from good ones by a generator with a fixed seed, so that a failure can be repeated.
"""

import asyncio
import random
import re
from collections import Counter
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

import pytest
from websockets.asyncio.client import connect

from app.core import json
from tests.protocols.auth.auth_server import bearer, open_auth_server

COUNT: Final = 1000
SUBMITTED: Final = "Zq7-never-say-this-back"
GOOD_BODY: Final = json.dumps(
    {"agent": "echo", "input": {"text": SUBMITTED, "n": [1, 2.5, None, True]}, "labels": {"a": SUBMITTED}}
)
GOOD_FRAME: Final = b'{"type":"subscribe","threads":{"thr_1":0,"thr_2":null}}'
CODES: Final = {
    "JSON_INVALID", "JSON_DUPLICATE_KEY", "JSON_NUMBER_RANGE", "JSON_NUL", "JSON_TOO_DEEP", "INVALID_REQUEST",
}  # fmt: skip
"""What a body that cannot be read is answered with; an agent or a thread that is not there may be found out too."""
OTHERS: Final = {"AGENT_NOT_FOUND", "THREAD_NOT_FOUND", "THREAD_RESERVED"}

_NASTY: Final = (
    b"NaN", b"Infinity", b"-Infinity", b"1e999", b'"\\ud800"', b'"\\u0000"', b"18446744073709551616", b"\xff\xfe",
    b"\xef\xbb\xbf", b"\x00", b"[" * 40 + b"]" * 40, b"{" * 2000, b'{"a":1,"a":2}', b"'x'", b"01", b"+1", b".5",
    b"tru", b"undefined", b"/*c*/", b",", b"}", b"]", b'"', b"\\", b"{}", b"[]", b"\xed\xa0\x80", b"\x1b[0m",
)  # fmt: skip

_VALUE: Final = re.compile(rb'(?<=[:\[,])("[^"]*"(?!:)|[0-9.]+|null|true)')


def malformed(good: bytes, count: int, seed: int) -> list[bytes]:
    """Cut, repeat, flip, splice, exchange a value: what a broken sender or a curious one may come up with."""
    chance = random.Random(seed)
    values = [match.span() for match in _VALUE.finditer(good)]
    made: list[bytes] = []
    while len(made) < count:
        data = bytearray(good)
        if len(made) % 4 == 0:
            start, end = chance.choice(values)
            data[start:end] = chance.choice(_NASTY)
            made.append(bytes(data))
            continue
        for _ in range(chance.randint(1, 3)):
            at = chance.randrange(len(data) + 1)
            match chance.randrange(6):
                case 0:
                    del data[at:]
                case 1:
                    data[at:at] = chance.choice(_NASTY)
                case 2:
                    data[at : at + chance.randint(1, 8)] = chance.choice(_NASTY)
                case 3:
                    data[at:at] = data[: chance.randrange(len(data) + 1)]
                case 4 if data:
                    data[at % len(data)] ^= 1 << chance.randrange(8)
                case _:
                    data[at:at] = bytes(chance.randrange(256) for _ in range(chance.randint(1, 16)))
        made.append(bytes(data))
    return made


class Line:
    """One connection, one request after the other: a real client would take most of the time for itself."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer

    async def post(self, body: bytes) -> tuple[int, bytes]:
        head = b"POST /api/runs HTTP/1.1\r\nhost: localhost\r\ncontent-length: %d\r\n\r\n" % len(body)
        self._writer.write(head + body)
        answer = await self._reader.readuntil(b"\r\n\r\n")
        length = re.search(rb"content-length: (\d+)", answer)
        assert length is not None
        return int(answer.split(b" ", 2)[1]), await self._reader.readexactly(int(length[1]))


@pytest.mark.requirement("S9", "S10")
async def test_a_thousand_malformed_bodies_get_their_answer(tmp_path: Path) -> None:
    async with open_auth_server(tmp_path, auth="disabled") as server:
        address = urlsplit(server.url)
        reader, writer = await asyncio.open_connection(address.hostname, address.port)
        line = Line(reader, writer)
        answered: Counter[str] = Counter()
        for number, body in enumerate(malformed(GOOD_BODY, COUNT, 7)):
            status, answer = await line.post(body)
            if status == 202:
                answered["accepted"] += 1  # what it changed was inside a text
                continue
            code = json.loads(answer)["error"]["code"]
            assert code in CODES | OTHERS, (number, body, answer)
            assert status == (400 if code in CODES else 403 if code == "THREAD_RESERVED" else 404)
            assert SUBMITTED.encode() not in answer, (number, body)
            answered[code] += 1
        assert answered.keys() >= CODES
        assert answered["accepted"] < COUNT / 4
        writer.close()
        assert (await server.client().get("/readyz")).status_code == 200


@pytest.mark.requirement("S9", "S10", "CM-1")
async def test_a_thousand_malformed_frames_get_their_answer_on_one_socket(tmp_path: Path) -> None:
    async with open_auth_server(tmp_path) as server:
        async with connect(server.stream_url, additional_headers=bearer(await server.key())) as socket:
            assert json.loads(await socket.recv())["type"] == "ready"
            chance = random.Random(11)
            errors = 0
            for frame in malformed(GOOD_FRAME, COUNT, 13):
                try:
                    await socket.send(frame.decode() if chance.random() < 0.5 else frame)
                except UnicodeDecodeError:
                    await socket.send(frame)
                await socket.send('{"type":"ping"}')
                answer = json.loads(await socket.recv())
                if answer != {"type": "pong"}:
                    assert answer == {"type": "error", "message": "invalid websocket command"}, frame
                    errors += 1
                    assert json.loads(await socket.recv()) == {"type": "pong"}
            assert errors > COUNT * 0.8
        assert (await server.client().get("/readyz")).status_code == 200
