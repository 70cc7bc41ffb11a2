"""The websocket's door: who may open it, from where, what they may follow, and that it closes when their key goes."""

import asyncio
from pathlib import Path
from typing import Any

import httpx2
import pytest
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.typing import Origin, Subprotocol

from app.core import json
from app.events.catalog.interrupt import InterruptRaised
from app.events.catalog.ledger import KeyRevoked
from app.events.recorder import Scope
from app.runtime.intake.ledger import Ledger
from tests.protocols.auth.auth_server import AuthServer, bearer, open_auth_server
from tests.server import ServerProcess
from tests.waiting import until


async def _next(socket: ClientConnection) -> dict[str, Any]:
    async with asyncio.timeout(30):
        frame: dict[str, Any] = json.loads(await socket.recv())
        return frame


async def _refusal(server: AuthServer, **options: Any) -> tuple[int, str]:
    with pytest.raises(InvalidStatus) as refused:
        async with connect(server.stream_url, **options):
            pass
    assert refused.value.response.body is not None
    return refused.value.response.status_code, json.loads(bytes(refused.value.response.body))["error"]["code"]


@pytest.mark.requirement("S7")
async def test_the_handshake_needs_a_key_that_counts(tmp_path: Path) -> None:
    async with open_auth_server(tmp_path) as server:
        assert await _refusal(server) == (401, "UNAUTHENTICATED")
        assert await _refusal(server, additional_headers=bearer("x" * 40)) == (401, "UNAUTHENTICATED")
        body = {"name": "only metrics", "scopes": ["metrics:read"]}
        narrow = (await (await server.caller("admin")).post("/api/keys", json=body)).json()["key"]
        assert await _refusal(server, additional_headers=bearer(narrow)) == (403, "FORBIDDEN")
        async with connect(server.stream_url, additional_headers=bearer(await server.key("viewer"))) as good:
            assert (await _next(good))["type"] == "ready"


@pytest.mark.requirement("S7")
async def test_a_browser_offers_its_key_as_a_subprotocol_and_it_is_not_said_back(tmp_path: Path) -> None:
    async with open_auth_server(tmp_path) as server:
        key = await server.key("viewer")
        offered = [Subprotocol("holdfast"), Subprotocol(f"holdfast.bearer.{key}")]
        async with connect(server.stream_url, subprotocols=offered) as socket:
            assert socket.subprotocol == "holdfast"
            assert (await _next(socket))["type"] == "ready"
        wrong = [Subprotocol("holdfast"), Subprotocol("holdfast.bearer.nothing")]
        assert await _refusal(server, subprotocols=wrong) == (401, "UNAUTHENTICATED")


@pytest.mark.requirement("S7", "S8")
async def test_pages_elsewhere_do_not_get_a_socket(tmp_path: Path) -> None:
    async with open_auth_server(tmp_path, cors_origins="https://app.example") as server:
        headers = bearer(await server.key("viewer"))
        for origin in ("https://evil.example", "https://app.example.evil", "http://app.example", "null"):
            refused = await _refusal(server, origin=Origin(origin), additional_headers=headers)
            assert refused == (403, "ORIGIN_REFUSED"), origin
        for origin in ("https://app.example", server.url):
            async with connect(server.stream_url, origin=Origin(origin), additional_headers=headers) as socket:
                assert (await _next(socket))["type"] == "ready"


@pytest.mark.requirement("S1", "S7")
async def test_also_without_keys_pages_elsewhere_do_not_get_a_socket(tmp_path: Path) -> None:
    async with open_auth_server(tmp_path, auth="disabled") as server:
        assert await _refusal(server, origin=Origin("https://evil.example")) == (403, "ORIGIN_REFUSED")


@pytest.mark.requirement("S7")
async def test_a_revoked_key_closes_its_sockets_and_no_others(tmp_path: Path) -> None:
    async with open_auth_server(tmp_path) as server:
        admin = await server.caller("admin")
        made = (await admin.post("/api/keys", json={"name": "x", "roles": ["viewer"]})).json()
        kept = bearer(await server.key("viewer"))
        async with (
            connect(server.stream_url, additional_headers=bearer(made["key"])) as gone,
            connect(server.stream_url, additional_headers=kept) as stays,
        ):
            await _next(gone), await _next(stays)
            await admin.delete(f"/api/keys/{made['id']}")
            with pytest.raises(ConnectionClosed) as closed:
                await _next(gone)
            assert closed.value.rcvd is not None
            assert closed.value.rcvd.code == 4401
            await stays.send('{"type":"ping"}')
            assert (await _next(stays))["type"] == "pong"
        await until(lambda: len(server.holdfast.store.hub) == 0)


