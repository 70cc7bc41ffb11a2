"""The MCP server with its official client, unmodified, in both revisions: calls, questions, resources, tasks."""

import asyncio
import json
from pathlib import Path
from typing import Any, Literal, Self

import httpx2
import mcp_types as types
import pytest
from mcp import Client
from mcp.client.extension import ClaimContext, ClientExtension, ResultClaim
from mcp.shared.exceptions import MCPError

from app.core.settings import Settings
from tests.clients import reached
from tests.scenarios.dialects import make_workspace
from tests.server import ServerProcess

MODES = ("legacy", "2026-07-28")


def client_of(server: ServerProcess, mode: str, **more: Any) -> Client:
    return Client(f"{server.url}/mcp", mode=mode, read_timeout_seconds=20, **more)


def text_of(result: types.CallToolResult) -> str:
    first = result.content[0]
    assert isinstance(first, types.TextContent)
    return first.text


@pytest.mark.requirement("PX-10", "PX-5")
@pytest.mark.parametrize("mode", MODES)
async def test_agents_workflows_and_chosen_tools_are_tools(dialect_server: ServerProcess, mode: str) -> None:
    async with client_of(dialect_server, mode) as client:
        tools = {tool.name: tool for tool in (await client.list_tools()).tools}
        assert {"agent_echo", "agent_assistant", "workflow_twice", "calculator", "notes", "publish"} <= tools.keys()
        assert "clock" not in tools and "save_draft" not in tools
        hints = {name: tool.annotations for name, tool in tools.items()}
        assert hints["calculator"] is not None and hints["calculator"].read_only_hint is True
        assert hints["notes"] is not None and hints["notes"].idempotent_hint is True
        assert hints["agent_assistant"] is not None and hints["agent_assistant"].read_only_hint is False
        said = await client.call_tool("agent_assistant", {"message": "good day"})
        assert text_of(said) == "You said: good day" and not said.is_error
        assert said.structured_content is not None and said.structured_content["output"] == "You said: good day"
        more = {"message": "and again", "threadId": said.structured_content["threadId"]}
        again = await client.call_tool("agent_assistant", more)
        assert again.structured_content is not None
        assert again.structured_content["threadId"] == said.structured_content["threadId"]
        assert again.structured_content["runId"] != said.structured_content["runId"]
        twice = await client.call_tool("workflow_twice", {"text": "well"})
        assert twice.structured_content is not None and "well again" in str(twice.structured_content["output"])
        assert "42" in text_of(await client.call_tool("calculator", {"expression": "6 * 7"}))
        echoed = await client.call_tool("echo", {"text": "x"})
        assert echoed.structured_content == {"text": "x"}


@pytest.mark.requirement("PX-10")
@pytest.mark.parametrize("mode", MODES)
async def test_progress_is_reported_while_the_run_works(dialect_server: ServerProcess, mode: str) -> None:
    seen: list[tuple[float, str | None]] = []

    async def note(progress: float, total: float | None, message: str | None) -> None:
        assert total is None, "nobody knows how long a run takes"
        seen.append((progress, message))

    async with client_of(dialect_server, mode) as client:
        result = await client.call_tool("agent_assistant", {"message": "calculate it"}, progress_callback=note)
        assert text_of(result).startswith("That makes")
    assert any("calculator" in (message or "") for _, message in seen)
    assert [done for done, _ in seen] == sorted({done for done, _ in seen}), "progress only grows"


@pytest.mark.requirement("PX-10")
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize(
    ("action", "said"), [("accept", "It has been published."), ("decline", "It was not published")]
)
async def test_an_approval_is_asked_of_the_client_s_user(
    dialect_server: ServerProcess, mode: str, action: Literal["accept", "decline"], said: str
) -> None:
    asked: list[str] = []

    async def elicit(_context: Any, params: Any) -> types.ElicitResult:
        asked.append(params.message)
        return types.ElicitResult(action=action, content={"decision": "approve"} if action == "accept" else None)

    async with client_of(dialect_server, mode, elicitation_callback=elicit) as client:
        result = await client.call_tool("agent_assistant", {"message": "publish it now"})
        assert text_of(result).startswith(said), result
    assert len(asked) == 1 and "publish it now" in asked[0]


