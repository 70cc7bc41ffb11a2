"""API keys through the front door: shown once, kept as hashes, gone at once when revoked."""

import stat
from pathlib import Path
from typing import Final

import httpx2
import pytest

from app.core.settings import SettingsError
from tests.protocols.auth.auth_server import bearer, open_auth_server


@pytest.mark.requirement("S3", "PX-7")
async def test_a_key_lets_its_holder_in_and_nothing_else_does(tmp_path: Path) -> None:
    async with open_auth_server(tmp_path) as server:
        secret = await server.key()
        good = await server.client(bearer(secret)).get("/api/threads")
        as_header = await server.client({"x-api-key": secret}).get("/api/threads")
        assert (good.status_code, as_header.status_code) == (200, 200)
        shown: list[dict[str, str]] = [
            {},
            {"authorization": "Bearer"},
            bearer("x"),
            bearer(secret[:-1]),
            bearer(secret + "x"),
            bearer(secret.swapcase()),
            {"authorization": "Basic dXNlcjpwYXNz"},
            {"authorization": secret},
            {"x-api-key": ""},
            {"x-holdfast-user": "root", "x-holdfast-roles": "system"},
            bearer("eyJhbGciOiJub25lIn0.eyJzdWIiOiJ4In0."),
        ]
        answers = [await server.client(headers).get("/api/threads") for headers in shown]
        assert {answer.status_code for answer in answers} == {401}
        # Whatever was wrong, the answer is the same to the byte.
        assert len({answer.content for answer in answers}) == 1
        assert answers[0].json()["error"]["code"] == "UNAUTHENTICATED"
        assert answers[0].headers["www-authenticate"] == "Bearer"


@pytest.mark.requirement("S3")
async def test_a_refusal_has_the_shape_that_clients_of_the_path_expect(tmp_path: Path) -> None:
    async with open_auth_server(tmp_path) as server:
        client = server.client()
        openai = (await client.post("/v1/chat/completions", json={})).json()
        assert openai["error"].keys() == {"message", "type", "param", "code"}
        assert (openai["error"]["type"], openai["error"]["code"]) == ("authentication_error", "invalid_api_key")
        session = (await client.get("/api/sessions/x")).json()
        assert (session["status"], session["code"]) == ("error", "auth_required")
        native = (await client.get("/api/runs/x")).json()
        assert native["error"].keys() == {"code", "message", "remedy"}


async def test_only_health_and_readiness_are_open(tmp_path: Path) -> None:
    async with open_auth_server(tmp_path) as server:
        client = server.client()
        for path, status in {"/healthz": 200, "/readyz": 200, "/metrics": 401, "/openapi.json": 401, "/x": 401}.items():
            assert (await client.get(path)).status_code == status, path


@pytest.mark.requirement("S3")
async def test_a_revoked_key_counts_no_more(tmp_path: Path) -> None:
    async with open_auth_server(tmp_path) as server:
        admin = await server.caller("admin")
        made = (await admin.post("/api/keys", json={"name": "soon gone", "roles": ["viewer"]})).json()
        client = server.client(bearer(made["key"]))
        assert (await client.get("/api/threads")).status_code == 200
        revoked = (await admin.delete(f"/api/keys/{made['id']}")).json()
        assert revoked["revokedAt"] is not None
        assert (await client.get("/api/threads")).status_code == 401
        assert (await admin.delete(f"/api/keys/{made['id']}")).json() == revoked


@pytest.mark.requirement("S3")
async def test_an_expired_key_counts_no_more(tmp_path: Path) -> None:
    async with open_auth_server(tmp_path) as server:
        brief = await server.caller("viewer", lifetime_ms=1)
        lasting = await server.caller("viewer", lifetime_ms=3_600_000)
        assert (await lasting.get("/api/threads")).status_code == 200
        assert (await brief.get("/api/threads")).status_code == 401


