"""Passes of events through extensions that are interrupted, shared by servers, or come from an installed package."""

import asyncio
import shutil
import sys
from collections.abc import Awaitable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any, Final

import httpx2
import pytest

from app.core import json
from app.core.settings import Settings
from app.events.catalog.extension import ExtensionHandled
from app.events.ports import Answer, StoreError
from app.events.recorder import Recorder, Scope
from tests.clients import create_session, reached, say
from tests.scenarios.test_extending import install
from tests.server import ROOT, ServerProcess, in_process

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the sandbox is Linux's")

EXAMPLE: Final = ROOT / "workspaces" / "supervised"


async def _events(client: httpx2.AsyncClient, thread: str, kind: str) -> list[dict[str, Any]]:
    answer = await client.get(f"/api/threads/{thread}/events", params={"type": kind, "limit": "100"})
    items: list[dict[str, Any]] = answer.json()["items"]
    return items


async def _until(client: httpx2.AsyncClient, thread: str, kind: str) -> list[dict[str, Any]]:
    async with asyncio.timeout(60):
        while not (found := await _events(client, thread, kind)):  # noqa: ASYNC110  # there is no event for it
            await asyncio.sleep(0.05)
    return found


def _request(action: str, **payload: Any) -> dict[str, Any]:
    return {"kind": "action_request", "actionType": action, "payload": payload}


class ForgetfulRecorder:
    """Fails to record that a pass was made, once: as if the server had died just before."""

    def __init__(self, recorder: Recorder) -> None:
        self._recorder, self.failed = recorder, False

    def record(self, scope: Scope, *entries: Any, **more: Any) -> Awaitable[Answer]:
        if not self.failed and any(isinstance(entry, ExtensionHandled) for entry in entries):
            self.failed = True
            raise StoreError("STORAGE_FULL", "there is no room")
        return self._recorder.record(scope, *entries, **more)


@pytest.mark.requirement("CM-9")
async def test_a_pass_that_is_made_again_repeats_no_action(settings: Settings, tmp_path: Path) -> None:
    workspace = tmp_path / "workspace"
    shutil.copytree(EXAMPLE, workspace)
    settings = settings.model_copy(update={"workspace": workspace})
    async with in_process(settings) as server, httpx2.AsyncClient(base_url=server.url, timeout=60) as client:
        registry = server.holdfast.extensions
        consumer = registry._consumer
        assert consumer is not None
        forgetful = consumer._recorder = ForgetfulRecorder(consumer._recorder)  # type: ignore[assignment]
        session = await create_session(client)
        turn = await say(client, session, "write the notes")
        [handled] = await _until(client, session, "runtime.extension.handled")
        assert forgetful.failed and handled["payload"]["results"][0]["status"] == "performed"
        rows = await _events(client, session, "runtime.transcript.upserted")
        assert [row["actor"] for row in rows].count("extension:supervisor") == 1
        # Each action, twice by the same answer of the same handler, and once by another answer.
        await reached(client, turn, "waiting")
        raised = (
            await server.holdfast.store.reader.events_of(
                "default", session, ("runtime.interrupt.raised",), 0, 2**62, 10
            )
        )[0]
        [extension] = registry.snapshot.extensions
        object.__setattr__(extension, "mode", "warn")
        steer = _request("turn.steer.create", input="Be brief.")
        job = _request("queue.enqueue", agent="writer", jobKind="review", instructionText="Say hello.", dedupeKey="k")
        for place in (0, 0, 1):
            done = await registry._actions.perform(extension, raised, steer, 1, place)
            assert done.status == "performed"
        assert len(await _events(client, session, "runtime.command.injected")) == 2
        first = await registry._actions.perform(extension, raised, job, 1, 2)
        assert first.status == "performed" and first.job is not None
        await reached(client, first.job["id"])
        again = await registry._actions.perform(extension, raised, job, 1, 2)
        assert again.status == "performed" and again.job is not None and again.job["id"] == first.job["id"]
        decide = _request("approval.decide", approvalId=raised.payload["interruptId"], decision="decline")
        for _ in range(2):
            assert (await registry._actions.perform(extension, raised, decide, 1, 3)).status == "performed"
        assert len(await _events(client, session, "runtime.interrupt.resolved")) == 1
        await reached(client, turn)


