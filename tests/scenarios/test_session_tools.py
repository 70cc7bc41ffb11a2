"""Which tools of a session its models are shown: those that its settings allow, in subagents and reruns too."""

from collections.abc import AsyncIterator, Iterator
from typing import Any

import httpx2
import pytest

from app.core.settings import Settings
from tests.clients import create_session, reached, say
from tests.server import ServerProcess

pytestmark = pytest.mark.requirement("S17")

FAMILY = """\
apiVersion: holdfast/v1
kind: Runtime
metadata: {name: family}
spec: {defaultAgent: parent}
---
apiVersion: holdfast/v1
kind: Agent
metadata: {name: parent, description: Lets the child work.}
spec:
  model: script
  instructions: parent
  tools: [clock]
  subagents: [{agent: child, tools: [notes, calculator]}]
  clientTools: true
---
apiVersion: holdfast/v1
kind: Agent
metadata: {name: child, description: Keeps notes.}
spec: {model: script, instructions: child, tools: [notes, calculator, clock]}
---
apiVersion: holdfast/v1
kind: Tool
metadata: {name: notes, description: Notes.}
spec: {kind: builtin, effect: keyed}
---
apiVersion: holdfast/v1
kind: Tool
metadata: {name: calculator, description: Calculates.}
spec: {kind: builtin, effect: readonly}
---
apiVersion: holdfast/v1
kind: Tool
metadata: {name: clock, description: The time.}
spec: {kind: builtin, effect: readonly}
---
apiVersion: holdfast/v1
kind: Model
metadata: {name: script}
spec:
  provider: scripted
  model: script
  capabilities: {streaming: true, tools: true}
  script:
    rules:
      - match: {afterTool: notes}
        reply: {text: noted}
      - match: {afterTool: child}
        reply: {text: done}
      - match: {system: child}
        reply: {toolCalls: [{name: notes, args: {action: add, text: milk}}]}
      - match: {system: parent, contains: milk}
        reply: {toolCalls: [{name: child, args: {input: milk}}]}
"""


@pytest.fixture(scope="module")
def family_server(settings: Settings, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    workspace = tmp_path_factory.mktemp("family")
    (workspace / "family.yaml").write_text(FAMILY)
    server = ServerProcess.start(settings.data_dir, settings.database_url, workspace)
    try:
        yield server
    finally:
        server.stop()


@pytest.fixture
async def family(family_server: ServerProcess) -> AsyncIterator[httpx2.AsyncClient]:
    async with httpx2.AsyncClient(base_url=family_server.url, timeout=60, verify=False) as client:
        yield client


async def _payloads(client: httpx2.AsyncClient, run: str, kind: str) -> list[dict[str, Any]]:
    found = await client.get(f"/api/runs/{run}/events", params={"type": kind})
    return [event["payload"] for event in found.json()["items"]]


async def _offered(client: httpx2.AsyncClient, run: str) -> set[frozenset[str]]:
    """What the run's model calls were shown, each once."""
    return {frozenset(one.get("tools") or ()) for one in await _payloads(client, run, "runtime.model.requested")}


async def _denials(client: httpx2.AsyncClient, run: str) -> list[str]:
    results = await _payloads(client, run, "runtime.tool.resulted")
    return [one["error"]["code"] for one in results if one.get("error")]


async def _child(client: httpx2.AsyncClient, run: str) -> str:
    thread = (await client.get(f"/api/runs/{run}")).json()["threadId"]
    kinds: dict[str, str | int] = {"type": "runtime.request.queued", "limit": 500}
    asked = (await client.get(f"/api/threads/{thread}/events", params=kinds)).json()["items"]
    (child,) = [one["runId"] for one in asked if one["payload"].get("parentRunId") == run]
    return str(child)


async def test_a_tool_that_a_session_denies_is_shown_to_no_model_of_its_runs(family: httpx2.AsyncClient) -> None:
    free = await create_session(family)
    turn = await say(family, free, "milk")
    assert (await reached(family, turn))["output"] == "done"
    assert await _offered(family, turn) == {frozenset({"clock", "child"})}
    child = await _child(family, turn)
    assert await _offered(family, child) == {frozenset({"notes", "calculator", "clock"})}
    assert await _denials(family, child) == []

    narrow = await create_session(family, settings={"deniedTools": ["notes", "cl*"]})
    turn = await say(family, narrow, "milk")
    assert (await reached(family, turn))["output"] == "done"
    again = (await family.post(f"/api/runs/{turn}/rerun", json={})).json()
    token = (await family.get(f"/api/runs/{turn}/replay-token")).json()["token"]
    strict = (await family.post(f"/api/runs/{turn}/rerun", json={"token": token})).json()
    for run in (turn, again["id"], strict["id"]):
        assert (await reached(family, run))["output"] == "done", run
        assert await _offered(family, run) == {frozenset({"child"})}, run
        child = await _child(family, run)
        assert await _offered(family, child) == {frozenset({"calculator"})}, run
        # A model that was told of it elsewhere and calls it all the same is refused by the gate.
        assert await _denials(family, child) == ["SESSION_CONTROL_DENIED"], run


async def test_an_allowed_list_shows_its_tools_alone_also_of_subagents_and_the_client(
    family: httpx2.AsyncClient,
) -> None:
    kinds = [
        {"name": name, "description": "Asks.", "inputSchema": {"type": "object"}} for name in ("ask_me", "tell_me")
    ]
    session = await create_session(family, settings={"allowedTools": ["clock", "ask_*"]}, dynamicTools=kinds)
    turn = await say(family, session, "hello")
    await reached(family, turn)
    assert await _offered(family, turn) == {frozenset({"clock", "ask_me"})}
    signals = await _payloads(family, turn, "runtime.adapter.event")
    (handed,) = [one for one in signals if "agent.handoff" in str(one)]
    assert "child" not in str(handed) and "tell_me" not in str(handed)
    nothing = await create_session(family, settings={"allowedTools": []})
    await reached(family, turn := await say(family, nothing, "hello"))
    assert await _offered(family, turn) == {frozenset()}


async def test_the_choice_of_a_tool_that_the_session_denies_is_left_out(family: httpx2.AsyncClient) -> None:
    session = await create_session(family, settings={"deniedTools": ["tell_me"]})
    functions = [
        {"type": "function", "function": {"name": name, "parameters": {"type": "object"}}}
        for name in ("ask_me", "tell_me")
    ]
    chosen = {"type": "function", "function": {"name": "tell_me"}}
    body = {
        "model": "parent",
        "messages": [{"role": "user", "content": "hello"}],
        "tools": functions,
        "tool_choice": chosen,
    }
    answer = await family.post("/v1/chat/completions", json={**body, "metadata": {"thread_id": session}})
    assert answer.status_code == 200, answer.text
    (run,) = (await family.get("/api/runs", params={"threadId": session})).json()["items"]
    (asked,) = await _payloads(family, run["id"], "runtime.model.requested")
    assert "tell_me" not in asked["tools"] and "ask_me" in asked["tools"]
    assert "tool_choice" not in asked["parameters"]
