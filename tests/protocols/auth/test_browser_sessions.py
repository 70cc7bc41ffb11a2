"""Browser sessions: a cookie in place of the key, and what it takes to change something with it."""

import asyncio
from pathlib import Path

import httpx2
import pytest
import websockets

from tests.protocols.auth.auth_server import AuthServer, bearer, open_auth_server


async def _signed_in(server: AuthServer, secret: str) -> tuple[httpx2.AsyncClient, str]:
    client = server.client()
    answer = await client.post("/api/sign-in", headers=bearer(secret))
    assert answer.status_code == 200 and secret not in answer.text
    (cookie,) = answer.headers.get_list("set-cookie")
    assert "HttpOnly" in cookie and "SameSite=strict" in cookie and "Max-Age=43200" in cookie and secret not in cookie
    return client, answer.json()["csrfToken"]


async def test_a_session_reads_by_its_cookie_and_changes_only_with_its_csrf_token(tmp_path: Path) -> None:
    async with open_auth_server(tmp_path) as server:
        client, csrf = await _signed_in(server, await server.key("member"))
        assert (await client.get("/api/runs")).status_code == 200
        me = (await client.get("/api/me")).json()
        assert me["csrfToken"] == csrf and me["roles"] == ["member"] and me["expiresAt"] is not None
        refused = await client.post("/api/threads", json={})
        assert refused.status_code == 403 and refused.json()["error"]["code"] == "CSRF_TOKEN_INVALID"
        for wrong in ("", "x" * 43, "%%%", csrf[:-1]):
            assert (await client.post("/api/threads", json={}, headers={"x-csrf-token": wrong})).status_code == 403
        allowed = await client.post("/api/threads", json={}, headers={"x-csrf-token": csrf})
        assert allowed.status_code == 201
        # Another session's token does not fit, though the same key made it.
        other, other_csrf = await _signed_in(server, await server.key("member"))
        assert (await other.post("/api/threads", json={}, headers={"x-csrf-token": csrf})).status_code == 403
        assert (await other.post("/api/threads", json={}, headers={"x-csrf-token": other_csrf})).status_code == 201
        # What the role may not do, the session may not do either.
        assert (await client.get("/api/keys")).status_code == 403


async def test_a_session_ends_with_its_key_or_by_signing_out_and_cannot_be_made_up(tmp_path: Path) -> None:
    async with open_auth_server(tmp_path) as server:
        admin = await server.caller("admin")
        made = (await admin.post("/api/keys", json={"name": "a", "roles": ["viewer"]})).json()
        client, csrf = await _signed_in(server, made["key"])
        (name,) = client.cookies
        value = client.cookies[name]
        content, _, signature = value.partition(".")
        for forged in ("", "x", content, f"{content}.", f"{content}.{'A' * len(signature)}", f"{content}x.{signature}"):
            answer = await server.client({"cookie": f"{name}={forged}"}).get("/api/me")
            assert answer.status_code == 401
        # Of another server on the same host the cookie has another name.
        assert (await server.client({"cookie": f"holdfast_1={value}"}).get("/api/me")).status_code == 401
        await admin.delete(f"/api/keys/{made['id']}")
        assert (await client.get("/api/me")).status_code == 401
        again, csrf = await _signed_in(server, await server.key("viewer"))
        assert (await again.post("/api/sign-out", headers={"x-csrf-token": csrf})).status_code == 204
        assert (await again.get("/api/me")).status_code == 401


async def test_a_websocket_of_a_session_needs_an_origin_of_this_server_and_closes_with_the_key(tmp_path: Path) -> None:
    async with open_auth_server(tmp_path) as server:
        admin = await server.caller("admin")
        made = (await admin.post("/api/keys", json={"name": "a", "roles": ["viewer"]})).json()
        client, _ = await _signed_in(server, made["key"])
        cookie = "; ".join(f"{name}={value}" for name, value in client.cookies.items())
        origin = server.url
        for headers in ({"cookie": cookie}, {"cookie": cookie, "origin": "https://elsewhere.example"}):
            with pytest.raises(websockets.InvalidStatus):
                await websockets.connect(server.stream_url, additional_headers=headers)
        async with websockets.connect(
            server.stream_url, additional_headers={"cookie": cookie, "origin": origin}
        ) as socket:
            assert "ready" in str(await socket.recv())
            await admin.delete(f"/api/keys/{made['id']}")
            async with asyncio.timeout(30):
                await socket.wait_closed()
            assert socket.close_code == 4401


async def test_who_needs_no_session_or_may_have_none_gets_none(tmp_path: Path) -> None:
    async with open_auth_server(tmp_path) as server:
        bootstrap = server.holdfast.access.bootstrap
        assert bootstrap is not None and bootstrap.token is not None
        refused = await server.client().post("/api/sign-in", headers=bearer(bootstrap.token))
        assert refused.status_code == 403 and refused.json()["error"]["code"] == "SIGN_IN_REFUSED"
        assert (await server.client().post("/api/sign-in")).status_code == 401
        assert (await server.client().post("/api/sign-in", headers=bearer("hf_" + "x" * 43))).status_code == 401
        over_tls = await server.client().post(
            "/api/sign-in", headers=bearer(await server.key()) | {"origin": server.url.replace("http:", "https:")}
        )
        assert "Secure" in over_tls.headers["set-cookie"]
    async with open_auth_server(tmp_path / "open", auth="disabled") as server:
        answer = await server.client().post("/api/sign-in")
        assert answer.status_code == 200 and "set-cookie" not in answer.headers
        assert answer.json()["authentication"] is False and answer.json()["csrfToken"] is None
