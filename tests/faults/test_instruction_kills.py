"""Instructions to agents whose server is killed again and again: every row that they were to fill ends."""

import asyncio
import random
import sys
from collections import Counter
from pathlib import Path
from typing import Any, Final

import httpx2
import pytest

from app.core import json
from app.core.settings import Settings
from tests.faults.conftest import Report
from tests.server import ServerProcess

pytestmark = [
    pytest.mark.requirement("CM-10"),
    pytest.mark.skipif(sys.platform != "linux", reason="the extension runs in the sandbox, which is Linux's"),
]

SEED: Final = 10
LATEST_KILL: Final = 1.5
"""Seconds after the messages: between the first turn's end and the last row's."""
SESSIONS: Final = 3
"""For each kill; one of them has a reviewer who cannot answer."""

WORKSPACE: Final = """apiVersion: holdfast/v1
kind: Runtime
metadata: {name: reviewed, description: Every turn is reviewed by a job.}
spec: {defaultAgent: echo}
---
apiVersion: holdfast/v1
kind: Agent
metadata: {name: echo, description: Says it again.}
spec: {backend: echo}
---
apiVersion: holdfast/v1
kind: Agent
metadata: {name: reviewer, description: Reviews.}
spec: {model: script, instructions: You review.}
---
apiVersion: holdfast/v1
kind: Model
metadata: {name: script, description: Follows a script.}
spec:
  provider: scripted
  model: script
  capabilities: {streaming: true}
  retry: {totalSeconds: 0}
  script:
    rules: [{match: {contains: bad}, reply: {text: x}, fail: {status: 400, message: no opinion}}]
    default: {text: Good work., delaySeconds: 0.3}
"""
EXTENSION: Final = """
def review(event):
    if event["threadId"].startswith("sys_"):
        return None
    row = {"type": "review", "placeholderTexts": ["Reviewing..."], "completeFallback": "Reviewed.",
           "errorFallback": "Not reviewed.", "canceledFallback": "Canceled."}
    job = {"agent": "reviewer", "jobKind": "review", "instructionText": "Review: " + str(event["payload"]["output"]),
           "expectResponse": "assistant_text",
           "supplementalTargets": [dict(row, messageId="a"), dict(row, messageId="b")]}
    return {"kind": "action_request", "actionType": "queue.enqueue", "payload": job}


def register(events):
    events.on("runtime.request.completed", review)
"""


def _make_workspace(folder: Path) -> Path:
    place = folder / "extensions" / "reviews"
    place.mkdir(parents=True)
    (folder / "holdfast.yaml").write_text(WORKSPACE)
    manifest = {"name": "reviews", "version": "1.0.0", "agentId": "reviews", "displayName": "Reviews",
                "capabilities": {"events": ["runtime.request.completed"], "actions": ["queue.enqueue"]}}  # fmt: skip
    (place / "extension.manifest.json").write_bytes(json.dumps(manifest))
    (place / "events.py").write_text(EXTENSION)
    return folder


async def _begin(client: httpx2.AsyncClient, round_: int) -> list[str]:
    sessions: list[str] = []
    for number in range(SESSIONS):
        session = (await client.post("/api/sessions", json={})).json()["session"]["sessionId"]
        text = f"{'bad' if number == 0 else 'good'} work {round_}"
        sent = await client.post(f"/api/sessions/{session}/messages", json={"text": text})
        assert sent.status_code == 202, sent.text
        sessions.append(session)
    return sessions


async def _ended_rows(client: httpx2.AsyncClient, session: str) -> dict[str, dict[str, Any]]:
    """The rows that jobs wrote, when all of them have ended and the job's own is there."""
    async with asyncio.timeout(180):
        while True:
            rows = (await client.get(f"/api/sessions/{session}")).json()["transcript"]
            own = {row["messageId"].split("::")[0]: row for row in rows if row["role"] == "system"}
            if set(own) == {"a", "b", "agent-job-output"} and "streaming" not in {
                one["status"] for one in own.values()
            }:
                return own
            await asyncio.sleep(0.1)


@pytest.mark.timeout(3000)
@pytest.mark.parametrize("kills", [2, pytest.param(25, marks=pytest.mark.faults)], ids="{}-kills".format)
async def test_every_row_of_an_instruction_ends_though_the_server_is_killed(
    settings: Settings, tmp_path: Path, kills: int, report: Report
) -> None:
    dice = random.Random(SEED)
    workspace = _make_workspace(tmp_path / "workspace")
    server = await asyncio.to_thread(ServerProcess.start, settings.data_dir, settings.database_url, workspace)
    bad: list[str] = []
    good: list[str] = []
    statuses = Counter[str]()
    try:
        for round_ in range(kills):
            async with httpx2.AsyncClient(base_url=server.url, timeout=60) as client:
                first, *others = await _begin(client, round_)
            bad.append(first)
            good += others
            # Not a wait for anything: the random moment is the fault itself.
            await asyncio.sleep(dice.uniform(0.0, LATEST_KILL))
            await asyncio.to_thread(server.kill)
            server = await asyncio.to_thread(server.again)
        async with httpx2.AsyncClient(base_url=server.url, timeout=60) as client:
            for session in good + bad:
                rows = await _ended_rows(client, session)
                status = rows["a"]["status"]
                statuses[status] += 1
                # A job whose attempts the kills used up ends in error, as one does whose agent fails.
                assert status == "error" if session in bad else status in ("complete", "error")
                for name in ("a", "b"):
                    content = rows[name]["content"]
                    assert rows[name]["status"] == status and rows[name]["completedAt"] > 0
                    assert content == "Reviewed." if status == "complete" else content.startswith("Not reviewed. (")
                assert rows["agent-job-output"]["status"] == status
                assert status == "error" or rows["agent-job-output"]["content"] == "Good work."
        report(f"{kills} kills; of {len(good) + len(bad)} jobs, {len(bad)} without an answer: {dict(statuses)}")
    finally:
        await asyncio.to_thread(server.stop)
