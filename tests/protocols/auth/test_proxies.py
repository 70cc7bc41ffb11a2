"""Header mode: whom a listed proxy names is believed, whoever else says so is not."""

from pathlib import Path
from typing import Final

import pytest

from tests.protocols.auth.auth_server import bearer, open_auth_server

ADA: Final = {"x-holdfast-user": "ada", "x-holdfast-tenant": "acme", "x-holdfast-roles": "member"}


@pytest.mark.requirement("S2", "PX-7")
async def test_a_listed_proxy_says_who_calls(tmp_path: Path) -> None:
    async with open_auth_server(tmp_path, auth="header", trusted_proxies="10.0.0.0/8, 127.0.0.1") as server:
        ada = server.client(ADA)
        run = (await ada.post("/api/runs", json={"agent": "echo", "input": "x"})).json()
        events = await server.holdfast.store.reader.run_events("acme", run["id"], 0, 10)
        assert events[0].actor == "user:ada"
        assert (await ada.get("/metrics")).status_code == 403
        scoped = server.client({"x-holdfast-user": "bot", "x-holdfast-scopes": "metrics:read"})
        assert (await scoped.get("/metrics")).status_code == 200


@pytest.mark.requirement("S2")
async def test_the_same_words_from_anybody_else_count_for_nothing(tmp_path: Path) -> None:
    async with open_auth_server(tmp_path, auth="header,keys", trusted_proxies="10.0.0.0/8") as server:
        assert (await server.client(ADA).get("/api/threads")).status_code == 401
        # Nor does the word of somebody who claims to come from there.
        forwarded = ADA | {"x-forwarded-for": "10.0.0.1", "forwarded": "for=10.0.0.1", "x-real-ip": "10.0.0.1"}
        assert (await server.client(forwarded).get("/api/threads")).status_code == 401
        # A key sent with them is what counts, with its own tenant.
        key = await server.key("admin", "other")
        keys = (await server.client(ADA | bearer(key)).get("/api/keys")).json()["items"]
        assert {listed["tenant"] for listed in keys} == {"other"}


SAID: Final[list[tuple[dict[str, str], int]]] = [
    ({}, 401),
    ({"x-holdfast-user": "ada"}, 403),
    ({"x-holdfast-user": "ada", "x-holdfast-roles": "viewer"}, 200),
    ({"x-holdfast-user": "ada", "x-holdfast-roles": "king"}, 403),
    ({"x-holdfast-roles": "admin"}, 401),
    ({"x-holdfast-user": "", "x-holdfast-roles": "admin"}, 401),
    ({"x-holdfast-user": "a" * 201, "x-holdfast-roles": "admin"}, 401),
    ({"x-holdfast-user": "ada", "x-holdfast-roles": "admin", "x-holdfast-tenant": "a/b"}, 401),
    ({"x-codex-role": "member", "x-codex-actor": "ada"}, 200),
    ({"x-codex-rbac-role": "owner", "x-codex-rbac-actor": "ada"}, 200),
    ({"x-codex-role": "admin"}, 200),
    ({"x-codex-role": "member", "x-codex-rbac-role": "admin"}, 401),
    ({"x-codex-role": "member", "x-holdfast-user": "ada"}, 401),
    ({"x-codex-role": "member", "x-holdfast-tenant": "other"}, 401),
]


@pytest.mark.requirement("S2")
async def test_what_a_proxy_may_say(tmp_path: Path) -> None:
    async with open_auth_server(tmp_path, auth="header", trusted_proxies="127.0.0.0/8") as server:
        for headers, status in SAID:
            assert (await server.client(headers).get("/api/threads")).status_code == status, headers


@pytest.mark.requirement("S2")
async def test_an_identity_that_comes_twice_is_refused(tmp_path: Path) -> None:
    async with open_auth_server(tmp_path, auth="header", trusted_proxies="127.0.0.1") as server:
        twice = [("x-holdfast-user", "ada"), ("x-holdfast-user", "root"), ("x-holdfast-roles", "admin")]
        answer = await server.client().get("/api/threads", headers=twice)
        assert (answer.status_code, answer.json()["error"]["code"]) == (400, "INVALID_REQUEST")
