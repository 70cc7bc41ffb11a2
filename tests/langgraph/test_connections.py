"""Connections of LangGraph clients: signs of life while nothing happens, and a run whose client leaves."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

import httpx2
import pytest

from app.backends.contract import Context, Result, Resume
from app.core.settings import Settings
from app.protocols.langgraph.run_streams import HEARTBEAT, HEARTBEAT_SECONDS, SILENT_SECONDS
from tests.langgraph.frames import new_thread
from tests.scenarios.test_schedules import WORKSPACE
from tests.server import InProcessServer, in_process
from tests.waiting import until

pytestmark = pytest.mark.requirement("SH-22", "PX-5")

WITHIN: Final = 60.0
BODY: Final = {"assistant_id": "worker", "input": {"messages": "hello"}}


class Gate:
    """A run that works until the test lets it end."""

    kind = "native"
    resume: Resume = "replay"

    def __init__(self) -> None:
        self.open = asyncio.Event()

    async def run(self, ctx: Context) -> Result:
        await self.open.wait()
        return "done"


@asynccontextmanager
async def _serving(settings: Settings, folder: Path) -> AsyncIterator[tuple[InProcessServer, Gate, httpx2.AsyncClient]]:
    root = folder / "workspace"
    root.mkdir()
    (root / "all.yaml").write_text(WORKSPACE)
    settings, gate = settings.model_copy(update={"workspace": root}), Gate()
    async with (
        in_process(settings, {"native": gate}) as server,
        httpx2.AsyncClient(base_url=f"{server.url}/langgraph", timeout=WITHIN, verify=False) as client,
    ):
        yield server, gate, client


async def _sign_of_life(client: httpx2.AsyncClient, method: str, path: str, sign: bytes, **more: Any) -> float:
    """When the first one came."""
    begun, got = asyncio.get_running_loop().time(), b""
    async with client.stream(method, path, **more) as answer:
        assert answer.status_code == 200
        async for piece in answer.aiter_bytes():
            got += piece
            if got.endswith(sign) or got == b"\n":
                return asyncio.get_running_loop().time() - begun
    raise AssertionError(got)


async def test_whoever_waits_is_sent_a_sign_of_life_every_few_seconds(tmp_path: Path) -> None:
    """Proxies close what is silent for long, and SDKs take silence for a lost connection."""
    async with _serving(Settings(data_dir=tmp_path / "data"), tmp_path) as (_, gate, client), asyncio.timeout(WITHIN):
        thread = await new_thread(client)
        run = (await client.post(f"/threads/{thread}/runs", json=BODY)).json()["run_id"]
        place = f"/threads/{thread}/runs/{run}"
        after = await asyncio.gather(
            _sign_of_life(client, "GET", f"{place}/stream", HEARTBEAT),
            _sign_of_life(client, "GET", f"/threads/{thread}/stream", HEARTBEAT),
            _sign_of_life(client, "POST", f"/threads/{thread}/stream/events", HEARTBEAT, json={"channels": ["tools"]}),
            _sign_of_life(client, "GET", f"{place}/join", b"\n"),
        )
        # Not sooner than half of it; a busy machine may be late, the bound of which is the test's.
        assert HEARTBEAT_SECONDS == 5.0 and SILENT_SECONDS == 7.5
        assert min(after) > HEARTBEAT_SECONDS / 2, after
        gate.open.set()
        values = (await client.get(f"{place}/join")).json()
        assert values["messages"][-1]["content"] == "done"


async def _leave(server: InProcessServer, client: httpx2.AsyncClient, method: str, path: str, body: Any) -> str:
    """Asks, and leaves as soon as the answer has begun; the run's id."""
    async with client.stream(method, path, json=body) as answer:
        assert answer.status_code == 200
        named: str = answer.headers["content-location"].rpartition("/")[2]
        if path.endswith("stream"):
            await anext(answer.aiter_bytes())
    await until(lambda: len(server.holdfast.store.hub) == 0, WITHIN)
    return named


async def test_a_run_goes_on_without_its_client_unless_it_was_to_be_cancelled(
    settings: Settings, tmp_path: Path
) -> None:
    async with _serving(settings, tmp_path) as (server, gate, client), asyncio.timeout(WITHIN):
        ways = [("POST", "stream", "cancel"), ("POST", "stream", "continue"), ("POST", "stream", None),
                ("POST", "wait", "cancel"), ("POST", "wait", "continue")]  # fmt: skip
        left: list[tuple[str, str, bool]] = []
        for method, what, leaving in ways:
            thread = await new_thread(client)
            body = BODY if leaving is None else {**BODY, "on_disconnect": leaving}
            run = await _leave(server, client, method, f"/threads/{thread}/runs/{what}", body)
            left.append((thread, run, leaving == "cancel"))
        for what, cancels in (("stream", True), ("join", True), ("stream", False)):
            thread = await new_thread(client)
            run = (await client.post(f"/threads/{thread}/runs", json=BODY)).json()["run_id"]
            query = f"?cancel_on_disconnect={int(cancels)}"
            await _leave(server, client, "GET", f"/threads/{thread}/runs/{run}/{what}{query}", None)
            left.append((thread, run, cancels))
        for thread, run, cancels in left:
            place = f"/threads/{thread}/runs/{run}"
            if cancels:  # the gate is closed: nothing else ends it
                await client.get(f"{place}/join")
            status = (await client.get(place)).json()["status"]
            assert status == ("interrupted" if cancels else "running"), (place, status)
        gate.open.set()
        for thread, run, cancels in left:
            values = (await client.get(f"/threads/{thread}/runs/{run}/join")).json()
            assert cancels or values["messages"][-1]["content"] == "done"
            status = (await client.get(f"/threads/{thread}/runs/{run}")).json()["status"]
            assert status == ("interrupted" if cancels else "success")
