"""One run in every dialect at once: started in one, approved in another, read in all. The same text, calls and end.

The model is a real HTTP provider that plays a random script, which it finds in the user's message.
"""

import asyncio
import contextlib
import socket
import uuid
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import httpx2
import pytest
import uvicorn
from hypothesis import HealthCheck, Phase, given
from hypothesis import settings as examples
from hypothesis import strategies as st
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.types import Receive, Scope, Send
from websockets.asyncio.client import connect

from app.core import json
from app.core.settings import Settings
from tests.scenarios.test_mcp_server import ask
from tests.server import InProcessServer, in_process

WAIT: Final = 60.0
STARTS: Final = ("rest", "chat", "responses", "langgraph", "agui", "a2a", "mcp")
ANSWERS: Final = ("rest", "langgraph", "agui", "a2a", "mcp")
DOCUMENTS: Final = """apiVersion: holdfast/v1
kind: Runtime
metadata: {name: runtime}
spec: {defaultAgent: player}
---
apiVersion: holdfast/v1
kind: Agent
metadata: {name: player, description: Plays a script.}
spec: {model: main, tools: [echo, guarded]}
---
apiVersion: holdfast/v1
kind: Tool
metadata: {name: echo, description: Gives the text back.}
spec: {kind: builtin, effect: readonly, input: {type: object, properties: {text: {type: string}}, required: [text]}}
---
apiVersion: holdfast/v1
kind: Tool
metadata: {name: guarded, description: Gives the text back once somebody agrees.}
spec:
  kind: builtin
  entry: echo
  effect: readonly
  approval: always
  input: {type: object, properties: {text: {type: string}}, required: [text]}
---
apiVersion: holdfast/v1
kind: Model
metadata: {name: main}
spec:
  provider: openai
  model: script
  baseUrl: URL/v1
  capabilities: {streaming: true, tools: true, parallelTools: true}
  retry: {attempts: 1}
"""

# -- scripts ------------------------------------------------------------------------------------------

_WORDS: Final = st.text("abcdefghij XYZ.,äß", min_size=1, max_size=12).filter(str.strip)


@dataclass(frozen=True)
class Script:
    turns: list[dict[str, Any]]
    """What the model says: pieces of text and calls. The last one has no calls, or fails."""
    start: str
    answers: list[tuple[str, bool]]
    """Of each approval in turn: in which dialect, and whether it is given."""

    @property
    def calls(self) -> list[tuple[str, str]]:
        return [(call["name"], call["text"]) for turn in self.turns for call in turn["calls"]]

    @property
    def fails(self) -> bool:
        return bool(self.turns[-1]["fails"])

    @property
    def text(self) -> str:
        return "".join(self.turns[-1]["pieces"])


@st.composite
def scripts(draw: st.DrawFn) -> Script:
    turns: list[dict[str, Any]] = []
    for _ in range(draw(st.integers(0, 2))):
        names = draw(st.sampled_from([["echo"], ["guarded"], ["echo", "echo"], ["echo", "guarded"]]))
        calls = [{"name": name, "text": draw(_WORDS)} for name in names]
        turns.append({"pieces": draw(st.lists(_WORDS, max_size=2)), "calls": calls, "fails": False})
    last = {"pieces": draw(st.lists(_WORDS, min_size=1, max_size=3)), "calls": [], "fails": draw(st.booleans())}
    asked = sum(call["name"] == "guarded" for turn in turns for call in turn["calls"])
    answer = st.tuples(st.sampled_from(ANSWERS), st.booleans())
    answers = draw(st.lists(answer, min_size=asked, max_size=asked))
    return Script([*turns, last], draw(st.sampled_from(STARTS)), answers)


