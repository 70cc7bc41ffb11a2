"""Bodies that no operation of the sessions API takes: too large, not JSON, from elsewhere. Refused, and nothing done.

Leaves to others: bodies of wrong fields (`test_session_hostility`), many large ones at once (`tests/protocols/edge`).
"""

import asyncio
import contextlib
import sys
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, Final
from urllib.parse import urlsplit

import httpx2
import pytest

from app.core import json
from app.protocols.edge.limits import MAX_BODY_BYTES, MAX_PARTS_BYTES
from tests.clients import create_session
from tests.scenarios.strict_sessions import NOT_SERVED, OPERATIONS
from tests.server import ServerProcess

pytestmark = pytest.mark.requirement("S10")

WITHOUT: Final = NOT_SERVED | {
    "reloadMcpConfig", "reloadAgentExtensions", "cancelOrchestratorJob", "deleteProject", "deleteProjectChats",
    "deleteSession", "forkSession", "compactSession", "archiveSession", "unarchiveSession", "deleteSessionSetting",
}  # fmt: skip
"""Operations that take no body, and read none."""
CHANGING: Final = sorted(name for name, found in OPERATIONS.items() if found[0] != "GET")
TAKING: Final = sorted(set(CHANGING) - WITHOUT)
LARGE: Final = {"sendSessionMessage", "steerTurn", "upsertSessionTranscriptEntry"}
"""Operations that take messages, with whatever is in them."""
ERROR: Final = {"status", "code", "message"}
PIECE: Final = b"x" * 65_536
MAX_GROWN_BYTES: Final = 6 * MAX_PARTS_BYTES
"""Of the server's memory while it reads what it refuses in the end."""


def _limit(operation: str) -> int:
    return MAX_PARTS_BYTES if operation in LARGE else MAX_BODY_BYTES


def _largest(server: ServerProcess) -> int:
    """The most memory that the server ever had."""
    if sys.platform != "linux":
        return 0
    lines = Path(f"/proc/{server.pid}/status").read_text().splitlines()
    return 1024 * next(int(line.split()[1]) for line in lines if line.startswith("VmHWM:"))


async def _raw(server: ServerProcess, verb: str, path: str, header: str, pieces: int) -> tuple[int, Any]:
    """The answer to a request that goes on until it is answered; so many pieces at most."""
    address = urlsplit(server.url)
    reader, writer = await asyncio.open_connection(address.hostname, address.port)

    async def send() -> None:
        with contextlib.suppress(OSError):  # answered, and closed
            for _ in range(pieces):
                writer.write(b"%x\r\n%b\r\n" % (len(PIECE), PIECE))
                await writer.drain()

    head = f"{verb} {path} HTTP/1.1\r\nhost: {address.netloc}\r\ncontent-type: application/json\r\n{header}\r\n\r\n"
    writer.write(head.encode())
    sending = asyncio.create_task(send())
    try:
        async with asyncio.timeout(60):
            status = int((await reader.readline()).split()[1])
            length = 0
            while line := (await reader.readline()).strip().lower():
                length = int(line.partition(b":")[2]) if line.startswith(b"content-length:") else length
            return status, json.loads(await reader.readexactly(length))
    finally:
        sending.cancel()
        await asyncio.gather(sending, return_exceptions=True)
        writer.close()


class Place:
    """A session and a project, which every operation's path can name."""

    def __init__(self, client: httpx2.AsyncClient, session: str, project: str) -> None:
        self.client, self.session, self.project = client, session, project

    def path(self, operation: str) -> str:
        ids = {"s": self.session, "p": self.project, "t": "run_x", "k": "a", "a": "int_x", "r": "int_x", "j": "run_x"}
        return "/api" + OPERATIONS[operation][1].format(m="x", **ids)

    async def state(self) -> tuple[Any, ...]:
        paths = (f"/api/sessions/{self.session}", f"/api/sessions/{self.session}/session-controls", "/api/projects")
        return tuple([(await self.client.get(path)).json() for path in paths])


