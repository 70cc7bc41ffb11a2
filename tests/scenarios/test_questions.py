"""Questions of a native agent (`ask_user`): durable, answered over REST, the sessions API and the socket's clients."""

from pathlib import Path
from typing import Any

import httpx2
import pytest

from app.core.settings import Settings
from tests.clients import create_session, reached, say
from tests.server import in_process

WORKSPACE = """\
apiVersion: holdfast/v1
kind: Runtime
metadata: {name: asking}
spec: {defaultAgent: asker}
---
apiVersion: holdfast/v1
kind: Model
metadata: {name: script}
spec:
  provider: scripted
  model: script
  capabilities: {streaming: true, tools: true, input: [text, image]}
  script:
    rules:
      - {match: {contains: like this}, reply: {text: "I see."}}
      - {match: {afterTool: ask_user}, reply: {text: "Then I know."}}
      - match: {contains: twice}
        reply:
          toolCalls:
            - {name: ask_user, args: {questions: [{id: a, question: One?}, {id: a, question: Two?}]}}
    default:
      toolCalls:
        - name: ask_user
          args: {questions: [{id: size, question: "Which size?", options: [S, M]}, {id: why, question: "Why?"}]}
---
apiVersion: holdfast/v1
kind: Agent
metadata: {name: asker}
spec: {model: script, tools: [ask_user]}
---
apiVersion: holdfast/v1
kind: Tool
metadata: {name: ask_user}
spec: {kind: builtin, effect: readonly}
"""


@pytest.mark.requirement("HK-25", "HK-24")
async def test_a_native_agent_asks_and_goes_on_with_the_answers_after_a_restart(
    settings: Settings, tmp_path: Path
) -> None:
    root = tmp_path / "workspace"
    root.mkdir()
    (root / "workspace.yaml").write_text(WORKSPACE)
    settings = settings.model_copy(update={"workspace": root})
    async with in_process(settings) as server, httpx2.AsyncClient(base_url=server.url, timeout=60) as client:
        run = (await client.post("/api/runs", params={"wait": 20}, json={"input": "shirt"})).json()
        assert run["status"] == "waiting"
        session = await create_session(client)
        turn = await say(client, session, "trousers")
        await reached(client, turn, "waiting")
        wrong = (await client.post("/api/runs", params={"wait": 20}, json={"input": "twice"})).json()
        assert wrong["status"] == "completed" and "INVALID_ARGUMENTS" in str(await _results(client, wrong["id"]))
    async with in_process(settings) as server, httpx2.AsyncClient(base_url=server.url, timeout=60) as client:
        [asked] = (await client.get(f"/api/runs/{run['id']}")).json()["waitingOn"]
        interrupt = (await client.get(f"/api/interrupts/{asked}")).json()
        assert (interrupt["kind"], interrupt["tool"], interrupt["title"]) == ("question", "ask_user", "Which size?")
        assert [(it["id"], it.get("options")) for it in interrupt["questions"]] == [("size", ["S", "M"]), ("why", None)]
        unknown = await client.post(f"/api/interrupts/{asked}/answer", json={"answers": {"sizes": "XL"}})
        assert (unknown.json()["error"]["code"], unknown.json()["error"]["issues"][0]["path"]) == (
            "ANSWER_INVALID",
            "/answers/sizes",
        )
        answers = {"answers": {"size": "XL", "why": "it is big"}}
        assert (await client.post(f"/api/interrupts/{asked}/answer", json=answers)).status_code == 200
        ended = await reached(client, run["id"])
        assert (ended["status"], ended["output"]) == ("completed", "Then I know.")
        assert await _results(client, run["id"]) == [answers]
        [pending] = (await client.get(f"/api/sessions/{session}/tool-input")).json()["data"]
        assert [(it["id"], it["isOther"]) for it in pending["questions"]] == [("size", True), ("why", False)]
        decision = {"decision": "accept", "answers": {"size": {"answers": ["M"]}, "why": {"answers": ["so"]}}}
        decided = await client.post(f"/api/tool-input/{pending['requestId']}/decision", json=decision)
        assert decided.status_code == 200, decided.text
        assert (await reached(client, turn))["status"] == "completed"


@pytest.mark.requirement("HK-26", "HK-2", "HK-13")
async def test_a_message_to_a_running_run_may_have_parts(settings: Settings, tmp_path: Path) -> None:
    root = tmp_path / "workspace"
    root.mkdir()
    (root / "workspace.yaml").write_text(WORKSPACE)
    settings = settings.model_copy(update={"workspace": root, "data_dir": tmp_path})
    async with in_process(settings) as server, httpx2.AsyncClient(base_url=server.url, timeout=60) as client:
        run = (await client.post("/api/runs", params={"wait": 20}, json={"input": "shirt"})).json()
        image = {"type": "image", "mime": "image/png", "data": "iVBORw0KGgo=", "name": "shirt.png"}
        path = f"/api/runs/{run['id']}/commands"
        body = {"command": "steer", "arguments": {"message": [{"type": "text", "text": "like this"}, image]}}
        assert (await client.post(path, json=body)).status_code == 202
        # Input comes in as long as the run goes on: what is sent piece by piece is heard in this order.
        session, more = f"/api/sessions/{run['threadId']}/turns/{run['id']}/steer", {**image, "name": "second.png"}
        said: dict[str, Any] = {"input": [{"type": "text", "text": "or like this"}, more]}
        assert (await client.post(session, json=said)).json()["status"] == "ok"
        assert (await client.post(session, json={"input": "or not like this"})).json()["status"] == "ok"
        for given in ([], [{"type": "image"}], [1], [{"no": "type"}], 5):
            assert (await client.post(session, json={"input": given})).status_code == 400, given
        wrong = [[{"type": "image"}], [{"type": "image", "mime": "image/png", "data": "?"}], [], [1], {"type": "text"}]
        for message in wrong:
            refused = await client.post(path, json={"command": "steer", "arguments": {"message": message}})
            assert refused.status_code == 400 and refused.json()["error"]["code"] in (
                "INVALID_REQUEST",
                "COMMAND_INVALID",
            )
        answer = {"answers": {"size": "M", "why": "so"}}
        await client.post(f"/api/interrupts/{run['waitingOn'][0]}/answer", json=answer)
        assert (await reached(client, run["id"]))["status"] == "completed"
        messages = (await client.get(f"/api/threads/{run['threadId']}/messages")).json()["items"]
        [steered] = [message for message in messages if message["content"] == "like this"]
        assert [part["type"] for part in steered["parts"]] == ["text", "image"]
        stored = steered["parts"][1]["blob"]["sha256"]
        content = await client.get(f"/api/threads/{run['threadId']}/blobs/{stored}")
        assert content.content == b"\x89PNG\r\n\x1a\n"
        heard = [(it["content"], len(it.get("parts", ()))) for it in messages if "like this" in it["content"]]
        assert heard == [("like this", 2), ("or like this", 2), ("or not like this", 0)]
        said = {"text": "shirt", "parts": [image]}
        turn = (await client.post(f"/api/sessions/{run['threadId']}/messages", json=said)).json()["turnId"]
        shown = await reached(client, turn, "waiting")
        assert [part["type"] for part in shown["input"]] == ["text", "image"]


async def _results(client: httpx2.AsyncClient, run_id: str) -> list[Any]:
    page = (await client.get(f"/api/runs/{run_id}/events", params={"limit": 1000})).json()["items"]
    results = [event["payload"] for event in page if event["type"] == "runtime.tool.resulted"]
    return [result.get("output", result.get("error")) for result in results]