@pytest.mark.requirement("PX-10")
@pytest.mark.parametrize("mode", MODES)
async def test_questions_are_forms_and_a_refused_one_leaves_the_run_waiting(
    dialect_server: ServerProcess, mode: str
) -> None:
    answers: list[types.ElicitResult] = [types.ElicitResult(action="accept", content={"colour": "blue"})]

    async def elicit(_context: Any, params: Any) -> types.ElicitResult:
        assert list(params.requested_schema["properties"]) == ["colour"]
        return answers.pop() if answers else types.ElicitResult(action="cancel")

    async with client_of(dialect_server, mode, elicitation_callback=elicit) as client:
        result = await client.call_tool("agent_helper", {"message": "ask me"})
        assert "blue" in text_of(result) and not result.is_error
    async with client_of(dialect_server, mode, elicitation_callback=elicit) as client:
        result = await client.call_tool("agent_helper", {"message": "ask me"})
        assert result.is_error and text_of(result).startswith("RUN_WAITING")


@pytest.mark.requirement("PX-10")
@pytest.mark.parametrize("mode", MODES)
async def test_a_client_that_cannot_ask_is_told_that_a_person_is_awaited(
    dialect_server: ServerProcess, mode: str
) -> None:
    async with client_of(dialect_server, mode) as client:
        result = await client.call_tool("agent_assistant", {"message": "publish it now"})
        assert result.is_error and text_of(result).startswith("RUN_WAITING")
        assert result.meta is not None
        uri = f"holdfast://runs/{result.meta['dev.holdfast/runId']}"
        read = (await client.read_resource(uri)).contents[0]
        assert isinstance(read, types.TextResourceContents) and '"waiting"' in read.text


@pytest.mark.requirement("PX-10")
@pytest.mark.parametrize("mode", MODES)
async def test_what_is_stored_are_resources_and_skills_are_prompts(dialect_server: ServerProcess, mode: str) -> None:
    async with client_of(dialect_server, mode) as client:
        said = await client.call_tool("agent_echo", {"message": "keep this"})
        assert said.structured_content is not None
        thread = said.structured_content["threadId"]
        uris: list[str] = []
        cursor: str | None = None
        while True:
            page = await client.list_resources(cursor=cursor)
            uris += [str(one.uri) for one in page.resources]
            if (cursor := page.next_cursor) is None:
                break
        assert {f"holdfast://threads/{thread}", f"holdfast://runs/{said.structured_content['runId']}"} <= set(uris)
        assert "holdfast://skills/greet" in uris and len(uris) == len(set(uris))
        templates = (await client.list_resource_templates()).resource_templates
        assert [one.name for one in templates] == ["thread", "run", "artifact", "skill"]
        read = (await client.read_resource(f"holdfast://threads/{thread}")).contents[0]
        assert isinstance(read, types.TextResourceContents) and "keep this" in read.text
        prompts = (await client.list_prompts()).prompts
        assert [prompt.name for prompt in prompts] == ["greet"]
        prompt = await client.get_prompt("greet", {"task": "Greet Ada."})
        assert isinstance(prompt.messages[0].content, types.TextContent)
        assert prompt.messages[0].content.text.endswith("Greet Ada.")
        for wrong in ("holdfast://runs/run_nowhere", "holdfast://elsewhere/x", "file:///etc/passwd"):
            with pytest.raises(MCPError):
                await client.read_resource(wrong)


@pytest.mark.requirement("PX-10")
@pytest.mark.parametrize("mode", MODES)
async def test_mistakes_are_the_protocol_s_errors(dialect_server: ServerProcess, mode: str) -> None:
    async with client_of(dialect_server, mode) as client:
        with pytest.raises(MCPError) as unknown:
            await client.call_tool("agent_nobody", {})
        assert unknown.value.error.code == -32602
        with pytest.raises(MCPError) as wrong:
            await client.call_tool("agent_echo", {"text": 1})
        assert wrong.value.error.code == -32602 and "message" in wrong.value.error.message
        failed = await client.call_tool("agent_assistant", {"message": "fail please"})
        assert failed.is_error and "PROVIDER_ERROR" in text_of(failed)
        refused = await client.call_tool("publish", {"title": "x", "text": "a TODO is left"})
        assert refused.is_error and "finish it first" in text_of(refused)


