"""Programs as LangGraph's and DeepAgents' documentation writes them, behind the OpenAI endpoint and the stream socket.

Nothing is changed in them but where the model and the tools come from. The server is killed while one of them waits.
"""

import asyncio
import shutil
from collections.abc import AsyncIterator
from pathlib import Path

import httpx2
import pytest
from openai import AsyncOpenAI
from websockets.asyncio.client import connect

from app.core import json
from tests.adapters.space import effects, write
from tests.adapters.test_langgraph import CHATBOT
from tests.clients import reached, receive, submit
from tests.server import ServerProcess

RESEARCHER = '''
from deepagents import create_deep_agent
from holdfast.langgraph import model, tools

# System prompt to steer the agent to be an expert researcher
research_instructions = """You are an expert researcher. Your job is to conduct thorough research and then write a
polished report."""

agent = create_deep_agent(
    model=model(),
    tools=tools(),
    system_prompt=research_instructions,
)
'''
RULES = (
    "{match: {afterTool: publish}, reply: {text: published}}",
    "{match: {afterTool: write_file}, reply: {toolCalls: [{name: note, args: {what: report}}]}}",
    "{match: {afterTool: note}, reply: {text: 'The report is written.'}}",
    "{match: {contains: research}, reply: {toolCalls: [{name: write_file, "
    "args: {file_path: /report.md, content: Bees dance.}}]}}",
    "{match: {contains: note}, reply: {toolCalls: [{name: note, args: {what: that}}]}}",
    "{match: {contains: publish}, reply: {toolCalls: [{name: publish, args: {at: home}}]}}",
)


@pytest.fixture
async def server(tmp_path: Path, migrated_file: Path) -> AsyncIterator[list[ServerProcess]]:
    """The running server is the last of the list."""
    config = "  config: {langgraph: {graph: '%s'}}\n"
    agents = {
        "chatbot": ("langgraph", config % "chatbot:graph"),
        "researcher": ("langgraph", config % "research:agent"),
    }
    root = write(tmp_path, agents, RULES, {"chatbot.py": CHATBOT, "research.py": RESEARCHER})
    data = tmp_path / "data"
    data.mkdir()
    shutil.copy(migrated_file, data / "holdfast.db")
    servers = [await asyncio.to_thread(ServerProcess.start, data, None, root)]
    yield servers
    if servers[-1].is_running:
        await asyncio.to_thread(servers[-1].stop)


@pytest.mark.requirement("SH-6", "SH-8", "OS-I2")
async def test_documented_programs_run_behind_both_endpoints_and_survive_a_kill(
    server: list[ServerProcess], tmp_path: Path
) -> None:
    (first,) = server
    client = AsyncOpenAI(base_url=f"{first.url}/v1", api_key="unused")
    answer = await client.chat.completions.create(
        model="researcher", messages=[{"role": "user", "content": "research bees"}]
    )
    assert answer.choices[0].message.content == "The report is written."
    pieces = []
    stream = await client.chat.completions.create(
        model="chatbot", messages=[{"role": "user", "content": "hello"}], stream=True
    )
    async for chunk in stream:
        pieces += [choice.delta.content or "" for choice in chunk.choices]
    assert "".join(pieces) == "about hello"
    assert effects(tmp_path) == ["note report"]
    await client.close()

    async with httpx2.AsyncClient(base_url=first.url, timeout=30) as http:
        async with connect(first.stream_url) as socket:
            assert (await receive(socket))["type"] == "ready"
            run = await submit(http, "chatbot", "publish it")
            subscribe = {"type": "subscribe", "threadId": run["threadId"], "after": 0}
            await socket.send(json.dumps(subscribe).decode())
            seen: list[str] = []
            async with asyncio.timeout(30):
                while "runtime.interrupt.raised" not in seen:
                    seen.append((await receive(socket, 30))["type"])
            assert "runtime.adapter.event" in seen and "runtime.model.completed" in seen
        waiting = await reached(http, run["id"], "waiting")
    await asyncio.to_thread(first.kill)
    server.append(await asyncio.to_thread(first.again))
    async with httpx2.AsyncClient(base_url=server[-1].url, timeout=30) as http:
        (asked,) = waiting["waitingOn"]
        answered = await http.post(f"/api/interrupts/{asked}/answer", json={"decision": "approve"})
        assert answered.status_code == 200, answered.text
        over = await reached(http, run["id"])
        assert (over["status"], over["output"]) == ("completed", "published")
    assert effects(tmp_path) == ["note report", "publish home"]
