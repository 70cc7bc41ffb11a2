"""A run that asks two things at once, for MCP clients: both are asked, each once, also across streams that are cut."""

from collections.abc import AsyncIterator, Iterator
from typing import Any

import httpx2
import mcp_types as types
import pytest

from app.core import json
from app.core.settings import Settings
from tests.scenarios.test_mcp_server import MODES, client_of, rpc, text_of
from tests.server import ServerProcess
from tests.sse import blocks

pytestmark = pytest.mark.requirement("PX-10", "PX-5")

SPACE = """\
apiVersion: holdfast/v1
kind: Runtime
metadata: {name: questions}
spec: {defaultAgent: echo}
---
apiVersion: holdfast/v1
kind: Agent
metadata: {name: echo, description: Says it again.}
spec: {backend: echo}
---
apiVersion: holdfast/v1
kind: Workflow
metadata: {name: both, description: Asks two things at once.}
spec:
  nodes:
    - {id: colour, ask: {kind: question, title: Colour?, questions: [{key: colour, question: Which colour?}]}}
    - {id: size, ask: {kind: question, title: Size?, questions: [{key: size, question: Which size?}]}}
    - {id: told, ref: agents.echo, with: {input: "{{ nodes.size.output.size }} {{ nodes.colour.output.colour }}"}}
  edges:
    - {from: START, to: colour}
    - {from: START, to: size}
    - {from: colour, to: told}
    - {from: size, to: told}
    - {from: told, to: END}
"""
ANSWERS = {"colour": "blue", "size": "large"}


@pytest.fixture(scope="module")
def asking(settings: Settings, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    workspace = tmp_path_factory.mktemp("asking")
    (workspace / "all.yaml").write_text(SPACE)
    server = ServerProcess.start(settings.data_dir, settings.database_url, workspace)
    try:
        yield server
    finally:
        server.stop()


@pytest.mark.parametrize("mode", MODES)
async def test_two_questions_of_one_moment_are_both_asked_and_answered(asking: ServerProcess, mode: str) -> None:
    asked: list[str] = []

    async def elicit(_context: Any, params: Any) -> types.ElicitResult:
        (name,) = params.requested_schema["properties"]
        asked.append(name)
        return types.ElicitResult(action="accept", content={name: ANSWERS[name]})

    async with client_of(asking, mode, elicitation_callback=elicit) as client:
        result = await client.call_tool("workflow_both", {"message": "x"})
        assert "large blue" in text_of(result) and not result.is_error, result
    assert sorted(asked) == ["colour", "size"]


async def test_a_stream_that_is_cut_between_two_questions_of_one_moment_goes_on_with_the_second(
    asking: ServerProcess,
) -> None:
    async with httpx2.AsyncClient(base_url=asking.url, timeout=60, verify=False) as http:
        able = {"capabilities": {"elicitation": {}}, "clientInfo": {"name": "cut", "version": "1"}}
        opened = await http.post("/mcp", json=rpc("initialize", protocolVersion="2025-11-25", **able))
        headers = {"accept": "application/json, text/event-stream", "mcp-protocol-version": "2025-11-25"}
        headers["mcp-session-id"] = opened.headers["mcp-session-id"]
        call = rpc("tools/call", name="workflow_both", arguments={"message": "x"})
        async with http.stream("POST", "/mcp", json=call, headers=headers) as stream:
            (first, _), (one, colour), (two, size) = await _questions(stream, 2)
        assert colour is not None and size is not None
        questions = [colour, size]
        assert len({first, one, two}) == 3 and colour["id"] != size["id"]
        # After the first id of all both are asked again; after the first question only the second is.
        for last, expected in ((first, questions), (one, questions[1:])):
            async with http.stream("GET", "/mcp", headers=headers | {"last-event-id": last}) as stream:
                _, *found = await _questions(stream, len(expected))
            assert [message for _, message in found] == expected
        for question in questions:
            (name,) = question["params"]["requestedSchema"]["properties"]
            said = {"action": "accept", "content": {name: ANSWERS[name]}}
            answer = {"jsonrpc": "2.0", "id": question["id"], "result": said}
            assert (await http.post("/mcp", json=answer, headers=headers)).status_code == 202
        rest = await http.get("/mcp", headers=headers | {"last-event-id": two})
        messages = [
            json.loads(line.removeprefix("data: ").encode()) for line in rest.text.splitlines() if "data: {" in line
        ]
        assert not [one for one in messages if one.get("method") == "elicitation/create"], "no question comes twice"
        assert messages[-1]["id"] == call["id"] and "large blue" in messages[-1]["result"]["content"][0]["text"]


async def _messages(stream: httpx2.Response) -> AsyncIterator[tuple[str, dict[str, Any] | None]]:
    """Each event's id, and its message if it has one."""
    async for block in blocks(stream):
        fields = dict(line.partition(": ")[::2] for line in block.decode().splitlines())
        yield fields.get("id", ""), json.loads(fields["data"].encode()) if fields.get("data") else None


async def _questions(stream: httpx2.Response, count: int) -> list[tuple[str, dict[str, Any] | None]]:
    """The event that the stream opens with, and so many questions."""
    found: list[tuple[str, dict[str, Any] | None]] = []
    async for name, message in _messages(stream):
        if not found or (message is not None and message.get("method") == "elicitation/create"):
            found.append((name, message))
        if len(found) == count + 1:
            break
    return found