@pytest.mark.requirement("S3", "S20", "G21")
async def test_a_secret_is_shown_once_and_stored_nowhere(tmp_path: Path) -> None:
    async with open_auth_server(tmp_path) as server:
        admin = await server.caller("admin")
        made = (await admin.post("/api/keys", json={"name": "ci", "scopes": ["runs:*"], "expiresInDays": 1})).json()
        assert made["key"].startswith("hf_")
        listed = (await admin.get("/api/keys")).json()["items"]
        assert made["id"] in {key["id"] for key in listed}
        assert all("key" not in key and "digest" not in key for key in listed)
        created = [payload for type, payload in await server.ledger() if type == "runtime.key.created"]
        assert created[-1] | {"expiresAt": None} == {
            "keyId": made["id"], "name": "ci", "roles": [], "scopes": ["runs:*"], "expiresAt": None
        }  # fmt: skip
        await server.client(bearer(made["key"])).post("/api/runs", json={"agent": "echo", "input": "x"})
    for file in (tmp_path / "data").rglob("*"):
        assert not file.is_file() or made["key"].encode() not in file.read_bytes(), file


@pytest.mark.requirement("PX-7", "S5")
async def test_nobody_grants_what_they_may_not_do(tmp_path: Path) -> None:
    async with open_auth_server(tmp_path) as server:
        admin, member = await server.caller("admin"), await server.caller("member")
        beyond: list[dict[str, object]] = [
            {"name": "x", "roles": ["system"]},
            {"name": "x", "scopes": ["tenants:manage"]},
            {"name": "x", "roles": ["viewer"], "tenant": "other"},
        ]
        for body in beyond:
            answer = await admin.post("/api/keys", json=body)
            assert (answer.status_code, answer.json()["error"]["needs"]) == (403, "tenants:manage")
        assert (await member.post("/api/keys", json={"name": "x", "roles": ["viewer"]})).status_code == 403
        wrong: list[dict[str, object]] = [
            {"name": "x", "roles": ["king"]},
            {"name": "x"},
            {"name": "", "roles": ["viewer"]},
        ]
        for body in wrong:
            assert (await admin.post("/api/keys", json=body)).status_code == 400


@pytest.mark.requirement("PX-7")
async def test_the_system_role_makes_keys_for_any_tenant(tmp_path: Path) -> None:
    async with open_auth_server(tmp_path) as server:
        system = await server.caller("system")
        made = (await system.post("/api/keys", json={"name": "x", "roles": ["admin"], "tenant": "acme"})).json()
        theirs = server.client(bearer(made["key"]))
        assert [key["tenant"] for key in (await theirs.get("/api/keys")).json()["items"]] == ["acme"]
        assert (await theirs.get("/api/keys", params={"tenant": "default"})).status_code == 403
        assert (await system.delete(f"/api/keys/{made['id']}")).status_code == 404
        assert (await system.delete(f"/api/keys/{made['id']}", params={"tenant": "acme"})).status_code == 200


ROLES: Final[dict[str, set[str]]] = {
    "viewer": {"read"},
    "member": {"read", "submit"},
    "operator": {"read", "submit", "metrics"},
    "admin": {"read", "submit", "metrics", "reload"},
    "owner": {"read", "submit", "metrics", "reload"},
    "system": {"read", "submit", "metrics", "reload"},
}


@pytest.mark.requirement("S5", "S24")
async def test_a_role_allows_what_the_table_says(tmp_path: Path) -> None:
    async with open_auth_server(tmp_path) as server:
        for role, allowed in ROLES.items():
            client = await server.caller(role)
            answers = {
                "read": await client.get("/api/threads"),
                "submit": await client.post("/api/runs", json={"agent": "echo", "input": "x"}),
                "metrics": await client.get("/metrics"),
                "reload": await client.post("/api/workspace/reload"),
            }
            assert {name for name, answer in answers.items() if answer.status_code < 300} == allowed, role
            for name in answers.keys() - allowed:
                refused = answers[name]
                assert (refused.status_code, refused.json()["error"]["code"]) == (403, "FORBIDDEN")