async def provider(scope: Scope, receive: Receive, send: Send) -> None:
    """Says the turn whose number is that of the answers since the user's message."""
    if scope["type"] != "http":
        return
    body = await Request(scope, receive).json()
    said = body["messages"]
    last = max(n for n, one in enumerate(said) if one["role"] == "user")
    content = said[last]["content"]
    text = content if isinstance(content, str) else content[0]["text"]
    turn = json.loads(text.encode())[sum(one["role"] == "assistant" for one in said[last:])]
    answer: Response = JSONResponse({"error": {"message": "no", "type": "invalid_request_error"}}, 400)
    if not turn["fails"]:
        answer = StreamingResponse(_chunks(turn), media_type="text/event-stream")
    await answer(scope, receive, send)


async def _chunks(turn: dict[str, Any]) -> AsyncIterator[bytes]:
    deltas: list[dict[str, Any]] = [{"content": piece} for piece in turn["pieces"]]
    for n, call in enumerate(turn["calls"]):
        function = {"name": call["name"], "arguments": json.dumps({"text": call["text"]}).decode()}
        made = {"index": n, "id": f"call_{uuid.uuid4().hex}", "type": "function", "function": function}
        deltas.append({"tool_calls": [made]})
    for delta in deltas:
        yield b"data: %b\n\n" % json.dumps({"choices": [{"index": 0, "delta": delta, "finish_reason": None}]})
    reason = "tool_calls" if turn["calls"] else "stop"
    yield b"data: %b\n\n" % json.dumps({"choices": [{"index": 0, "delta": {}, "finish_reason": reason}]})
    yield b"data: [DONE]\n\n"


# -- the stage ----------------------------------------------------------------------------------------


@dataclass
class Stage:
    server: InProcessServer
    http: httpx2.AsyncClient
    watching: list["asyncio.Task[Any]"] = field(default_factory=list)

    def in_background(self, work: Any) -> "asyncio.Task[Any]":
        task: asyncio.Task[Any] = asyncio.ensure_future(work)
        self.watching.append(task)
        return task

    async def post(self, path: str, body: Any) -> httpx2.Response:
        answer = await self.http.post(path, json=body)
        assert answer.status_code < 300, (path, answer.text)
        return answer

    async def get(self, path: str) -> Any:
        answer = await self.http.get(path)
        assert answer.status_code == 200, (path, answer.text)
        return answer.json()

    async def begin(self, dialect: str, thread: str, text: str) -> "asyncio.Task[Any] | None":
        """The run is accepted when this returns; a stream that its dialect gives is read in the background."""
        user = {"role": "user", "content": text}
        message = {"messageId": uuid.uuid4().hex, "role": "ROLE_USER", "parts": [{"text": text}], "contextId": thread}
        match dialect:
            case "rest":
                await self.post("/api/runs", {"agent": "player", "input": text, "threadId": thread})
            case "chat":
                body = {"model": "player", "messages": [user], "stream": True, "metadata": {"thread_id": thread}}
                return self.in_background(self.post("/v1/chat/completions", body))
            case "responses":
                body = {"model": "player", "input": text, "background": True, "metadata": {"thread_id": thread}}
                await self.post("/v1/responses", body)
            case "langgraph":
                body = {"assistant_id": "player", "input": {"messages": [user]}}
                await self.post(f"/langgraph/threads/{thread}/runs", body)
            case "agui":
                page = {"threadId": thread, "runId": uuid.uuid4().hex, "messages": [{"id": "1", **user}]}
                return self.in_background(self.post("/agui/player", page))
            case "a2a":
                body = {"message": message, "configuration": {"returnImmediately": True}}
                await self.post("/a2a/player/message:send", body)
            case "mcp":
                call = {"name": "agent_player", "arguments": {"message": text, "threadId": thread}}
                assert "result" in await ask(self.http, "tools/call", call)
        return None

    async def answer(self, dialect: str, run: dict[str, Any], agreed: bool) -> "asyncio.Task[Any] | None":
        (asked,) = run["waitingOn"]
        decision = "approve" if agreed else "deny"
        match dialect:
            case "rest":
                await self.post(f"/api/interrupts/{asked}/answer", {"decision": decision})
            case "langgraph":
                resume = {"decisions": [{"type": "approve" if agreed else "reject"}]}
                body = {"assistant_id": "player", "command": {"resume": resume}}
                await self.post(f"/langgraph/threads/{run['threadId']}/runs", body)
            case "agui":
                entry = {"interruptId": asked, "status": "resolved", "payload": {"decision": decision}}
                page = {"threadId": run["threadId"], "runId": uuid.uuid4().hex, "messages": [], "resume": [entry]}
                return self.in_background(self.post("/agui/player", page))
            case "a2a":
                message = {"messageId": uuid.uuid4().hex, "role": "ROLE_USER", "parts": [{"text": decision}]}
                body = {"message": message | {"taskId": run["id"]}, "configuration": {"returnImmediately": True}}
                await self.post("/a2a/player/message:send", body)
            case "mcp":
                given = {"taskId": run["id"]}
                (key,) = (await ask(self.http, "tasks/get", given))["result"]["inputRequests"]
                content = {"action": "accept", "content": {"decision": decision}}
                assert "result" in await ask(self.http, "tasks/update", given | {"inputResponses": {key: content}})
        return None

    async def until(self, thread: str, answered: set[str]) -> dict[str, Any]:
        """The thread's run once it has ended, or waits for something that was not answered."""
        async with asyncio.timeout(WAIT):
            while True:
                found = (await self.get(f"/api/runs?threadId={thread}"))["items"]
                if found and found[0]["status"] in ("completed", "failed", "cancelled"):
                    return dict(found[0])
                if found and found[0]["status"] == "waiting" and not answered & set(found[0]["waitingOn"]):
                    return dict(found[0])
                await asyncio.sleep(0.02)