@pytest.mark.requirement("PX-10")
async def test_what_is_not_served_is_refused_as_the_protocol_does(dialect_server: ServerProcess) -> None:
    """The list of the page, line by line."""
    async with httpx2.AsyncClient(base_url=dialect_server.url, timeout=60) as http:
        batch = await http.post("/mcp", json=[rpc("ping"), rpc("ping")])
        assert (batch.status_code, batch.json()["error"]["code"]) == (400, -32600)
        for method in ("GET", "DELETE"):
            refused = await http.request(method, "/mcp")
            assert refused.status_code == 405 and "POST" in refused.headers["allow"], method
        for method in (
            "sampling/createMessage", "roots/list", "logging/setLevel", "completion/complete", "resources/subscribe",
            "resources/unsubscribe", "tasks/result", "tasks/list",
        ):  # fmt: skip
            for headers in ({}, {"mcp-protocol-version": "2025-11-25"}):
                answer = await http.post("/mcp", json=rpc(method, uri="x", taskId="x"), headers=headers)
                assert (answer.json()["id"], answer.json()["error"]["code"]) == ("call-7", -32601), (
                    method,
                    answer.text,
                )
        last = await http.get("/mcp", headers={"last-event-id": "7-x.run_nowhere"})
        assert (last.status_code, last.json()["error"]["code"]) == (400, -32600)


async def test_leaving_a_stateless_call_cancels_it_and_a_notification_cancels_an_older_one(
    dialect_server: ServerProcess,
) -> None:
    async with httpx2.AsyncClient(base_url=dialect_server.url, timeout=60) as http:
        for mode in MODES:
            async with client_of(dialect_server, mode) as client:
                before = {run["id"] for run in (await http.get("/api/runs?status=waiting")).json()["items"]}
                call = asyncio.create_task(client.call_tool("agent_assistant", {"message": "publish it now"}))
                run_id = await _new_waiting_run(http, before)
                call.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await call
                assert (await reached(http, run_id))["status"] == "cancelled", mode


async def _new_waiting_run(http: httpx2.AsyncClient, before: set[str]) -> str:
    async with asyncio.timeout(30):
        while True:
            found = {run["id"] for run in (await http.get("/api/runs?status=waiting")).json()["items"]} - before
            if found:
                return str(found.pop())
            await asyncio.sleep(0.05)


# -- tasks --------------------------------------------------------------------------------------------


class TaskHandle(types.Result):
    """What a client that knows tasks is given instead of a result."""

    result_type: Literal["task"] = "task"
    task_id: str
    status: str


class Tasks(ClientExtension):
    """As a client would write it: hands the task out instead of polling for it."""

    identifier = "io.modelcontextprotocol/tasks"

    def __init__(self) -> None:
        self.handles: list[TaskHandle] = []

    def claims(self) -> list[ResultClaim[Any]]:
        async def resolve(handle: TaskHandle, _context: ClaimContext) -> types.CallToolResult:
            self.handles.append(handle)
            ids = {"output": None, "runId": handle.task_id, "threadId": ""}
            return types.CallToolResult(content=[types.TextContent(text=handle.task_id)], structured_content=ids)

        return [ResultClaim(result_type="task", model=TaskHandle, resolve=resolve)]


async def ask(http: httpx2.AsyncClient, method: str, params: dict[str, Any], *, tasks: bool = True) -> Any:
    """One request of the stateless revision, as any client sends it."""
    capabilities: dict[str, Any] = {"extensions": {"io.modelcontextprotocol/tasks": {}}} if tasks else {}
    meta = {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": capabilities,
    }
    headers = {"mcp-protocol-version": "2026-07-28", "mcp-method": method, "accept": "application/json"}
    if "taskId" in params:
        headers["mcp-name"] = params["taskId"]
    if "name" in params:
        headers["mcp-name"] = params["name"]
    body = {"jsonrpc": "2.0", "id": 1, "method": method, "params": {**params, "_meta": meta}}
    return (await http.post("/mcp", json=body, headers=headers)).json()


async def task_at(http: httpx2.AsyncClient, task_id: str, *states: str) -> dict[str, Any]:
    async with asyncio.timeout(30):
        while True:
            task: dict[str, Any] = (await ask(http, "tasks/get", {"taskId": task_id}))["result"]
            if task["status"] in states:
                return task
            await asyncio.sleep(0.05)


@pytest.mark.requirement("PX-10")
async def test_tasks_are_cancelled_and_need_the_extension(dialect_server: ServerProcess) -> None:
    async with httpx2.AsyncClient(base_url=dialect_server.url, timeout=60) as http:
        call = {"name": "agent_assistant", "arguments": {"message": "publish it now"}}
        task = (await ask(http, "tools/call", call))["result"]
        assert (task["resultType"], task["status"]) == ("task", "working")
        assert (await ask(http, "tasks/get", {"taskId": task["taskId"]}, tasks=False))["error"]["code"] == -32021
        assert "result" in await ask(http, "tasks/cancel", {"taskId": task["taskId"]})
        assert (await task_at(http, task["taskId"], "cancelled"))["status"] == "cancelled"
        assert "result" in await ask(http, "tasks/cancel", {"taskId": task["taskId"]}), "twice is not a mistake"
        assert (await ask(http, "tasks/get", {"taskId": "run_nowhere"}))["error"]["code"] == -32602


