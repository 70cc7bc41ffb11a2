"""Keys and clocks: what one server decides holds at the others."""

import asyncio
from pathlib import Path

import asyncpg
import httpx2
import pytest

from app.bus import replicas
from app.core import clock
from app.core.settings import Settings
from app.protocols.auth import keyring
from app.protocols.edge.limits import Rates
from app.wiring.replicas import share_rates
from app.workspace.catalog import KindCatalog
from tests.bus.conftest import team
from tests.bus.pace import Paced
from tests.clients import reached, submit
from tests.server import InProcessServer
from tests.waiting import until

HOUR_MS = 3_600_000


@pytest.mark.requirement("PX-4")
@pytest.mark.usefixtures("no_polls")
async def test_a_key_that_is_revoked_at_one_server_is_refused_by_the_others(
    on_bus: Settings, pace: Paced, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(keyring, "REMEMBER_SECONDS", 3600.0)
    settings = on_bus.model_copy(update={"auth": "keys", "admin_key_file": tmp_path / "admin"})
    async with team(settings, 2, pace) as (first, second):
        admin = {"authorization": f"Bearer {(tmp_path / 'admin').read_text().strip()}"}
        async with httpx2.AsyncClient(headers=admin) as client:
            made = (await client.post(f"{first.url}/api/keys", json={"name": "ci", "roles": ["operator"]})).json()
            key = {"authorization": f"Bearer {made['key']}"}
            assert (await client.get(f"{second.url}/api/runs", headers=key)).status_code == 200
            assert (await client.delete(f"{first.url}/api/keys/{made['id']}")).status_code == 200

            async def refused() -> None:
                while (await client.get(f"{second.url}/api/runs", headers=key)).status_code != 401:  # noqa: ASYNC110
                    await asyncio.sleep(0.01)  # a message on its way is nothing to await

            await asyncio.wait_for(refused(), 30)


@pytest.mark.requirement("G11")
async def test_without_a_bus_a_revoked_key_is_refused_after_a_poll(
    shared: Settings, pace: Paced, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(replicas, "POLL_SECONDS", 0.3)
    monkeypatch.setattr(replicas, "BEAT_SECONDS", 0.1)
    settings = shared.model_copy(update={"auth": "keys", "admin_key_file": tmp_path / "admin", "bus": "local"})
    async with team(settings, 1, pace) as (server,):
        remembered = server.holdfast.access
        admin = {"authorization": f"Bearer {(tmp_path / 'admin').read_text().strip()}"}
        async with httpx2.AsyncClient(headers=admin) as client:
            assert (await client.get(f"{server.url}/api/runs")).status_code == 200
        await until(lambda: remembered.keys_remembered == 0)


class _Ahead(clock.SystemClock):
    def now_ms(self) -> int:
        return super().now_ms() + HOUR_MS


@pytest.mark.requirement("G18")
async def test_servers_an_hour_apart_go_by_the_clock_of_the_database(
    on_bus: Settings, pace: Paced, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with team(on_bus, 1, pace) as (first,):
        monkeypatch.setattr(clock, "SystemClock", _Ahead)
        async with team(on_bus, 1, pace) as (second,):
            assert abs(_Ahead().now_ms() - first.holdfast.clock.now_ms()) > HOUR_MS / 2
            apart = second.holdfast.clock.now_ms() - first.holdfast.clock.now_ms()
            assert abs(apart) < 60_000
            async with httpx2.AsyncClient(base_url=second.url) as client:
                pace.step(4)
                runs = [await submit(client, "echo", "2", 10), await submit(client, "echo", "2", 10)]
            assert [run["status"] for run in runs] == ["completed", "completed"]
            events = await first.holdfast.store.reader.events("default", runs[0]["threadId"], 0, 100)
            assert all(abs(event.at - first.holdfast.clock.now_ms()) < 60_000 for event in events)
            await _assert_leases_and_expiries_by_the_database(on_bus, second, pace)


async def _assert_leases_and_expiries_by_the_database(settings: Settings, ahead: InProcessServer, pace: Paced) -> None:
    """Neither is an hour too long nor over already, although the server that made them is an hour ahead."""
    assert settings.database_url is not None
    async with httpx2.AsyncClient(base_url=ahead.url) as client:
        body, key = {"agent": "echo", "input": "1"}, {"idempotency-key": "an hour ahead"}
        run = (await client.post("/api/runs", json=body, headers=key)).json()
        while await pace.entered.get() != run["id"]:
            pass
        connection = await asyncpg.connect(settings.database_url)
        now = "CAST(extract(epoch FROM clock_timestamp()) * 1000 AS bigint)"
        left = await connection.fetchval(f"SELECT until - {now} FROM leases WHERE run_id = $1", run["id"])
        expiry = await connection.fetchval(
            f"SELECT expires_at - {now} FROM idempotency_keys WHERE run_id = $1", run["id"]
        )
        await connection.close()
        assert -5_000 < left <= settings.lease_seconds * 1000
        assert abs(expiry - 24 * HOUR_MS) < 60_000
        pace.step()
        assert (await reached(client, run["id"]))["status"] == "completed"


_RUNTIME = """
apiVersion: holdfast/v1
kind: Runtime
metadata: {name: shared}
spec: {defaultAgent: echo}
---"""
_AGENT = """
apiVersion: holdfast/v1
kind: Agent
metadata: {name: %s}
spec: {backend: echo}
"""


async def _agents(server: InProcessServer) -> list[str]:
    async with httpx2.AsyncClient(base_url=server.url) as client:
        names: list[str] = (await client.get("/api/workspace")).json()["agents"]
        return names


@pytest.mark.requirement("PX-4")
@pytest.mark.usefixtures("no_polls")
async def test_a_workspace_that_one_server_loads_is_in_force_at_all_of_them(
    on_bus: Settings, pace: Paced, tmp_path: Path
) -> None:
    folders = [tmp_path / name for name in ("one", "two")]
    for folder in folders:
        folder.mkdir()
        (folder / "agents.yaml").write_text(_RUNTIME + _AGENT % "echo")
    settings = [on_bus.model_copy(update={"workspace": folder}) for folder in folders]
    async with team(settings[0], 1, pace) as (first,), team(settings[1], 1, pace) as (second,):
        replicas_of = [one.holdfast.replicas for one in (first, second)]
        await until(lambda: all(one is not None and one.peers for one in replicas_of))
        (folders[0] / "more.yaml").write_text(_AGENT % "other")
        async with httpx2.AsyncClient(base_url=first.url) as client:
            assert (await client.post("/api/workspace/reload")).status_code == 200
        await until(lambda: "other" in second.holdfast.workspace.current.agents)
        assert await _agents(second) == await _agents(first)
        # Its own folder has not changed: reading it again is no reason to go back.
        async with httpx2.AsyncClient(base_url=second.url) as client:
            assert (await client.post("/api/workspace/reload")).status_code == 200
        assert "other" in await _agents(second)


@pytest.mark.usefixtures("no_polls")
async def test_a_server_that_cannot_load_the_workspace_in_force_takes_no_new_runs(
    on_bus: Settings, pace: Paced, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    folder = tmp_path / "files"
    folder.mkdir()
    (folder / "agents.yaml").write_text(_RUNTIME + _AGENT % "echo")
    settings = on_bus.model_copy(update={"workspace": folder})
    async with team(settings, 2, pace) as (first, second):
        second.holdfast.history._catalog = KindCatalog()  # as if the packages that it needs were not installed there
        (folder / "more.yaml").write_text(_AGENT % "other")
        monkeypatch.setattr(second.holdfast.workspace, "reload", _no_reload)
        await first.holdfast.workspace.reload()
        await until(lambda: second.holdfast.workspace.unavailable is not None)
        async with httpx2.AsyncClient(base_url=second.url) as client:
            ready = await client.get("/readyz")
            assert (ready.status_code, ready.json()["code"]) == (503, "WORKSPACE_UNAVAILABLE")
            refused = await client.post("/api/runs", json={"agent": "echo", "input": "0"})
            assert (refused.status_code, refused.json()["error"]["code"]) == (503, "WORKSPACE_UNAVAILABLE")
        async with httpx2.AsyncClient(base_url=first.url) as client:
            assert (await submit(client, "other", "0", 10))["status"] == "completed"


async def _no_reload() -> None:
    """The files of this server do not change."""


async def _both_count(settings: Settings, pace: Paced) -> None:
    """A caller that used up its limit at one server has used it up at the other, where it made three requests."""
    standing = clock.ManualClock()  # nothing fills up meanwhile
    limits = [Rates(100, standing), Rates(100, standing)]
    async with team(settings, 2, pace) as servers:
        for server, rates in zip(servers, limits, strict=True):
            share_rates(server.holdfast.replicas, rates)
        caller, other = ("default", "key_1"), ("default", "key_2")
        for _ in range(3):
            assert limits[1].take(caller) == 0
        if servers[0].holdfast.replicas is not None and servers[0].holdfast.replicas.lost:
            await _polled_again(servers)
        while not limits[0].take(caller):
            pass
        await until(lambda: limits[1]._buckets[caller][0] < 1)
        assert limits[1].take(caller) > 0
        assert limits[1].take(other) == 0


async def _polled_again(servers: list[InProcessServer]) -> None:
    """Each of them, from the beginning to the end of a poll."""
    for server in servers:
        replicas_of = server.holdfast.replicas
        assert replicas_of is not None
        before = replicas_of.polls
        await until(lambda one=replicas_of, before=before: one.polls >= before + 2)  # type: ignore[misc]


@pytest.mark.requirement("PX-4")
async def test_what_a_caller_uses_at_one_server_counts_at_the_others(on_bus: Settings, pace: Paced) -> None:
    await _both_count(on_bus, pace)


@pytest.mark.requirement("G11", "PX-4")
async def test_without_a_bus_what_a_caller_uses_is_found_in_the_database(
    shared: Settings, pace: Paced, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(replicas, "POLL_SECONDS", 0.3)
    monkeypatch.setattr(replicas, "BEAT_SECONDS", 0.1)
    await _both_count(shared.model_copy(update={"bus": "local"}), pace)
