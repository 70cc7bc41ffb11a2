"""The first key next to a running server, and the documentation in a browser with a key."""

from pathlib import Path

import httpx2
import pytest

from app.core.settings import Settings
from app.runtime.intake.keys import Grant, NewKey
from tests.protocols.auth.auth_server import bearer, open_auth_server
from tests.server import in_process

ADMIN = {"name": "me", "roles": ["admin"]}


@pytest.mark.requirement("S3")
async def test_the_token_makes_one_admin_key_and_nothing_else(settings: Settings) -> None:
    async with in_process(settings.model_copy(update={"auth": "keys"})) as server:
        bootstrap = server.holdfast.access.bootstrap
        assert bootstrap is not None and bootstrap.token is not None
        token = bootstrap.token
        async with httpx2.AsyncClient(base_url=server.url, headers=bearer(token), verify=False) as client:
            for path in ("/api/runs", "/api/threads", "/metrics", "/api/keys"):
                assert (await client.get(path)).status_code == 403, path
            assert (await client.delete("/api/keys/key_x")).status_code == 403
            weak = await client.post("/api/keys", json={"name": "x", "roles": ["member"]})
            assert (weak.status_code, "role admin" in weak.text) == (400, True)
            made = await client.post("/api/keys", json=ADMIN)
            assert (made.status_code, made.json()["createdBy"]) == (201, "user:bootstrap")
            again = await client.post("/api/keys", json=ADMIN)
            assert again.status_code == 401
            key = bearer(made.json()["key"])
            assert (await client.get("/api/keys", headers=key)).status_code == 200
            forged = await client.post("/api/keys", json=ADMIN, headers=bearer("hfb_" + "A" * 43))
            assert forged.status_code == 401


async def test_a_key_that_was_made_elsewhere_ends_the_token(settings: Settings) -> None:
    async with in_process(settings.model_copy(update={"auth": "keys"})) as server:
        bootstrap = server.holdfast.access.bootstrap
        assert bootstrap is not None and bootstrap.token is not None
        token = bootstrap.token
        admin = await server.holdfast.keys.create(Grant("admin", roles=["admin"]), "user:other")
        assert isinstance(admin, NewKey)
        async with httpx2.AsyncClient(base_url=server.url, headers=bearer(token), verify=False) as client:
            assert (await client.post("/api/keys", json=ADMIN)).status_code == 401
    async with in_process(settings.model_copy(update={"auth": "keys"})) as server:
        bootstrap = server.holdfast.access.bootstrap
        assert bootstrap is not None and bootstrap.token is None
        await server.holdfast.keys.revoke("default", admin.key.id, "user:other")
    async with in_process(settings.model_copy(update={"auth": "keys"})) as server:
        bootstrap = server.holdfast.access.bootstrap
        assert bootstrap is not None and bootstrap.token not in (None, token)


async def test_a_browser_opens_the_documentation_with_a_key(tmp_path: Path) -> None:
    async with open_auth_server(tmp_path) as server:
        client, key = server.client(), await server.key("viewer")
        for path in ("/docs", "/openapi.json", "/asyncapi.json"):
            asked = await client.get(path)
            assert asked.status_code == 401
            assert asked.headers["www-authenticate"].startswith("Basic ")
            shown = await client.get(path, auth=("anything", key))
            assert shown.status_code == 200
            assert (await client.get(path, auth=(key, "wrong"))).status_code == 401
            assert (await client.get(path, headers={"authorization": "Basic !!!"})).status_code == 401
        page = await client.get("/docs", auth=("", key))
        assert "default-src 'none'" in page.headers["content-security-policy"]
        # Nowhere else: a browser would send it along when another page makes it call.
        for path in ("/api/runs", "/api/keys", "/metrics"):
            answer = await client.get(path, auth=("anything", key))
            assert (answer.status_code, answer.headers["www-authenticate"]) == (401, "Bearer")