@pytest.fixture
async def place(client: httpx2.AsyncClient) -> AsyncIterator[Place]:
    session = await create_session(client)
    made = (await client.post("/api/projects", json={"name": f"of {session}"})).json()["project"]["projectId"]
    yield Place(client, session, made)
    await client.delete(f"/api/projects/{made}")


async def test_a_body_that_is_announced_as_too_large_is_refused_before_it_is_read(
    server: ServerProcess, place: Place
) -> None:
    before = await place.state()
    for operation in CHANGING:
        for length in (_limit(operation) + 1, 10**15):
            header = f"content-length: {length}"
            status, body = await _raw(server, OPERATIONS[operation][0], place.path(operation), header, 0)
            assert (status, body["code"], set(body)) == (413, "body_too_large", ERROR), (operation, body)
    assert await place.state() == before


@pytest.mark.parametrize("large", [False, True], ids=["short", "messages"])
async def test_a_body_that_does_not_say_how_large_it_is_is_refused_where_it_becomes_too_large(
    server: ServerProcess, place: Place, large: bool
) -> None:
    before, memory = await place.state(), _largest(server)
    for operation in sorted(LARGE) if large else sorted(set(TAKING) - LARGE):
        pieces = 2 * _limit(operation) // len(PIECE)
        verb, path = OPERATIONS[operation][0], place.path(operation)
        status, body = await _raw(server, verb, path, "transfer-encoding: chunked", pieces)
        assert (status, body["code"], set(body)) == (413, "body_too_large", ERROR), (operation, body)
    assert _largest(server) - memory < MAX_GROWN_BYTES
    assert await place.state() == before and server.is_running


@pytest.mark.parametrize(
    ("kind", "raw"),
    [
        ("text/plain", b"text"),
        ("application/x-www-form-urlencoded", b"text=x&title=x&name=x"),
        (
            "multipart/form-data; boundary=b",
            b'--b\r\ncontent-disposition: form-data; name="text"\r\n\r\nx\r\n--b--\r\n',
        ),
        ("application/octet-stream", b"\x00\xff"),
        ("application/json", b'{"text": "x", '),
        ("application/json", b""),
        ("application/json; charset=utf-8", b'{"text": NaN}'),
    ],
)
async def test_a_body_that_is_not_json_is_refused_whatever_its_type(place: Place, kind: str, raw: bytes) -> None:
    before = await place.state()
    for operation in TAKING:
        verb, path = OPERATIONS[operation][0], place.path(operation)
        answer = await place.client.request(verb, path, content=raw, headers={"content-type": kind})
        body = answer.json()
        assert (answer.status_code, set(body)) == (400, ERROR), (operation, answer.text)
        assert (body["status"], body["code"]) == ("error", "request_failed"), (operation, answer.text)
    assert await place.state() == before


async def test_json_of_another_type_is_taken_from_a_client_and_not_from_a_page_elsewhere(place: Place) -> None:
    """A form of a stranger's page can send JSON as text without asking first; its browser then names the page."""
    title = b'{"text": "x", "title": "from elsewhere", "name": "x", "scope": "session"}'
    before = await place.state()
    for operation in CHANGING:
        headers = {"content-type": "text/plain", "origin": "https://elsewhere.example"}
        answer = await place.client.request(
            OPERATIONS[operation][0], place.path(operation), content=title, headers=headers
        )
        body = answer.json()
        assert (answer.status_code, body["code"], set(body)) == (403, "origin_refused", ERROR), (operation, body)
    assert await place.state() == before
    for kind in (None, "text/plain", "application/x-www-form-urlencoded", "Application/JSON ; charset=utf-8"):
        given = {} if kind is None else {"content-type": kind}
        answer = await place.client.post(
            f"/api/sessions/{place.session}/rename", content=b'{"title": "new"}', headers=given
        )
        assert (answer.status_code, answer.json()["session"]["title"]) == (200, "new")