@contextlib.asynccontextmanager
async def stage_in(settings: Settings, folder: Path) -> AsyncIterator[Stage]:
    listener = socket.socket()
    listener.bind(("127.0.0.1", 0))
    listener.listen(128)
    workspace = folder / "workspace"
    workspace.mkdir()
    url = f"http://127.0.0.1:{listener.getsockname()[1]}"
    (workspace / "all.yaml").write_text(DOCUMENTS.replace("URL", url))
    web = uvicorn.Server(uvicorn.Config(provider, lifespan="off", log_level="error", timeout_graceful_shutdown=1))
    serving = asyncio.create_task(web.serve([listener]))
    made = settings.model_copy(update={"workspace": workspace})
    try:
        async with in_process(made) as server, httpx2.AsyncClient(base_url=server.url, timeout=WAIT) as http:
            yield Stage(server, http)
    finally:
        web.should_exit = True
        await serving
        listener.close()


# -- the property -------------------------------------------------------------------------------------


async def performed(stage: Stage, script: Script) -> None:
    thread = str(uuid.uuid4())
    await stage.post("/langgraph/threads", {"thread_id": thread})
    async with connect(f"{stage.server.stream_url}?threadId={thread}", max_size=None, max_queue=None) as watcher:
        text = json.dumps(script.turns).decode()
        stream = await stage.begin(script.start, thread, text)
        answered: set[str] = set()
        stretches = [stream] if script.start == "agui" and stream is not None else []
        run = await stage.until(thread, answered)
        for dialect, agreed in script.answers:
            assert run["status"] == "waiting", (run, script)
            answered.update(run["waitingOn"])
            stretch = await stage.answer(dialect, run, agreed)
            stretches += [stretch] if stretch is not None else []
            run = await stage.until(thread, answered)
        await compared(stage, script, run, watcher, stretches)
    await asyncio.gather(*stage.watching)
    stage.watching.clear()


