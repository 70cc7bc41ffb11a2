"""A graph of the user's own for LangGraph's clients: a subgraph, a model, a node that acts, one that asks and acts."""

from pathlib import Path
from typing import Final

from tests.adapters.space import effects, write

GRAPH: Final = """
import operator
from typing import Annotated
from langgraph.config import get_stream_writer
from langgraph.graph import START, END, MessagesState, StateGraph
from langgraph.types import interrupt

class Inner(MessagesState):
    seen: str

class Outer(Inner):
    notes: Annotated[list[str], operator.add]
    verdict: str

def look(state):
    get_stream_writer()({"name": "looking", "at": state["messages"][-1].content})
    return {"seen": "looked"}

def graph(model, tools):
    note = {tool.name: tool for tool in tools}["note"]
    inner = StateGraph(Inner)
    inner.add_node("look", look)
    inner.add_edge(START, "look")
    inner.add_edge("look", END)
    outer = StateGraph(Outer)

    async def think(state):
        return {"messages": [await model.ainvoke(state["messages"])], "notes": ["thought"]}

    async def act(state):
        await note.ainvoke({"what": "before " + state["messages"][0].content})

    async def keep(state):  # LangGraph runs a node that asks again from its beginning: nothing acts before the question
        verdict = interrupt({"question": "Is it good?"})
        await note.ainvoke({"what": f"after {verdict} {state['messages'][0].content}"})
        return {"verdict": verdict, "notes": ["kept"]}

    outer.add_node("research", inner.compile())
    outer.add_node("think", think)
    outer.add_node("act", act)
    outer.add_node("keep", keep)
    outer.add_edge(START, "research")
    outer.add_edge("research", "think")
    outer.add_edge("think", "act")
    outer.add_edge("act", "keep")
    outer.add_edge("keep", END)
    return outer.compile()
"""


def write_own(folder: Path) -> Path:
    """A workspace with the agent `own`."""
    more = "  config: {langgraph: {graph: 'own:graph'}}\n"
    return write(folder, {"own": ("langgraph", more)}, files={"own.py": GRAPH})


def effects_of(folder: Path) -> list[str]:
    """What its tool did, a line for each time."""
    return effects(folder)
