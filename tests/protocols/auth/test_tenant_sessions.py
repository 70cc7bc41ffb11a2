"""A session that acts in another tenant: for who may manage all of them, recorded there, and over with that right."""

from pathlib import Path

import pytest

from tests.protocols.auth.auth_server import bearer, open_auth_server


@pytest.mark.requirement("PX-6")
async def test_a_session_enters_another_tenant_and_sees_only_that_one(tmp_path: Path) -> None:
    async with open_auth_server(tmp_path) as server:
        acme, system = await server.caller("member", "acme"), await server.key("system")
        theirs = (await acme.post("/api/threads", json={"title": "of acme"})).json()
        browser = server.client()
        signed = (await browser.post("/api/sign-in", headers=bearer(system))).json()
        assert (await browser.get(f"/api/threads/{theirs['id']}")).status_code == 404
        assert (await browser.get("/api/tenants")).json()["items"] == ["acme", "default"]
        unproven = await browser.post("/api/sign-in", params={"tenant": "acme"})
        assert unproven.status_code == 403 and unproven.json()["error"]["code"] == "CSRF_TOKEN_INVALID"
        proof = {"x-csrf-token": signed["csrfToken"]}
        entered = (await browser.post("/api/sign-in", params={"tenant": "acme"}, headers=proof)).json()
        assert entered["tenant"] == "acme" and entered["csrfToken"] != signed["csrfToken"]
        assert (await browser.get(f"/api/threads/{theirs['id']}")).json()["title"] == "of acme"
        recorded = [payload for type, payload in await server.ledger("acme") if type == "runtime.tenant.entered"]
        assert [one["fromTenant"] for one in recorded] == ["default"]
        back = {"x-csrf-token": entered["csrfToken"]}
        assert (await browser.post("/api/sign-in", params={"tenant": "default"}, headers=back)).status_code == 200
        assert (await browser.get(f"/api/threads/{theirs['id']}")).status_code == 404


async def test_nobody_else_enters_another_tenant(tmp_path: Path) -> None:
    async with open_auth_server(tmp_path) as server:
        for role in ("viewer", "member", "operator", "admin"):
            secret = await server.key(role, "acme")
            refused = await server.client().post("/api/sign-in", params={"tenant": "default"}, headers=bearer(secret))
            assert refused.status_code == 403
            assert (await server.client(bearer(secret)).get("/api/tenants")).status_code == 403
            own = await server.client().post("/api/sign-in", params={"tenant": "acme"}, headers=bearer(secret))
            assert own.status_code == 200 and own.json()["tenant"] == "acme"
        assert [type for type, _ in await server.ledger("default") if type == "runtime.tenant.entered"] == []
        system = await server.key("system")
        for wrong in ("", "a b", "x" * 65, "../x"):
            answer = await server.client().post("/api/sign-in", params={"tenant": wrong}, headers=bearer(system))
            assert answer.status_code == 400