async def compared(stage: Stage, script: Script, run: dict[str, Any], watcher: Any, stretches: list[Any]) -> None:
    ends = "failed" if script.fails else "completed"
    assert (run["status"], run["output"]) == (ends, None if script.fails else script.text)
    events = (await stage.get(f"/api/runs/{run['id']}/events?limit=1000"))["items"]
    asked = [one["payload"] for one in events if one["type"] == "runtime.tool.resulted"]
    assert sorted(one["tool"] for one in asked) == sorted(name for name, _ in script.calls)

    # REST's stream and the websocket have the very same events.
    streamed = (await stage.http.get(f"/api/runs/{run['id']}/stream")).text
    ids = [one["id"] for one in events]
    assert [one for one in ids if one in streamed] == ids
    seen: list[str] = []
    async with asyncio.timeout(WAIT):
        while ids[-1] not in seen:
            seen.append(json.loads((await watcher.recv()).encode()).get("id") or "")
    assert [one for one in dict.fromkeys(seen) if one in set(ids)] == ids

    # OpenAI
    response = await stage.get(f"/v1/responses/resp_{run['id']}_0")
    assert response["status"] == ends
    if not script.fails:
        said = [one for one in response["output"] if one["type"] == "message"][-1]
        assert said["content"][0]["text"] == script.text

    # LangGraph
    shown = await stage.get(f"/langgraph/threads/{run['threadId']}/state")
    spoken = [one for one in shown["values"]["messages"] if one["type"] == "ai"]
    called = [(call["name"], call["args"]["text"]) for one in spoken for call in one.get("tool_calls") or ()]
    assert called == script.calls
    if not script.fails:
        assert spoken[-1]["content"] == script.text

    # A2A
    task = await stage.get(f"/a2a/player/tasks/{run['id']}")
    assert task["status"]["state"] == f"TASK_STATE_{ends.upper()}"
    if not script.fails:
        assert task["artifacts"][0]["parts"] == [{"text": script.text}]

    # MCP: a failed run is a completed task whose result is an error.
    result = (await ask(stage.http, "tasks/get", {"taskId": run["id"]}))["result"]
    assert result["status"] == "completed" and bool(result["result"].get("isError")) == script.fails
    if not script.fails:
        assert result["result"]["content"][0]["text"] == script.text

    # AG-UI: the last stretch ends as the run does.
    if stretches:
        frames = [
            [json.loads(line[6:].encode()) for line in (await one).text.splitlines() if line.startswith("data: ")]
            for one in stretches
        ]
        calls = [one["toolCallName"] for stretch in frames for one in stretch if one["type"] == "TOOL_CALL_START"]
        assert set(calls) <= {name for name, _ in script.calls}
        last_answer = script.answers[-1][0] if script.answers else script.start
        if last_answer == "agui":
            assert frames[-1][-1]["type"] == ("RUN_ERROR" if script.fails else "RUN_FINISHED")
            if not script.fails:
                assert frames[-1][-1]["result"] == script.text


def _check(settings: Settings, folder: Path, count: int) -> None:
    with asyncio.Runner() as runner:
        stack = contextlib.AsyncExitStack()
        stage = runner.run(stack.enter_async_context(stage_in(settings, folder)))
        try:
            # Explaining would trace every line of the server, and shrinking repeat runs for minutes.
            @examples(
                max_examples=count, deadline=None, database=None, derandomize=True, phases=[Phase.generate],
                suppress_health_check=list(HealthCheck),
            )  # fmt: skip
            @given(scripts())
            def the_same_in_all(script: Script) -> None:
                runner.run(performed(stage, script))

            the_same_in_all()
        finally:
            runner.run(stack.aclose())


@pytest.mark.requirement("SH-22", "PX-3", "PX-5")
def test_a_run_has_the_same_text_calls_and_end_in_every_dialect(settings: Settings, tmp_path: Path) -> None:
    _check(settings, tmp_path, 8)


@pytest.mark.faults
@pytest.mark.requirement("SH-22", "PX-3", "PX-5")
def test_many_runs_have_the_same_text_calls_and_end_in_every_dialect(settings: Settings, tmp_path: Path) -> None:
    _check(settings, tmp_path, 150)