@pytest.mark.requirement("S7")
async def test_the_real_server_closes_the_sockets_of_a_revoked_key_with_their_cursor(tmp_path: Path) -> None:
    file = tmp_path / "admin.key"
    variables = {"HOLDFAST_AUTH": "keys", "HOLDFAST_ADMIN_KEY_FILE": str(file)}
    server = await asyncio.to_thread(ServerProcess.start, tmp_path / "data", None, None, variables)
    headers = bearer(file.read_text().strip())
    try:
        async with httpx2.AsyncClient(base_url=server.url, headers=headers, timeout=20, verify=False) as admin:
            made = (await admin.post("/api/keys", json={"name": "x", "roles": ["member"]})).json()
            body = {"agent": "echo", "input": "x", "threadId": "t", "createThread": True}
            run = (await admin.post("/api/runs", params={"wait": 10}, json=body)).json()
            url = f"{server.stream_url}?threadId=t&afterSeq=0&types=runtime.*"
            async with connect(url, additional_headers=bearer(made["key"])) as socket:
                while (await _next(socket)).get("seq") != run["lastSeq"]:
                    pass
                await admin.delete(f"/api/keys/{made['id']}")
                with pytest.raises(ConnectionClosed) as closed:
                    await _next(socket)
            assert closed.value.rcvd is not None
            assert closed.value.rcvd.code == 4401
            assert json.loads(closed.value.rcvd.reason.encode()) == {"lastSeq": {"t": run["lastSeq"]}}
            with pytest.raises(InvalidStatus) as refused:
                await connect(server.stream_url, additional_headers=bearer(made["key"]))
            assert refused.value.response.status_code == 401
    finally:
        await asyncio.to_thread(server.stop)


@pytest.mark.requirement("S7")
async def test_an_expiring_key_closes_its_sockets(tmp_path: Path) -> None:
    async with open_auth_server(tmp_path) as server:
        brief = bearer(await server.key("viewer", lifetime_ms=5000))
        async with connect(server.stream_url, additional_headers=brief) as socket:
            assert (await _next(socket))["type"] == "ready"
            with pytest.raises(ConnectionClosed) as closed:
                await _next(socket)
            assert closed.value.rcvd is not None
            assert closed.value.rcvd.code == 4401


@pytest.mark.requirement("S7", "PX-7")
async def test_a_socket_hears_its_own_tenant_only(tmp_path: Path) -> None:
    async with open_auth_server(tmp_path) as server:
        headers, theirs = bearer(await server.key("member", "ours")), await server.caller("member", "theirs")
        run = (await theirs.post("/api/runs", params={"wait": 10}, json={"agent": "echo", "input": "secret"})).json()
        # Live, by name and from the beginning: nothing of it is heard.
        address = f"{server.stream_url}?threadId={run['threadId']}&afterSeq=0"
        async with (
            connect(address, additional_headers=headers) as named,
            connect(server.stream_url, additional_headers=headers) as unfiltered,
        ):
            await _next(named), await _next(unfiltered)
            await named.send(json.dumps({"type": "subscribe", "threads": {run["threadId"]: 0}}).decode())
            await theirs.post(
                "/api/runs", params={"wait": 10}, json={"agent": "echo", "input": "y", "threadId": run["threadId"]}
            )
            for socket in (named, unfiltered):
                await socket.send('{"type":"ping"}')
                assert (await _next(socket))["type"] == "pong"


@pytest.mark.requirement("S7")
async def test_the_ledger_is_followed_by_auditors_only(tmp_path: Path) -> None:
    async with open_auth_server(tmp_path) as server:
        member, operator = bearer(await server.key("member")), bearer(await server.key("operator"))
        address = f"{server.stream_url}?threadId=sys_ledger"
        async with (
            connect(address, additional_headers=member) as kept_out,
            connect(address, additional_headers=operator) as let_in,
        ):
            assert [(await _next(kept_out))["type"] for _ in range(2)] == ["ready", "error"]
            await _next(let_in)
            await kept_out.send('{"type":"subscribe","threadId":"sys_ledger"}')
            assert (await _next(kept_out))["type"] == "error"
            await Ledger(server.holdfast.store.recorder).record("default", KeyRevoked(key_id="key_1"))
            assert (await _next(let_in))["type"] == "runtime.key.revoked"


async def test_a_recovery_is_decided_by_operators_only(tmp_path: Path) -> None:
    async with open_auth_server(tmp_path) as server:
        member, operator = await server.caller("member"), await server.caller("operator")
        run = (await member.post("/api/runs", params={"wait": 10}, json={"agent": "echo", "input": "x"})).json()
        raised = InterruptRaised.model_validate(
            {"interruptId": "int_1", "kind": "recovery", "title": "?", "expiresAt": "2099-01-01T00:00:00.000Z"}
        )
        await server.holdfast.store.recorder.record(Scope("default", run["threadId"]), raised)
        answers = [
            await client.post("/api/interrupts/int_1/answer", json={"decision": "fail"})
            for client in (member, operator)
        ]
        assert [answer.status_code for answer in answers] == [403, 200]
        assert answers[0].json()["error"]["code"] == "FORBIDDEN"