@pytest.mark.requirement("CM-8")
@pytest.mark.parametrize("settings", ["postgres"], indirect=True)
async def test_a_reload_reaches_every_server(settings: Settings, tmp_path: Path) -> None:
    """On one database the reload of one server has the others load their own files again, or keep their set."""
    async with AsyncExitStack() as opened:
        clients, folders, servers = [], [], []
        for name in ("one", "two"):
            folder = tmp_path / name
            shutil.copytree(EXAMPLE, folder)
            folders.append(folder / "extensions" / "supervisor" / "events.py")
            (tmp_path / f"data-{name}").mkdir()
            own = settings.model_copy(update={"workspace": folder, "data_dir": tmp_path / f"data-{name}"})
            server = await opened.enter_async_context(in_process(own))
            servers.append(server.holdfast)
            clients.append(await opened.enter_async_context(httpx2.AsyncClient(base_url=server.url, timeout=60)))
        async with asyncio.timeout(30):
            while servers[0].replicas is None or not servers[0].replicas.peers:  # noqa: ASYNC110  # there is no event for it
                await asyncio.sleep(0.05)
        assert (await clients[0].post("/api/agents/extensions/reload")).status_code == 200
        async with asyncio.timeout(30):
            while servers[1].extensions.snapshot.version != 2:  # noqa: ASYNC110  # there is no event for it
                await asyncio.sleep(0.05)
        folders[1].write_text("nonsense(")
        assert (await clients[0].post("/api/agents/extensions/reload")).status_code == 200
        async with asyncio.timeout(30):
            while True:
                audit = await _events(clients[0], "sys_ledger", "runtime.extension.reloaded")
                if [one["payload"]["result"] for one in audit].count("failed") == 1:
                    break
                await asyncio.sleep(0.05)
        shown = (await clients[1].get("/api/agents/extensions")).json()
        assert shown["snapshotVersion"] == 2 and len(shown["modules"]) == 1
        assert {one["actor"] for one in audit} == {"user:local", "system"}


@pytest.mark.requirement("CM-8")
async def test_an_installed_package_is_an_extension_by_its_entry_point(tmp_path: Path) -> None:
    variables = install(tmp_path / "site", {"holdfast.extensions": {"acme": "acme_extension"}}, "")
    package = tmp_path / "site" / "acme_extension"
    package.mkdir()
    (package / "__init__.py").write_text("raise RuntimeError('finding an extension imports nothing')")
    manifest = {"name": "acme", "version": "2.0.0", "agentId": "acme", "displayName": "Acme"}
    capabilities = {"events": ["runtime.request.completed"], "actions": []}
    (package / "extension.manifest.json").write_bytes(json.dumps(manifest | {"capabilities": capabilities}))
    (package / "events.py").write_text(
        "import os\n\n\ndef register(events):\n"
        '    events.on("runtime.request.completed", lambda event: {"server": os.getpid()})\n'
    )
    server = await asyncio.to_thread(ServerProcess.start, tmp_path / "data", None, EXAMPLE, variables)
    try:
        async with httpx2.AsyncClient(base_url=server.url, timeout=60, verify=False) as client:
            shown = {one["agentId"]: one for one in (await client.get("/api/agents/extensions")).json()["modules"]}
            assert set(shown) == {"acme", "supervisor"}
            assert shown["acme"]["origin"]["type"] == "installed_package"
            assert "runs in the server" in shown["acme"]["diagnostics"]
            session = await create_session(client)
            await reached(client, await say(client, session, "hello"))
            [handled] = await _until(client, session, "runtime.extension.handled")
            assert handled["payload"]["results"][0]["details"] == {"server": server.pid}
    finally:
        await asyncio.to_thread(server.stop)
