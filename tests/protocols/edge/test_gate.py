"""The gate, from outside: names of requests, hosts, origins, sizes, times and rates, each with its own answer."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx2
import pytest
import structlog
from starlette.types import Receive, Scope, Send

from app.core.clock import ManualClock
from app.core.settings import Settings
from app.protocols.auth.access import Access
from app.protocols.auth.denials import Denials
from app.protocols.edge import gate, limits
from app.protocols.edge.limits import InFlight, Rates
from app.protocols.edge.origins import Origins
from app.protocols.wire import uvicorn_connection
from tests.protocols.auth.auth_server import AuthServer, open_auth_server
from tests.server import in_process


def _is(answer: httpx2.Response, status: int, code: str) -> bool:
    return (answer.status_code, answer.json()["error"]["code"]) == (status, code)


async def _raw(server: AuthServer, request: bytes) -> bytes:
    """Bytes as they are; everything that comes until the server closes."""
    address = urlsplit(server.url)
    reader, writer = await asyncio.open_connection(address.hostname, address.port)
    try:
        writer.write(request)
        async with asyncio.timeout(30):
            return await reader.read()
    except ConnectionResetError:
        return b""
    finally:
        writer.close()


@pytest.mark.requirement("HK-12")
async def test_every_answer_carries_the_name_of_its_request(tmp_path: Path) -> None:
    async with open_auth_server(tmp_path) as server:
        client = server.client()
        for path in ("/healthz", "/api/threads", "/nothing"):
            mine = await client.get(path, headers={"x-request-id": "trace-1.a"})
            assert mine.headers["x-request-id"] == "trace-1.a"
            made = {(await client.get(path)).headers["x-request-id"] for _ in range(2)}
            assert len(made) == 2
            assert all(name.startswith("req_") for name in made)
        for unfit in ("a b", "x" * 129, '"', "<script>"):
            answer = await client.get("/healthz", headers={"x-request-id": unfit})
            assert answer.headers["x-request-id"].startswith("req_")


@pytest.mark.requirement("S8")
async def test_a_host_that_is_not_ours_is_refused(tmp_path: Path) -> None:
    async with open_auth_server(tmp_path, auth="disabled") as server:
        client = server.client()
        for host in ("localhost", "LOCALHOST:1234", "127.0.0.1", "[::1]:8700"):
            assert (await client.get("/api/threads", headers={"host": host})).status_code == 200, host
        for host in ("evil.example", "localhost.evil.example", "127.0.0.1.evil.example", "[::2]"):
            assert _is(await client.get("/api/threads", headers={"host": host}), 400, "HOST_REFUSED"), host
        assert (await client.get("/healthz", headers={"host": "10.2.3.4:8700"})).status_code == 200
    async with open_auth_server(tmp_path, auth="disabled", trusted_hosts="agents.example") as server:
        client = server.client()
        assert (await client.get("/api/threads", headers={"host": "agents.example:443"})).status_code == 200
        assert _is(await client.get("/api/threads"), 400, "HOST_REFUSED")


@pytest.mark.requirement("S8")
async def test_exactly_the_listed_origins_may_read_answers(tmp_path: Path) -> None:
    async with open_auth_server(tmp_path, cors_origins="https://app.example") as server:
        client = await server.caller()
        body = {"agent": "echo", "input": "x"}
        asked = {"access-control-request-method": "POST", "access-control-request-headers": "authorization"}
        good, bad = {"origin": "https://app.example"}, {"origin": "https://app.example.evil"}
        preflight = await server.client().options("/api/runs", headers=asked | good)
        assert preflight.status_code == 204
        assert preflight.headers["access-control-allow-origin"] == "https://app.example"
        assert "authorization" in preflight.headers["access-control-allow-headers"]
        assert _is(await server.client().options("/api/runs", headers=asked | bad), 403, "ORIGIN_REFUSED")
        answer = await client.post("/api/runs", json=body, headers=good)
        assert (answer.status_code, answer.headers["access-control-allow-origin"]) == (202, "https://app.example")
        assert "origin" in answer.headers["vary"]
        assert _is(await client.post("/api/runs", json=body, headers=bad), 403, "ORIGIN_REFUSED")
        read = await client.get("/api/threads", headers=bad)
        assert read.status_code == 200
        assert "access-control-allow-origin" not in read.headers
        refused = await server.client().get("/api/threads", headers=good)
        assert (refused.status_code, refused.headers["access-control-allow-origin"]) == (401, "https://app.example")


@pytest.mark.requirement("S1", "S8")
async def test_a_page_elsewhere_changes_nothing_on_a_server_without_keys(tmp_path: Path) -> None:
    async with open_auth_server(tmp_path, auth="disabled") as server:
        client, body = server.client({"content-type": "text/plain"}), b'{"agent":"echo","input":"x"}'
        for origin in ("https://evil.example", "null"):
            answer = await client.post("/api/runs", content=body, headers={"origin": origin})
            assert _is(answer, 403, "ORIGIN_REFUSED")
        assert (await client.post("/api/runs", content=body, headers={"origin": server.url})).status_code == 202
        assert len((await client.get("/api/threads")).json()["items"]) == 1


@pytest.mark.requirement("S9")
async def test_headers_over_the_limit_are_refused(tmp_path: Path) -> None:
    async with open_auth_server(tmp_path) as server:
        client = await server.caller()
        assert (await client.get("/api/threads", headers={"x-note": "n" * 15_000})).status_code == 200
        assert _is(await client.get("/api/threads", headers={"x-note": "n" * 16_384}), 431, "HEADERS_TOO_LARGE")
        many = {f"x-{number}": "n" for number in range(2_000)}
        assert _is(await client.get("/healthz", headers=many), 431, "HEADERS_TOO_LARGE")


@pytest.mark.requirement("S9")
async def test_headers_that_never_end_are_cut_off(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with open_auth_server(tmp_path) as server:
        assert b" 431 " in await _raw(server, b"GET /healthz HTTP/1.1\r\nx-note: " + b"n" * 200_000)
        assert b" 431 " in await _raw(server, b"GET /" + b"n" * 200_000)
        monkeypatch.setattr(uvicorn_connection, "HEAD_SECONDS", 0.2)
        assert await _raw(server, b"GET /healthz HTTP/1.1\r\nhost: x\r\n") == b""
        assert await _raw(server, b"") == b""
        complete = b"GET /healthz HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n"
        assert (await _raw(server, complete)).startswith(b"HTTP/1.1 200")


async def _pieces(size: int) -> AsyncIterator[bytes]:
    for _ in range(size // 65_536 + 1):
        yield b"x" * 65_536


@pytest.mark.requirement("S9")
async def test_a_body_over_the_limit_is_refused_announced_or_not(tmp_path: Path) -> None:
    async with open_auth_server(tmp_path) as server:
        client = await server.caller("system")
        for path, size in (("/api/keys", limits.MAX_BODY_BYTES), ("/api/runs", limits.MAX_PARTS_BYTES)):
            for kind in ("application/json", "text/plain", "application/octet-stream", "multipart/form-data"):
                headers = {"content-type": kind}
                unannounced = await client.post(path, content=_pieces(size), headers=headers)
                assert _is(unannounced, 413, "BODY_TOO_LARGE"), (path, kind)
                if path == "/api/runs":
                    break
        announced = await client.post("/api/keys", content=b"x" * (limits.MAX_BODY_BYTES + 1))
        assert _is(announced, 413, "BODY_TOO_LARGE")
        lying = (
            b"POST /api/keys HTTP/1.1\r\nhost: localhost\r\nauthorization: %s\r\ncontent-length: 99999999999\r\n\r\n"
        )
        key = client.headers["authorization"].encode()
        address = urlsplit(server.url)
        reader, writer = await asyncio.open_connection(address.hostname, address.port)
        writer.write(lying % key)
        assert (await reader.readline()).startswith(b"HTTP/1.1 413")
        writer.close()


@pytest.mark.requirement("S9")
@pytest.mark.parametrize("kind", ["application/json", "text/plain", "multipart/form-data; boundary=x"])
async def test_a_body_that_does_not_come_is_not_waited_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: str
) -> None:
    monkeypatch.setattr(limits, "BODY_SECONDS", 0.2)
    async with open_auth_server(tmp_path) as server:
        key = await server.key("system")
        for path in ("/api/runs", "/api/keys"):
            for rest in ('content-length: 100\r\n\r\n{"na', 'transfer-encoding: chunked\r\n\r\n9\r\n{"na'):
                head = f"POST {path} HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {key}\r\n"
                answer = await _raw(server, f"{head}content-type: {kind}\r\n{rest}".encode())
                assert b" 408 " in answer.split(b"\r\n")[0], answer or "closed without an answer"
                assert b"BODY_TIMEOUT" in answer


GROUPS = {
    "/api/runs": b'"code":"BODY_TIMEOUT"',
    "/api/webhooks": b'"code":"BODY_TIMEOUT"',
    "/api/sessions": b'"status":"error"',
    "/api/projects": b'"code":"body_timeout"',
    "/v1/chat/completions": b'"code":"body_timeout"',
    "/v1/responses": b'"code":"body_timeout"',
    "/v1/embeddings": b'"code":"body_timeout"',
    "/langgraph/runs/wait": b'"detail":',
    "/langgraph/threads/t/commands": b'"detail":',
    "/langgraph/store/items/search": b'"detail":',
    "/mcp": b'"jsonrpc":"2.0"',
    "/agui/echo": b'"code":"BODY_TIMEOUT"',
    "/a2a/echo": b'"jsonrpc":"2.0"',
    "/a2a/echo/message:send": b'"details":',
}
"""One route of each protocol that takes a body, and a piece of how it says no."""


@pytest.mark.requirement("S9")
async def test_a_client_that_sends_its_body_slowly_is_cut_off_by_every_protocol(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "BODY_SECONDS", 0.3)
    async with open_auth_server(tmp_path) as server:
        key = await server.key("system")

        address = urlsplit(server.url)

        async def send(path: str, *, on_and_on: bool) -> bytes:
            """The beginning of a body that is allowed, and then nothing, or a byte now and then. A server that closes
            while it is sent something may take its answer with it."""
            head = f"POST {path} HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {key}\r\n"
            head += "content-type: application/json\r\naccept: application/json, text/event-stream\r\n"
            reader, writer = await asyncio.open_connection(address.hostname, address.port)
            writer.write(f"{head}content-length: 1000\r\n\r\n{{".encode())
            answered = asyncio.ensure_future(reader.read())
            try:
                async with asyncio.timeout(30):
                    while on_and_on and not answered.done():
                        writer.write(b" ")
                        await asyncio.wait({answered}, timeout=0.02)
                    return await answered
            except ConnectionResetError:
                return b"HTTP/1.1 408 closed"
            finally:
                answered.cancel()
                writer.close()

        silent = dict(zip(GROUPS, await asyncio.gather(*(send(path, on_and_on=False) for path in GROUPS)), strict=True))
        slow = await asyncio.gather(*(send(path, on_and_on=True) for path in GROUPS))
        for path, words in GROUPS.items():
            assert b" 408 " in silent[path].split(b"\r\n")[0], (path, silent[path])
            assert words in silent[path], (path, silent[path])
        assert all(b" 408 " in answer.split(b"\r\n")[0] for answer in slow), slow
        assert (await (await server.caller()).get("/api/threads")).json()["items"] == []


@pytest.mark.requirement("S9", "G14")
async def test_a_caller_that_asks_too_often_learns_when_to_come_back(tmp_path: Path) -> None:
    async with open_auth_server(tmp_path, rate_per_key=1) as server:
        busy, other = await server.caller(), await server.caller()
        run = (await busy.post("/api/runs", json={"agent": "echo", "input": "x"})).json()
        answers = await asyncio.gather(*(busy.get("/api/threads") for _ in range(20)))
        refused = [answer for answer in answers if answer.status_code == 429]
        assert _is(refused[0], 429, "RATE_LIMITED")
        assert int(refused[0].headers["retry-after"]) >= 1
        assert (await other.get("/api/threads")).status_code == 200
        assert (await busy.post(f"/api/runs/{run['id']}/cancel")).status_code == 200
        place = f"/langgraph/threads/{run['threadId']}/runs/{run['id']}"
        while (await busy.get(place)).status_code != 429:
            pass
        assert (await busy.post(f"{place}/cancel")).status_code == 202
        assert (await busy.get("/healthz")).status_code == 200


def test_a_rate_comes_back_with_time_and_its_memory_is_bounded() -> None:
    clock = ManualClock()
    rates = Rates(10, clock)
    taken = [rates.take(("t", "a")) for _ in range(21)]
    assert taken == [0] * 20 + [1]
    clock.advance(0.1)
    assert [rates.take(("t", "a")) for _ in range(2)] == [0, 1]
    for number in range(limits.MAX_BUCKETS + 50):
        rates.take(("t", str(number)))
    assert len(rates) == limits.MAX_BUCKETS


def test_a_tenant_that_fills_its_share_leaves_room_for_others() -> None:
    room = InFlight(3, 2)
    for _ in range(2):
        room.enter("a")
    refused = room.refusal("a")
    assert refused is not None
    assert (refused.code, room.refusal("b")) == ("TENANT_BUSY", None)
    room.enter("b")
    full = room.refusal("c")
    assert full is not None
    assert full.code == "OVERLOADED"
    room.leave("a")
    assert room.refusal("a") is None


@pytest.mark.requirement("G14")
async def test_under_load_new_requests_are_turned_away_and_what_ends_work_is_served(tmp_path: Path) -> None:
    async with open_auth_server(tmp_path, max_requests=3, max_requests_per_tenant=2) as server:
        ours, theirs = await server.caller("member", "ours"), await server.caller("member", "theirs")
        body = {"agent": "assistant", "input": "publish it"}
        slow = b"POST /api/runs HTTP/1.1\r\nhost: localhost\r\nauthorization: %s\r\ncontent-length: 9\r\n\r\n"
        address = urlsplit(server.url)
        held = []

        async def hold(caller: httpx2.AsyncClient) -> None:
            _, writer = await asyncio.open_connection(address.hostname, address.port)
            writer.write(slow % caller.headers["authorization"].encode())
            held.append(writer)

        await hold(ours)
        for _ in range(200):
            await hold(ours)  # one before may have been turned away itself, because of the request that follows it
            refused = await ours.post("/api/runs", json=body)
            if refused.status_code == 429:
                break
        assert _is(refused, 429, "TENANT_BUSY")
        assert refused.headers["retry-after"]
        run = (await theirs.post("/api/runs", json=body)).json()
        assert run["status"] in ("queued", "running", "waiting")
        for _ in range(200):
            await hold(theirs)
            refused = await theirs.get("/api/threads")
            if refused.status_code == 503:
                break
        assert _is(refused, 503, "OVERLOADED")
        assert refused.headers["retry-after"]
        assert (await theirs.get("/healthz")).status_code == 200
        assert (await theirs.post(f"/api/runs/{run['id']}/cancel")).status_code == 200
        for writer in held:
            writer.close()


async def test_a_server_without_keys_meters_nobody(tmp_path: Path) -> None:
    settings = Settings(data_dir=tmp_path, rate_per_key=1)
    async with in_process(settings) as server, httpx2.AsyncClient(base_url=server.url, verify=False) as client:
        assert {(await client.get("/api/threads")).status_code for _ in range(10)} == {200}


@pytest.mark.requirement("S7")
async def test_an_event_stream_ends_when_its_reader_s_key_does(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with open_auth_server(tmp_path) as server:
        admin = await server.caller("admin")
        made = (await admin.post("/api/keys", json={"name": "reader", "roles": ["viewer"]})).json()
        body = {"agent": "echo", "input": "x"}
        thread = (await admin.post("/api/runs", params={"wait": 10}, json=body)).json()["threadId"]
        reader = server.client({"authorization": f"Bearer {made['key']}"})
        async with asyncio.timeout(30), reader.stream("GET", f"/api/threads/{thread}/stream") as stream:
            lines = stream.aiter_lines()
            assert any([line.startswith("event: ") async for line in _until_blank(lines)])
            await admin.delete(f"/api/keys/{made['id']}")
            secret = body | {"threadId": thread, "input": "not for the reader any more"}
            await admin.post("/api/runs", params={"wait": 10}, json=secret)
            assert "not for the reader any more" not in "".join([line async for line in lines])


async def _until_blank(lines: AsyncIterator[str]) -> AsyncIterator[str]:
    async for line in lines:
        if not line:
            return
        yield line


@pytest.mark.requirement("HK-12")
async def test_the_request_s_name_is_in_what_is_logged_about_it() -> None:
    named: list[object] = []

    async def probe(scope: Scope, receive: Receive, send: Send) -> None:
        named.append(structlog.contextvars.get_contextvars()["request_id"])

    access = Access(Denials(_nobody, ManualClock()), ManualClock())
    edge = gate.RequestGate(probe, access, Origins(None, frozenset()), Rates(0, ManualClock()), InFlight(1, 1), 1, 1024)

    async def request(name: bytes) -> None:
        scope = {"type": "http", "path": "/api/x", "method": "GET", "query_string": b"",
                 "headers": [(b"host", b"x"), (b"x-request-id", name)]}  # fmt: skip
        await edge(scope, _nobody, _nobody)

    # Each request has a task of its own, as under the web server.
    await asyncio.gather(*[asyncio.create_task(request(name)) for name in (b"one", b"two")])
    assert named == ["one", "two"]


async def _nobody(*_: object) -> Any:
    raise AssertionError


@pytest.mark.requirement("S9", "G14")
async def test_only_routes_that_cancel_have_a_rate_of_their_own_and_it_ends_too(tmp_path: Path) -> None:
    async with open_auth_server(tmp_path, rate_per_key=1) as server:
        client = await server.caller()
        body = {"agent": "echo", "input": "x", "threadId": "cancel", "createThread": True}
        run = (await client.post("/api/runs", json=body)).json()
        while (await client.get("/api/threads")).status_code != 429:
            pass
        for method, path in (
            ("GET", "/api/threads/cancel"),
            ("GET", "/api/runs/cancel"),
            ("GET", "/api/agents/x/cancel"),
            ("GET", f"/api/runs/{run['id']}/cancel"),
            ("POST", f"/api/runs/{run['id']}/commands/cancel"),
            ("GET", "/nothing/cancel"),
        ):
            assert _is(await client.request(method, path), 429, "RATE_LIMITED"), path
        cancelled = [(await client.post(f"/api/runs/{run['id']}/cancel")).status_code for _ in range(10)]
        assert cancelled[0] == 200
        assert 429 in cancelled


@pytest.mark.requirement("S9")
@pytest.mark.parametrize(("size", "ended"), [(17_000, True), (40_000, True), (40_000, False), (300_000, False)])
async def test_headers_over_the_limit_are_answered_not_cut_off(tmp_path: Path, size: int, ended: bool) -> None:
    async with open_auth_server(tmp_path) as server:
        for head in (b"GET /api/threads HTTP/1.1\r\nhost: localhost\r\nx-note: ", b"GET /api/threads?after="):
            answer = await _raw(server, head + b"n" * size + (b" HTTP/1.1\r\n\r\n" if ended else b""))
            assert b" 431 " in answer.split(b"\r\n")[0], answer[:200] or "closed without an answer"
            assert b"HEADERS_TOO_LARGE" in answer
            assert b"connection: close" in answer


@pytest.mark.requirement("S9")
async def test_headers_in_small_pieces_that_never_end_are_answered(tmp_path: Path) -> None:
    async with open_auth_server(tmp_path) as server:
        address = urlsplit(server.url)
        reader, writer = await asyncio.open_connection(address.hostname, address.port)
        writer.write(b"GET /healthz HTTP/1.1\r\nhost: localhost\r\n")
        for number in range(60):
            writer.write(b"x-%d: %b\r\n" % (number, b"n" * 1000))
            await writer.drain()
        async with asyncio.timeout(30):
            assert b" 431 " in (await reader.read()).split(b"\r\n")[0]
        writer.close()


async def test_the_end_of_the_headers_may_come_in_two_pieces_before_a_large_body(tmp_path: Path) -> None:
    async with open_auth_server(tmp_path) as server:
        key = await server.key()
        address = urlsplit(server.url)
        reader, writer = await asyncio.open_connection(address.hostname, address.port)
        body = b'{"agent": "echo", "input": "' + b"x" * 100_000 + b'"}'
        head = f"POST /api/runs HTTP/1.1\r\nhost: localhost\r\nauthorization: Bearer {key}\r\n"
        writer.write(f"{head}content-length: {len(body)}\r\nconnection: close\r\n\r".encode())
        await writer.drain()
        # A request of our own goes through in between, so that the first piece was read by itself.
        assert (await server.client().get("/healthz")).status_code == 200
        writer.write(b"\n" + body)
        async with asyncio.timeout(30):
            assert b" 202 " in (await reader.read()).split(b"\r\n")[0]
        writer.close()