@pytest.mark.requirement("S3")
async def test_the_first_key_comes_from_a_file_or_is_written_there(tmp_path: Path) -> None:
    file = tmp_path / "admin.key"
    async with open_auth_server(tmp_path, admin_key_file=file) as server:
        secret = file.read_text().strip()
        assert stat.S_IMODE(file.stat().st_mode) == 0o600
        assert (await server.client(bearer(secret)).get("/api/keys")).status_code == 200
    async with open_auth_server(tmp_path, admin_key_file=file) as server:
        keys = (await server.client(bearer(secret)).get("/api/keys")).json()["items"]
        assert [key["name"] for key in keys] == ["first admin key"]
    mine = tmp_path / "mine.key"
    mine.write_text("a-secret-that-was-made-by-the-operator-0123456789\n")
    async with open_auth_server(tmp_path, admin_key_file=mine) as server:
        assert (await server.client(bearer(mine.read_text().strip())).get("/api/keys")).status_code == 200


@pytest.mark.requirement("S1", "S3")
@pytest.mark.parametrize("content", ["", "short", "has spaces in it and is long enough to be a key"])
async def test_a_first_key_that_is_none_stops_the_start(tmp_path: Path, content: str) -> None:
    file = tmp_path / "admin.key"
    file.write_text(content)
    with pytest.raises(SettingsError, match="HOLDFAST_ADMIN_KEY_FILE"):
        async with open_auth_server(tmp_path, admin_key_file=file):
            pass


async def test_a_first_key_that_cannot_be_written_stops_the_start(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="HOLDFAST_ADMIN_KEY_FILE"):
        async with open_auth_server(tmp_path, admin_key_file=tmp_path / "no" / "folder"):
            pass
    assert not (tmp_path / "no").exists()


@pytest.mark.requirement("S20")
async def test_those_who_were_turned_away_are_in_the_ledger_counted(tmp_path: Path) -> None:
    async with open_auth_server(tmp_path) as server:
        viewer = await server.caller("viewer", "acme")
        stranger = server.client()
        for _ in range(3):
            await stranger.get("/api/threads")
            await viewer.post("/api/runs", json={"agent": "echo", "input": "x"})
        await server.holdfast.access.denials.report()
        counted = [payload for type, payload in await server.ledger() if type == "runtime.access.denied"]
        assert [(denial["principal"], denial["code"]) for denial in counted] == [("peer:127.0.0.1", "no_credentials")]
        assert counted[0]["count"] == 3
        theirs = [payload for type, payload in await server.ledger("acme") if type == "runtime.access.denied"]
        assert [(denial["code"], denial["count"]) for denial in theirs] == [("forbidden runs:write", 3)]


@pytest.mark.requirement("S20")
async def test_who_asked_for_a_reload_or_changed_a_key_is_in_the_ledger(tmp_path: Path) -> None:
    async with open_auth_server(tmp_path) as server:
        admin = await server.caller("admin", "acme")
        made = (await admin.post("/api/keys", json={"name": "x", "roles": ["viewer"]})).json()
        await admin.delete(f"/api/keys/{made['id']}")
        await admin.post("/api/workspace/reload")
        events = await server.holdfast.store.reader.events("acme", "sys_ledger", 0, 100)
        mine = [event.type for event in events if event.actor == made["createdBy"]]
        assert mine == ["runtime.key.created", "runtime.key.revoked", "runtime.workspace.reload.requested"]


@pytest.mark.requirement("S20", "G13")
async def test_however_many_knock_the_count_stays_bounded(tmp_path: Path) -> None:
    async with open_auth_server(tmp_path) as server:
        denials = server.holdfast.access.denials
        for number in range(5_000):
            denials.count(None, f"peer:{number}", "unknown_key")
        assert len(denials) <= 202


async def test_the_ledger_is_for_auditors(tmp_path: Path) -> None:
    async with open_auth_server(tmp_path) as server:
        member, operator = await server.caller("member"), await server.caller("operator")
        for path in ("/api/threads/sys_ledger", "/api/threads/sys_ledger/events", "/api/threads/sys_ledger/export"):
            answers: list[httpx2.Response] = [await member.get(path), await operator.get(path)]
            assert [answer.status_code for answer in answers] == [403, 200]
