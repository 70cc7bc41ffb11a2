"""LangGraph agents: graphs of one's own as LangGraph's documentation writes them, graphs of edges, questions, state."""

from pathlib import Path
from typing import Any

import pytest

from app.core.principal import LOCAL
from app.core.settings import Settings
from app.events.envelope import Event
from tests.adapters.space import RULES, effects, write
from tests.runs import ended, events_until, opened, payloads, submit, waiting

CHATBOT = """
from typing import Annotated
from typing_extensions import TypedDict
from langgraph.graph import StateGraph, START, END
from langgraph.graph.message import add_messages
from langgraph.prebuilt import ToolNode, tools_condition
from holdfast.langgraph import model, tools


class State(TypedDict):
    messages: Annotated[list, add_messages]
    visits: int


llm_with_tools = model().bind_tools(tools())


def chatbot(state: State):
    return {"messages": [llm_with_tools.invoke(state["messages"])], "visits": state.get("visits", 0) + 1}


graph_builder = StateGraph(State)
graph_builder.add_node("chatbot", chatbot)
graph_builder.add_node("tools", ToolNode(tools=tools()))
graph_builder.add_conditional_edges("chatbot", tools_condition)
graph_builder.add_edge("tools", "chatbot")
graph_builder.add_edge(START, "chatbot")
graph = graph_builder.compile()
"""
ASKING = """
from typing_extensions import TypedDict
from langgraph.config import get_stream_writer
from langgraph.graph import StateGraph, START, END
from langgraph.types import interrupt, Command
from langgraph.checkpoint.memory import InMemorySaver


class State(TypedDict, total=False):
    topic: str
    draft: str
    verdict: str


def build(model, tools):
    by_name = {tool.name: tool for tool in tools}

    async def write(state: State):
        get_stream_writer()({"progress": "writing"})
        kept = await by_name["note"].ainvoke({"what": state["topic"]})
        answer = await model.ainvoke("draft " + kept["kept"])
        return {"draft": answer.content}

    def review(state: State):
        verdict = interrupt({"question": "Is it good?", "draft": state["draft"]})
        return {"verdict": verdict}

    builder = StateGraph(State)
    builder.add_node("write", write)
    builder.add_node("review", review)
    builder.add_edge(START, "write")
    builder.add_edge("write", "review")
    builder.add_edge("review", END)
    return builder.compile(checkpointer=InMemorySaver())
"""
FAN_OUT = """
import asyncio
import operator
from pathlib import Path
from typing import Annotated
from typing_extensions import TypedDict
from langgraph.graph import StateGraph, START, END
from holdfast.langgraph import model, tools


class State(TypedDict):
    input: str
    parts: Annotated[list, operator.add]


EFFECTS = Path(PATH)


async def siblings():
    # Once a question is raised, no call begins.
    while not EFFECTS.exists() or len(EFFECTS.read_text().splitlines()) < 2:
        await asyncio.sleep(0.01)


def branch(name):
    async def work(state: State):
        answer = await model().bind_tools([]).ainvoke(f"{name} of {state['input']}")
        tool = next(tool for tool in tools() if tool.name == ("publish" if name == "left" else "note"))
        if name == "left":
            await siblings()
        result = await tool.ainvoke({"at": "home"} if name == "left" else {"what": name})
        return {"parts": [f"{answer.content}: {result}"]}
    return work


builder = StateGraph(State)
for name in ("left", "middle", "right"):
    builder.add_node(name, branch(name))
    builder.add_edge(START, name)
    builder.add_edge(name, END)
graph = builder
"""
OWN_MODEL = """
from langchain_core.language_models import FakeListChatModel
from langgraph.graph import StateGraph, START, MessagesState


async def speak(state: MessagesState):
    return {"messages": [await FakeListChatModel(responses=["by myself"]).ainvoke(state["messages"])]}


graph = StateGraph(MessagesState)
graph.add_node("speak", speak)
graph.add_edge(START, "speak")
"""
OWN_TOOL = '''
from pathlib import Path
from langchain.agents import create_agent
from langchain_core.tools import tool
from holdfast.langgraph import model


@tool
def add(a: int, b: int) -> int:
    """Add two numbers."""
    with Path(PATH).open("a") as lines:
        lines.write(f"add {a} {b}\\n")
    return a + b


graph = create_agent(model(), [add])
'''


def own(file: str, more: str = "") -> dict[str, tuple[str, str]]:
    return {"grapher": ("langgraph", f"  config: {{langgraph: {{graph: '{file}'{more}}}}}\n")}


