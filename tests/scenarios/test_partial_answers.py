"""An answer that was cut off: kept in the run's output, and in the conversation where the agent says so."""

from pathlib import Path

import httpx2
import pytest

from app.core.settings import Settings
from tests.clients import reached
from tests.server import in_process

WORKSPACE = """\
apiVersion: holdfast/v1
kind: Runtime
metadata: {name: cut}
spec: {defaultAgent: keeps}
---
apiVersion: holdfast/v1
kind: Model
metadata: {name: script}
spec:
  provider: scripted
  model: script
  capabilities: {streaming: true}
  retry: {attempts: 1, totalSeconds: 0}
  script:
    rules:
      - match: {contains: wait}
        reply: {chunks: [one, " two", " three"]}
        fail: {kind: timeout, afterChunks: 1}
      - match: {contains: break}
        reply: {chunks: [half, " an", " answer"]}
        fail: {kind: midStream, afterChunks: 2}
    default: {text: "fine"}
---
apiVersion: holdfast/v1
kind: Agent
metadata: {name: keeps}
spec: {model: script, partialAnswers: keep}
---
apiVersion: holdfast/v1
kind: Agent
metadata: {name: drops}
spec: {model: script}
"""


@pytest.mark.requirement("HK-13", "SH-15")
@pytest.mark.parametrize("agent", ["keeps", "drops"])
async def test_a_cut_off_answer_is_in_the_output_and_in_the_messages_by_policy(
    settings: Settings, tmp_path: Path, agent: str
) -> None:
    root = tmp_path / "workspace"
    root.mkdir()
    (root / "workspace.yaml").write_text(WORKSPACE)
    settings = settings.model_copy(update={"workspace": root, "data_dir": tmp_path})
    async with in_process(settings) as server, httpx2.AsyncClient(base_url=server.url, timeout=60) as client:
        waits = (await client.post("/api/runs", json={"agent": agent, "input": "wait"})).json()
        async with client.stream("GET", f"/api/runs/{waits['id']}/stream") as stream:
            async for line in stream.aiter_lines():
                if "agent.output.delta" in line:
                    break
        await client.post(f"/api/runs/{waits['id']}/cancel")
        cancelled = await reached(client, waits["id"])
        assert (cancelled["status"], cancelled["output"]) == ("cancelled", "one")
        body = {"agent": agent, "input": "break", "threadId": waits["threadId"]}
        failed = (await client.post("/api/runs", params={"wait": 20}, json=body)).json()
        assert (failed["status"], failed["output"]) == ("failed", "half an"), failed
        messages = (await client.get(f"/api/threads/{waits['threadId']}/messages")).json()["items"]
        said = [message["content"] for message in messages if message["role"] == "assistant"]
        kept = [
            "one\n\n[The answer ends here: the run was cancelled.]",
            "half an\n\n[The answer ends here: the run failed.]",
        ]
        assert said == (kept if agent == "keeps" else [])
        transcript = (await client.get(f"/api/threads/{waits['threadId']}/transcript")).json()["items"]
        assert [entry["details"] for entry in transcript if entry["type"] == "error"] == ["half an"]