# -- cut streams and restarts ---------------------------------------------------------------------------


class Cutter:
    """A proxy that cuts its connections when asked to."""

    def __init__(self, url: str) -> None:
        self._port = int(url.rsplit(":", 1)[1])
        self._open: set[asyncio.StreamWriter] = set()

    async def __aenter__(self) -> Self:
        self._server = await asyncio.start_server(self._forward, "127.0.0.1")
        self.url = f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        self.cut()

    def cut(self) -> None:
        for writer in self._open:
            writer.transport.abort()
        self._open.clear()

    async def _forward(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        back, forth = await asyncio.open_connection("127.0.0.1", self._port)
        self._open |= {writer, forth}
        await asyncio.gather(_copy(reader, forth), _copy(back, writer), return_exceptions=True)


async def _copy(source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
    while data := await source.read(65536):
        target.write(data)
        await target.drain()
    target.close()


@pytest.mark.requirement("PX-10", "PX-5")
async def test_a_stream_that_is_cut_is_resumed_by_the_client(dialect_server: ServerProcess) -> None:
    async with (
        Cutter(dialect_server.url) as proxy,
        Client(f"{proxy.url}/mcp", mode="legacy", read_timeout_seconds=30) as client,
        httpx2.AsyncClient(base_url=dialect_server.url, timeout=60) as http,
    ):
        before = {run["id"] for run in (await http.get("/api/runs?status=waiting")).json()["items"]}
        call = asyncio.create_task(client.call_tool("agent_assistant", {"message": "publish it now"}))
        run_id = await _new_waiting_run(http, before)
        proxy.cut()
        (interrupt,) = (await http.get(f"/api/runs/{run_id}")).json()["waitingOn"]
        await http.post(f"/api/interrupts/{interrupt}/answer", json={"decision": "approve"})
        assert text_of(await asyncio.wait_for(call, 30)) == "It has been published."


@pytest.mark.requirement("PX-10")
async def test_tasks_and_streams_outlive_the_server(settings: Settings, tmp_path: Path) -> None:
    space = make_workspace(tmp_path / "space")
    server = await asyncio.to_thread(ServerProcess.start, tmp_path / "data", settings.database_url, space)
    try:
        async with client_of(server, "2026-07-28", extensions=[Tasks()]) as client:
            task_id = text_of(await client.call_tool("agent_assistant", {"message": "publish it now"}))
        async with httpx2.AsyncClient(base_url=server.url, timeout=60) as http:
            waits = await task_at(http, task_id, "input_required")
            (key,) = waits["inputRequests"]
            assert waits["inputRequests"][key]["method"] == "elicitation/create"
            opened = await http.post("/mcp", json=rpc("initialize", protocolVersion="2025-11-25"))
            headers = {"accept": "text/event-stream", "mcp-protocol-version": "2025-11-25"}
            headers["mcp-session-id"] = opened.headers["mcp-session-id"]
            call = rpc("tools/call", name="agent_assistant", arguments={"message": "publish it now"})
            async with http.stream("POST", "/mcp", json=call, headers=headers) as stream:
                first = await anext(stream.aiter_lines())
            last, run_id = first.removeprefix("id: "), first.partition(".")[2]
        server.kill()
        server = await asyncio.to_thread(server.again)
        async with httpx2.AsyncClient(base_url=server.url, timeout=60) as http:
            assert (await task_at(http, task_id, "input_required"))["inputRequests"].keys() == {key}
            answer = {key: {"action": "accept", "content": {"decision": "approve"}}}
            assert "result" in await ask(http, "tasks/update", {"taskId": task_id, "inputResponses": answer})
            done = await task_at(http, task_id, "completed")
            assert done["result"]["content"][0]["text"] == "It has been published." and done["ttlMs"] is None
            (interrupt,) = (await reached(http, run_id, "waiting"))["waitingOn"]
            await http.post(f"/api/interrupts/{interrupt}/answer", json={"decision": "deny"})
            rest = await http.get("/mcp", headers=headers | {"last-event-id": last})
            result = json.loads(rest.text.split("data: ")[-1])
            assert result["id"] == call["id"] and "not published" in result["result"]["content"][0]["text"]
    finally:
        server.stop()


def rpc(method: str, **params: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": "call-7", "method": method, "params": params}