def signals(events: list[Event], phase: str) -> list[dict[str, Any]]:
    found = (event.payload["event"] for event in events if event.type == "runtime.adapter.event")
    return [signal for signal in found if signal["phase"] == phase]


@pytest.mark.requirement("SH-6")
async def test_a_documented_graph_runs_with_our_model_and_tools_and_keeps_its_state(
    settings: Settings, tmp_path: Path
) -> None:
    root = write(tmp_path, own("chatbot:graph"), files={"chatbot.py": CHATBOT})
    async with opened(settings, root) as holdfast:
        first = await submit(holdfast, "grapher", "note that")
        over, events = await ended(holdfast, first), await events_until(holdfast, first)
        assert (over.status, over.output) == ("completed", "noted"), over.error
        assert effects(tmp_path) == ["note that"]
        assert len(signals(events, "agent.langgraph.invoke")) == 1
        assert [s["nodeId"] for s in signals(events, "agent.node.completed")] == ["chatbot", "tools", "chatbot"]
    async with opened(settings, root) as holdfast:
        second = await submit(holdfast, "grapher", "and now?", first.thread_id)
        over, events = await ended(holdfast, second), await events_until(holdfast, second)
        assert (over.status, over.output) == ("completed", "about and now?"), over.error
        (asked,) = payloads(events, "model.requested")
        assert [message["role"] for message in asked["messages"]] == ["user", "assistant", "tool", "assistant", "user"]
        (done,) = signals(events, "agent.node.completed")
        assert done["update"]["visits"] == 3, "the thread's state goes on counting"


@pytest.mark.requirement("SH-6")
async def test_an_interrupt_is_a_question_and_its_answer_resumes_the_graph(settings: Settings, tmp_path: Path) -> None:
    more = ", inputKey: topic, outputKey: verdict"
    root = write(tmp_path, own("asking:build", more), files={"asking.py": ASKING})
    async with opened(settings, root) as holdfast:
        run = await submit(holdfast, "grapher", "bees")
        asked = await waiting(holdfast, run)
        assert (asked.kind, asked.title) == ("question", "Is it good?")
    async with opened(settings, root) as holdfast:
        await holdfast.interrupts.answer(LOCAL, asked.id, {"answers": {"answer": "very good"}})
        over, events = await ended(holdfast, run), await events_until(holdfast, run)
        assert (over.status, over.output) == ("completed", "very good"), over.error
        assert effects(tmp_path) == ["note bees"], "the node before the interrupt is entered again and repeats nothing"
        assert len(payloads(events, "model.completed")) == 1
        assert len(signals(events, "agent.langgraph.custom")) == 1
        assert [s["nodeId"] for s in signals(events, "agent.node.completed")] == ["write", "review"]


TWO_QUESTIONS = """
import operator
from typing import Annotated
from typing_extensions import TypedDict
from langgraph.graph import StateGraph, START, END
from langgraph.types import interrupt


class State(TypedDict):
    input: str
    parts: Annotated[list, operator.add]


def asking(name):
    def ask(state: State):
        return {"parts": [f"{name}: {interrupt(f'And {name}?')}"]}
    return ask


builder = StateGraph(State)
for name in ("left", "right"):
    builder.add_node(name, asking(name))
    builder.add_edge(START, name)
    builder.add_edge(name, END)
graph = builder.compile()
"""


@pytest.mark.requirement("SH-6", "G9")
async def test_questions_of_parallel_nodes_are_asked_together_and_answered_one_by_one(
    settings: Settings, tmp_path: Path
) -> None:
    root = write(tmp_path, own("two:graph", ", outputKey: parts"), files={"two.py": TWO_QUESTIONS})
    async with opened(settings, root) as holdfast:
        run = await submit(holdfast, "grapher", "it")
        await waiting(holdfast, run)
        await holdfast.executor.idle()
        asked = await holdfast.store.reader.interrupts(
            "default", thread_id=run.thread_id, status="open", after="", limit=10
        )
        assert sorted(one.title for one in asked) == ["And left?", "And right?"]
    for one in asked:
        async with opened(settings, root) as holdfast:
            answer = {"answers": {"answer": one.title.removeprefix("And ").upper()}}
            await holdfast.interrupts.answer(LOCAL, one.id, answer)
            await holdfast.executor.idle()
    async with opened(settings, root) as holdfast:
        over = await ended(holdfast, run)
        assert over.status == "completed", over.error
        assert "left: LEFT?" in over.output and "right: RIGHT?" in over.output
        raised = payloads(await events_until(holdfast, run), "interrupt.raised")
        assert len(raised) == 2, "nobody is asked again"


