"""`holdfast keys`: on a stopped server it works on the database, on a running one it asks with a key."""

import asyncio
import stat
from pathlib import Path

import httpx2
import pytest

from app.core import json
from app.core.keys import id_of
from app.core.settings import Settings
from app.store.keys import StoredKeys
from app.wiring.runtime import open_holdfast
from app.wiring.store import open_store
from tests.cli.conftest import Holdfast
from tests.protocols.auth.auth_server import bearer, open_auth_server
from tests.server import ServerProcess


@pytest.mark.requirement("S3", "S20")
def test_keys_are_made_listed_and_revoked_on_a_stopped_server(holdfast: Holdfast, place: list[str]) -> None:
    made = holdfast("keys", "create", "ci", "--role", "member", "--scope", "metrics:read", "--tenant", "acme", *place)
    assert made.exit_code == 0, made.output
    secret = made.stdout.strip()
    assert secret.startswith("hf_")
    (listed,) = [json.loads(line) for line in holdfast("keys", "list", "--tenant", "acme", *place).stdout.splitlines()]
    assert (listed["id"], listed["roles"], listed["revokedAt"]) == (id_of(secret), ["member"], None)
    assert secret not in json.dumps(listed).decode()
    assert holdfast("keys", "revoke", listed["id"], *place).exit_code == 1  # not the default tenant's
    revoked = holdfast("keys", "revoke", listed["id"], "--tenant", "acme", *place)
    assert revoked.exit_code == 0, revoked.output
    again = json.loads(holdfast("keys", "list", "--tenant", "acme", *place).stdout)
    assert again["revokedAt"] is not None


@pytest.mark.parametrize(
    "wrong", [["--role", "king"], ["--scope", "runs"], [], ["--role", "admin", "--tenant", "a b"]], ids=str
)
def test_a_key_that_makes_no_sense_is_refused(holdfast: Holdfast, data_dir: Path, wrong: list[str]) -> None:
    refused = holdfast("keys", "create", "x", *wrong, "--data-dir", data_dir)
    assert (refused.exit_code, refused.stdout) == (1, "")
    assert "INVALID_REQUEST" in refused.output


async def test_on_a_running_server_they_are_asked_of_it_with_a_key(
    holdfast: Holdfast, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with open_auth_server(tmp_path) as server:
        monkeypatch.setenv("HOLDFAST_URL", server.url)
        refused = await asyncio.to_thread(holdfast, "keys", "list")
        assert (refused.exit_code, "UNAUTHENTICATED" in refused.output) == (1, True)
        monkeypatch.setenv("HOLDFAST_API_KEY", await server.key("system"))
        made = await asyncio.to_thread(holdfast, "keys", "create", "ci", "--role", "viewer", "--tenant", "acme")
        # The server is in this process, and logs to the same place.
        (secret,) = [line for line in made.stdout.splitlines() if line.startswith("hf_")]
        client = server.client({"authorization": f"Bearer {secret}"})
        assert (await client.get("/api/threads")).status_code == 200
        listed = await asyncio.to_thread(holdfast, "keys", "list", "--tenant", "acme")
        (found,) = [json.loads(line) for line in listed.stdout.splitlines() if line.startswith("{")]
        assert found["id"] == id_of(secret)
        revoked = await asyncio.to_thread(holdfast, "keys", "revoke", id_of(secret), "--tenant", "acme")
        assert revoked.exit_code == 0, revoked.output
        assert (await client.get("/api/threads")).status_code == 401


@pytest.mark.requirement("S3")
async def test_a_key_and_its_entry_in_the_ledger_are_one_commit_on_both_databases(settings: Settings) -> None:
    keyed = settings.model_copy(update={"auth": "keys", "admin_key_file": settings.data_dir / "admin.key"})
    async with open_holdfast(keyed) as holdfast:
        (first,) = await holdfast.keys.list("default")
        revoked = await holdfast.keys.revoke("default", first.id, "user:test")
        assert revoked == await holdfast.keys.revoke("default", first.id, "user:other")
    async with open_store(settings) as store:
        found = await StoredKeys(store.database).find(first.id)
        assert found is not None
        assert found.revoked_at is not None
        types = [event.type for event in await store.reader.events("default", "sys_ledger", 0, 100)]
        assert [type for type in types if ".key." in type] == ["runtime.key.created", "runtime.key.revoked"]


@pytest.mark.requirement("S3")
def test_keys_create_next_to_a_running_server_makes_the_first_key(
    tmp_path: Path, holdfast: Holdfast, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = ServerProcess.start(tmp_path, variables={"HOLDFAST_AUTH": "keys"})
    try:
        token = tmp_path / "bootstrap-token"
        assert stat.S_IMODE(token.stat().st_mode) == 0o600
        made = holdfast("keys", "create", "me", "--role", "admin", "--data-dir", str(tmp_path))
        assert made.exit_code == 0, made.output
        secret = made.stdout.strip().splitlines()[-1]
        assert httpx2.get(f"{server.url}/api/runs", headers=bearer(secret)).status_code == 200
        assert not token.exists()
        refused = holdfast("keys", "create", "you", "--role", "admin", "--data-dir", str(tmp_path))
        assert refused.exit_code != 0
        monkeypatch.setenv("HOLDFAST_API_KEY", secret)
        other = holdfast("keys", "create", "x", "--role", "member", "--tenant", "acme", "--data-dir", str(tmp_path))
        assert other.exit_code == 1 and "it needs the scope tenants:manage" in other.output, other.output
    finally:
        server.stop()
