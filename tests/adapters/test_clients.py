"""Programs as LangGraph's and DeepAgents' documentation writes them, behind the OpenAI endpoint and the stream socket.

Nothing is changed in them but where the model and the tools come from. The server is killed while one of them waits.
"""

import asyncio
import shutil
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import httpx2
import pytest
from openai import AsyncOpenAI
from websockets.asyncio.client import connect

from app.core import json
from tests.adapters.space import effects, write
from tests.adapters.test_langgraph import CHATBOT
from tests.clients import reached, receive, submit
from tests.server import ServerProcess

PROGRAMS = ("chatbot", "calculator", "researcher")
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
CALCULATOR = """
import operator
from typing import Annotated, Literal

from langchain.messages import AnyMessage, SystemMessage, ToolMessage
from langgraph.graph import END, START, StateGraph
from typing_extensions import TypedDict

from holdfast.langgraph import model as holdfast_model, tools as holdfast_tools

model, tools = holdfast_model(), holdfast_tools()
tools_by_name = {tool.name: tool for tool in tools}
model_with_tools = model.bind_tools(tools)


class MessagesState(TypedDict):
    messages: Annotated[list[AnyMessage], operator.add]
    llm_calls: int


def llm_call(state: dict):
    said = model_with_tools.invoke([SystemMessage(content="You work with tools."), *state["messages"]])
    return {"messages": [said], "llm_calls": state.get("llm_calls", 0) + 1}


def tool_node(state: dict):
    result = []
    for tool_call in state["messages"][-1].tool_calls:
        tool = tools_by_name[tool_call["name"]]
        observation = tool.invoke(tool_call["args"])
        result.append(ToolMessage(content=observation, tool_call_id=tool_call["id"]))
    return {"messages": result}


def should_continue(state: MessagesState) -> Literal["tool_node", END]:
    return "tool_node" if state["messages"][-1].tool_calls else END


agent_builder = StateGraph(MessagesState)
agent_builder.add_node("llm_call", llm_call)
agent_builder.add_node("tool_node", tool_node)
agent_builder.add_edge(START, "llm_call")
agent_builder.add_conditional_edges("llm_call", should_continue, ["tool_node", END])
agent_builder.add_edge("tool_node", "llm_call")
agent = agent_builder.compile()
"""
"""The shape of the quickstart of LangGraph's documentation: its nodes call the tools with the arguments alone."""
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
    entries = {"chatbot": "chatbot:graph", "calculator": "calculator:agent", "researcher": "research:agent"}
    agents = {name: ("langgraph", config % entry) for name, entry in entries.items()}
    files = {"chatbot.py": CHATBOT, "calculator.py": CALCULATOR, "research.py": RESEARCHER}
    root = write(tmp_path, agents, RULES, files)
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
    answer = await client.chat.completions.create(
        model="calculator", messages=[{"role": "user", "content": "note that"}]
    )
    assert answer.choices[0].message.content == "The report is written."
    assert effects(tmp_path) == ["note report", "note that"]
    await client.close()

    async with httpx2.AsyncClient(base_url=first.url, timeout=30) as http:
        runs = [await streamed_until_it_waits(first, http, agent) for agent in PROGRAMS]
    await asyncio.to_thread(first.kill)
    server.append(await asyncio.to_thread(first.again))
    async with httpx2.AsyncClient(base_url=server[-1].url, timeout=30) as http:
        for run in runs:
            (asked,) = run["waitingOn"]
            answered = await http.post(f"/api/interrupts/{asked}/answer", json={"decision": "approve"})
            assert answered.status_code == 200, answered.text
            over = await reached(http, run["id"])
            assert (over["status"], over["output"]) == ("completed", "published"), run["agent"]
            events = (await http.get(f"/api/runs/{run['id']}/events")).json()["items"]
            said = [event["payload"] for event in events if event["type"] == "runtime.model.completed"]
            (result,) = [event["payload"] for event in events if event["type"] == "runtime.tool.resulted"]
            assert result["callId"] == said[0]["toolCalls"][0]["id"], "the result belongs to the model's call"
    assert effects(tmp_path) == ["note report", "note that", *["publish home"] * len(PROGRAMS)]


async def streamed_until_it_waits(server: ServerProcess, http: httpx2.AsyncClient, agent: str) -> dict[str, Any]:
    """A run of the program, followed on the stream socket from its first event to its approval."""
    async with connect(server.stream_url) as socket:
        assert (await receive(socket))["type"] == "ready"
        run = await submit(http, agent, "publish it")
        subscribe = {"type": "subscribe", "threadId": run["threadId"], "after": 0}
        await socket.send(json.dumps(subscribe).decode())
        seen: list[str] = []
        async with asyncio.timeout(30):
            while "runtime.interrupt.raised" not in seen:
                seen.append((await receive(socket, 30))["type"])
        assert "runtime.adapter.event" in seen and "runtime.model.completed" in seen
    return await reached(http, run["id"], "waiting")
