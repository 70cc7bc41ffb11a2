"""Reruns over HTTP: by token, strictly or compatibly."""

from pathlib import Path

import httpx2
import pytest

from app.core.settings import Settings
from tests.clients import reached
from tests.server import in_process


@pytest.mark.requirement("HK-27", "PX-9")
async def test_a_run_is_repeated_by_its_token_on_a_thread_of_its_own(settings: Settings) -> None:
    async with in_process(settings) as server, httpx2.AsyncClient(base_url=server.url, timeout=60) as client:
        first = (await client.post("/api/runs", params={"wait": 30}, json={"agent": "echo", "input": "hi"})).json()
        token = (await client.get(f"/api/runs/{first['id']}/replay-token")).json()["token"]
        answer = await client.post(f"/api/runs/{first['id']}/rerun", json={"token": token})
        again = answer.json()
        assert (answer.status_code, again["rerunOf"], again["input"]) == (202, first["id"], "hi")
        assert again["threadId"] != first["threadId"]
        thread = (await client.get(f"/api/threads/{again['threadId']}")).json()
        assert thread["forkedFrom"]["threadId"] == first["threadId"]
        refused = await client.post(f"/api/runs/{first['id']}/rerun", json={"token": "rt2_nonsense"})
        assert (refused.status_code, refused.json()["error"]["code"]) == (400, "REPLAY_TOKEN_INVALID")


_MODEL = """
---
apiVersion: holdfast/v1
kind: Model
metadata: {{name: {name}}}
spec:
  provider: scripted
  model: {name}
  capabilities: {{streaming: true, {more}}}
  script: {{default: {{text: "I am {name}."}}}}
"""
_AGENT = """\
apiVersion: holdfast/v1
kind: Runtime
metadata: {{name: models}}
spec: {{defaultAgent: a}}
---
apiVersion: holdfast/v1
kind: Agent
metadata: {{name: a}}
spec: {{modelPlan: {{primary: {model}, requiredCapabilities: [tools, input.image]}}}}
"""


@pytest.mark.requirement("HK-27")
async def test_a_compatible_rerun_takes_the_nearest_capable_model_and_says_what_differs(
    settings: Settings, tmp_path: Path
) -> None:
    root = tmp_path / "workspace"
    root.mkdir()
    able = "tools: true, input: [text, image]"
    (root / "all.yaml").write_text(_AGENT.format(model="old") + _MODEL.format(name="old", more=able))
    settings = settings.model_copy(update={"workspace": root, "data_dir": tmp_path})
    async with in_process(settings) as server, httpx2.AsyncClient(base_url=server.url, timeout=60) as client:
        body = {"input": "hi", "modelPlan": "old"}
        first = (await client.post("/api/runs", params={"wait": 30}, json=body)).json()
        assert first["output"] == "I am old."
        given = (await client.get(f"/api/runs/{first['id']}/replay-token")).json()
        assert given["createdAt"].endswith("Z")
    models = {
        "blind": "tools: true",
        "near": f"{able}, reasoning: true",
        "far": f"{able}, reasoning: true, parallelTools: true",
    }
    documents = "".join(_MODEL.format(name=name, more=more) for name, more in models.items())
    (root / "all.yaml").write_text(_AGENT.format(model="far") + documents)
    async with in_process(settings) as server, httpx2.AsyncClient(base_url=server.url, timeout=60) as client:
        address, token = f"/api/runs/{first['id']}/rerun", given["token"]
        strict = (await client.post(address, json={"token": token})).json()["error"]
        assert strict["code"] == "REPLAY_MISMATCH" and "provider" in strict["message"]
        again = (await client.post(address, json={"token": token, "mode": "compat"})).json()
        event = (await client.get(f"/api/runs/{again['id']}/events", params={"limit": 1})).json()["items"][0]
        assert event["payload"]["replayDiffers"] == {
            "differs": ["provider", "runtime"],
            "model": {"recorded": "old", "model": "near", "lacks": [], "adds": ["reasoning"]},
        }
        assert (await reached(client, again["id"]))["output"] == "I am near."
    (root / "all.yaml").write_text(
        _AGENT.format(model="far").replace(", input.image", "") + _MODEL.format(name="far", more="tools: true")
    )
    async with in_process(settings) as server, httpx2.AsyncClient(base_url=server.url, timeout=60) as client:
        nobody = await client.post(address, json={"token": token, "mode": "compat"})
        assert (nobody.status_code, nobody.json()["error"]["code"]) == (409, "REPLAY_MISMATCH")
        assert "input.image" in nobody.json()["error"]["message"]