@pytest.mark.requirement("SH-6", "G5")
async def test_parallel_branches_come_back_in_any_order_after_a_restart(settings: Settings, tmp_path: Path) -> None:
    files = {"fan.py": FAN_OUT.replace("PATH", repr(str(tmp_path / "effects")))}
    root = write(tmp_path, own("fan:graph", ", outputKey: parts"), rules=RULES[:1], files=files)
    async with opened(settings, root) as holdfast:
        run = await submit(holdfast, "grapher", "it")
        asked = await waiting(holdfast, run)
        await holdfast.executor.idle()
        assert sorted(effects(tmp_path)) == ["note middle", "note right"], "the siblings have ended"
    async with opened(settings, root) as holdfast:
        await holdfast.interrupts.answer(LOCAL, asked.id, {"decision": "approve"})
        over, events = await ended(holdfast, run), await events_until(holdfast, run)
        assert over.status == "completed", over.error
        assert "about left of it: done" in over.output
        assert sorted(effects(tmp_path)) == ["note middle", "note right", "publish home"]
        assert len(payloads(events, "model.completed")) == 3


@pytest.mark.requirement("SH-10")
async def test_a_model_of_the_graphs_own_needs_the_agents_word(settings: Settings, tmp_path: Path) -> None:
    agents = {
        "kept": ("langgraph", "  config: {langgraph: {graph: 'own:graph'}}\n"),
        "free": ("langgraph", "  config: {langgraph: {graph: 'own:graph', ungoverned: true}}\n"),
    }
    root = write(tmp_path, agents, files={"own.py": OWN_MODEL})
    async with opened(settings, root) as holdfast:
        over = await ended(holdfast, await submit(holdfast, "kept", "hello"))
        assert over.error is not None and over.error["code"] == "BACKEND_UNGOVERNED"
        over = await ended(holdfast, await submit(holdfast, "free", "hello"))
        assert (over.status, over.output) == ("completed", "by myself"), over.error


LOOSE_TOOL = """
from langchain_core.tools import tool
from langgraph.graph import StateGraph, START, MessagesState
from langchain_core.messages import AIMessage


@tool
def loose(text: str) -> str:
    \"\"\"Says it again.\"\"\"
    return text


async def speak(state: MessagesState):
    return {"messages": [AIMessage(await loose.ainvoke({"text": "by a tool"}))]}


graph = StateGraph(MessagesState)
graph.add_node("speak", speak)
graph.add_edge(START, "speak")
"""


@pytest.mark.requirement("SH-10")
async def test_a_tool_outside_a_tool_node_needs_the_agents_word(settings: Settings, tmp_path: Path) -> None:
    agents = {
        "kept": ("langgraph", "  config: {langgraph: {graph: 'loose:graph'}}\n"),
        "free": ("langgraph", "  config: {langgraph: {graph: 'loose:graph', ungoverned: true}}\n"),
    }
    root = write(tmp_path, agents, files={"loose.py": LOOSE_TOOL})
    async with opened(settings, root) as holdfast:
        over = await ended(holdfast, await submit(holdfast, "kept", "hello"))
        assert over.error is not None and over.error["code"] == "BACKEND_UNGOVERNED"
        over = await ended(holdfast, await submit(holdfast, "free", "hello"))
        assert (over.status, over.output) == ("completed", "by a tool"), over.error


async def test_a_tool_of_the_graphs_own_is_a_recorded_step(settings: Settings, tmp_path: Path) -> None:
    rules = (
        "{match: {afterTool: publish}, reply: {text: published}}",
        "{match: {afterTool: add}, reply: {toolCalls: [{name: publish, args: {at: home}}]}}",
        "{match: {contains: add}, reply: {toolCalls: [{name: add, args: {a: 2, b: 3}}]}}",
    )
    code = OWN_TOOL.replace("PATH", repr(str(tmp_path / "effects"))).replace("[add])", "[add, *tools()])")
    code = code.replace("import model", "import model, tools")
    root = write(tmp_path, own("adding:graph"), rules, {"adding.py": code})
    async with opened(settings, root) as holdfast:
        run = await submit(holdfast, "grapher", "add 2 and 3")
        asked = await waiting(holdfast, run)
        events = await events_until(holdfast, run, "runtime.interrupt.raised")
        (started,), (result,) = signals(events, "agent.tool.start"), signals(events, "agent.tool.result")
        assert started["toolId"] == result["toolId"] == "add" and started["args"] == {"a": 2, "b": 3}
    async with opened(settings, root) as holdfast:
        await holdfast.interrupts.answer(LOCAL, asked.id, {"decision": "approve"})
        over = await ended(holdfast, run)
        assert (over.status, over.output) == ("completed", "published"), over.error
        assert effects(tmp_path) == ["add 2 3", "publish home"]


