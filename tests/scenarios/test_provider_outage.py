"""A provider that goes away for a while: runs wait for it and say so, others go on, and a cancel ends the waiting."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests.clients import TERMINAL, reached, submit
from tests.models.fakes.openai import OpenAiSpeaker
from tests.models.fakes.server import Answer, Fake, Status, running
from tests.server import ServerProcess

WORKSPACE = """\
apiVersion: holdfast/v1
kind: Runtime
metadata: {name: outage}
spec: {defaultAgent: asking, env: [FAKE_KEY]}
---
apiVersion: holdfast/v1
kind: Model
metadata: {name: far}
spec:
  provider: openai
  model: test-model
  baseUrl: BASE/v1
  apiKey: ${env:FAKE_KEY}
  retry: {attempts: 2, initialDelaySeconds: 0.05, maxDelaySeconds: 0.2}
  breaker: {failures: 3, openSeconds: OPEN}
---
apiVersion: holdfast/v1
kind: Model
metadata: {name: near}
spec: {provider: scripted, model: script}
---
apiVersion: holdfast/v1
kind: Agent
metadata: {name: asking}
spec: {backend: native, modelPlan: {primary: far}, instructions: Be brief.}
---
apiVersion: holdfast/v1
kind: Agent
metadata: {name: local}
spec: {backend: native, modelPlan: {primary: near}, instructions: Be brief.}
"""


@pytest.fixture
async def fake() -> AsyncIterator[Fake]:
    async with running(OpenAiSpeaker()) as fake:
        yield fake


async def start(tmp_path: Path, fake: Fake, open_seconds: float, **variables: str) -> ServerProcess:
    folder = tmp_path / "workspace"
    folder.mkdir()
    (folder / "workspace.yaml").write_text(WORKSPACE.replace("BASE", fake.url).replace("OPEN", str(open_seconds)))
    given = {"FAKE_KEY": fake.speaker.key_header[1].removeprefix("Bearer "), **variables}
    return await asyncio.to_thread(ServerProcess.start, tmp_path / "data", None, folder, given)


async def events(client: httpx2.AsyncClient, run: dict[str, Any], kind: str) -> list[dict[str, Any]]:
    answer = await client.get(f"/api/threads/{run['threadId']}/events", params={"limit": 1000})
    found = [event for event in answer.json()["items"] if event["type"] == kind and event["runId"] == run["id"]]
    return [event["payload"] for event in found]


async def until_waiting(client: httpx2.AsyncClient, run: dict[str, Any]) -> dict[str, Any]:
    async with asyncio.timeout(30):
        while True:
            waits = await events(client, run, "runtime.model.retry.scheduled")
            for wait in waits:
                if wait.get("waitsFor") == "breaker":
                    return wait
            await asyncio.sleep(0.02)


@pytest.mark.requirement("HK-14")
async def test_runs_survive_a_provider_that_goes_away_and_comes_back(tmp_path: Path, fake: Fake) -> None:
    server = await start(tmp_path, fake, 1.0)
    try:
        async with httpx2.AsyncClient(base_url=server.url, timeout=60) as client:
            await fake.stop()
            runs = [await submit(client, "asking", "Hi") for _ in range(6)]
            await until_waiting(client, runs[-1])
            await fake.start_again()
            outcomes = [await reached(client, run["id"], "waiting", *TERMINAL) for run in runs]
            assert [(run["status"], run["output"]) for run in outcomes] == [("completed", "Hello, world")] * 6
    finally:
        await asyncio.to_thread(server.stop)


async def test_runs_that_wait_for_a_provider_keep_no_place_and_can_be_cancelled(tmp_path: Path, fake: Fake) -> None:
    server = await start(tmp_path, fake, 60.0, HOLDFAST_MAX_CONCURRENT_RUNS="2")
    try:
        async with httpx2.AsyncClient(base_url=server.url, timeout=60) as client:
            fake.plays(Status(503))
            stuck = [await submit(client, "asking", "Hi") for _ in range(2)]
            for run in stuck:
                wait = await until_waiting(client, run)
                assert wait["reason"] == "PROVIDER_CIRCUIT_OPEN" and 50_000 < wait["delayMs"] <= 60_000
            assert (await submit(client, "local", "Hi", wait=30))["status"] == "completed", "the others go on"
            fake.plays(Answer())
            await client.post(f"/api/runs/{stuck[0]['id']}/cancel")
            assert (await reached(client, stuck[0]["id"], "waiting", *TERMINAL))["status"] == "cancelled"
    finally:
        await asyncio.to_thread(server.stop)


async def test_a_wrong_key_fails_a_run_at_once(tmp_path: Path, fake: Fake) -> None:
    server = await start(tmp_path, fake, 60.0)
    try:
        async with httpx2.AsyncClient(base_url=server.url, timeout=60) as client:
            fake.plays(Status(401))
            run = await submit(client, "asking", "Hi", wait=30)
            assert run["status"] == "failed" and run["error"]["causes"][0]["code"] == "PROVIDER_DENIED"
            assert len(fake.seen) == 1
    finally:
        await asyncio.to_thread(server.stop)