EDGES = """\
  subagents: [helper]
  skills: [polish]
  edges:
    - {from: START, to: tools.note}
    - {from: tools.note, to: agents.helper, condition: long}
    - {from: tools.note, to: skills.polish, condition: short}
    - {from: agents.helper, to: END}
    - {from: skills.polish, to: END}
  routers:
    tools.note: [{label: long, when: "size(nodes['tools.note'].output.kept) > 5"}, {label: short}]
"""
SKILL = "---\nname: polish\ndescription: Polishes.\nallowed-tools: [note]\n---\nPolish it.\n"


@pytest.mark.requirement("SH-6", "SH-10")
async def test_edges_are_a_graph_whose_routers_choose_labels(settings: Settings, tmp_path: Path) -> None:
    agents = {"router": ("langgraph", EDGES), "helper": ("native", "")}
    root = write(tmp_path, agents, rules=RULES[:2], files={"skills/polish/SKILL.md": SKILL})
    async with opened(settings, root) as holdfast:
        long = await submit(holdfast, "router", {"what": "a long one"})
        over, events = await ended(holdfast, long), await events_until(holdfast, long)
        assert over.status == "completed", over.error
        assert [s["nodeId"] for s in signals(events, "agent.node.completed")] == ["tools.note", "agents.helper"]
        assert over.output == 'about {"kept":"a long one"}', "the subagent is given the tool's object"
        short = await submit(holdfast, "router", {"what": "bee"})
        over, events = await ended(holdfast, short), await events_until(holdfast, short)
        assert [s["nodeId"] for s in signals(events, "agent.node.completed")] == ["tools.note", "skills.polish"]
        (asked,) = payloads(events, "model.requested")
        assert "Polish it." in asked["messages"][0]["content"]
        text = await submit(holdfast, "router", "bee")
        await ended(holdfast, text)
        (guarded,) = payloads(await events_until(holdfast, text), "tool.guarded")
        assert "input" in str(guarded), "a text is the tool's `input`, which the guard makes of what the tool takes"
        bad = await ended(holdfast, await submit(holdfast, "router", {"wrong": 1}))
        assert bad.status == "failed", "a failed node without an edge for it fails the run"


CYCLE = """\
  skills: [polish]
  config:
    langgraph:
      maxVisits: 3
      handlers: {tools.note: "steps:count"}
      resolvers: {skills: "steps:polish"}
  edges:
    - {from: START, to: tools.note}
    - {from: tools.note, to: tools.note, condition: again}
    - {from: tools.note, to: tools.publish, condition: enough}
    - {from: tools.publish, to: END}
    - {from: tools.publish, to: skills.polish, condition: failed}
    - {from: skills.polish, to: END}
  routers:
    tools.note: [{label: again, when: "visits['tools.note'] < 3"}, {label: enough}]
"""
STEPS = """
def count(node, given, state):
    return {"at": "home"} if node.visit == 3 else {"visit": node.visit}

async def polish(node, given, state):
    return f"{node.kind}/{node.name} after {sorted(state['nodes'])}"
"""


@pytest.mark.requirement("SH-6")
async def test_handlers_resolvers_cycles_and_failed_nodes_of_a_graph_of_edges(
    settings: Settings, tmp_path: Path
) -> None:
    files = {"skills/polish/SKILL.md": SKILL, "steps.py": STEPS}
    agents = {"cycle": ("langgraph", CYCLE), "short": ("langgraph", CYCLE.replace("maxVisits: 3", "maxVisits: 2"))}
    root = write(tmp_path, agents, files=files)
    async with opened(settings, root) as holdfast:
        run = await submit(holdfast, "cycle", "go")
        asked = await waiting(holdfast, run)
        assert (asked.kind, asked.tool, asked.arguments) == ("approval", "publish", {"at": "home"})
    async with opened(settings, root) as holdfast:
        await holdfast.interrupts.answer(LOCAL, asked.id, {"decision": "deny"})
        over, events = await ended(holdfast, run), await events_until(holdfast, run)
        assert over.status == "completed", over.error
        nodes = [s["nodeId"] for s in signals(events, "agent.node.completed")]
        assert nodes == ["tools.note"] * 3 + ["tools.publish", "skills.polish"], (
            "the call was denied, so its node failed"
        )
        assert over.output == "skills/polish after ['tools.note', 'tools.publish']"
        assert effects(tmp_path) == [], "a handler stands for its tool"
        over = await ended(holdfast, await submit(holdfast, "short", "go"))
        assert over.error is not None and over.error["code"] == "NODE_VISITS_EXCEEDED"
