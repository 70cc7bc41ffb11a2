"""The graph that an agent brings along: loaded from the workspace's code, and the names of its nodes.

Leaves to others: running it (`session`), keeping it (`built_graphs`), the graph of an agent that brings none.
"""

from collections.abc import Sequence
from threading import Lock
from typing import Any, Final

from cachetools import LRUCache, cached
from langchain_core.tools import BaseTool
from langgraph.graph.state import StateGraph
from langgraph.pregel import Pregel

from app.backends.contract import StepFailed, ToolSpecView
from app.backends.kinds.langgraph.chat import GateModel, agent_tools
from app.core.errors import Failure
from app.workspace.compiled import CompiledAgent, CompiledWorkspace
from app.workspace.entry_loader import load_nearest
from app.workspace.files import WorkspaceFiles

MAX_KNOWN: Final = 100
"""Agents and versions of the workspace whose nodes are remembered."""


def own_graph(entry: str, files: WorkspaceFiles, tools: Sequence[BaseTool]) -> Pregel[Any, Any, Any, Any]:
    """The workspace's own code, read when the agent first runs; its models and tools are found by the run."""
    found = load_nearest(entry, files)
    if isinstance(found, Failure):
        raise StepFailed(found)
    if not isinstance(found, Pregel | StateGraph) and callable(found):
        found = found(GateModel(), list(tools))
    if isinstance(found, StateGraph):
        found = found.compile()
    if not isinstance(found, Pregel):
        message = f"{entry} is a {type(found).__name__}; it must be a graph, or a function (model, tools) -> graph."
        raise StepFailed(Failure("BACKEND_CONFIG_INVALID", message))
    return found


# With a lock: each request asks in a thread of its own.
@cached(LRUCache(MAX_KNOWN), key=lambda agent, workspace: (workspace.digest, agent.name), lock=Lock())
def node_names(agent: CompiledAgent, workspace: CompiledWorkspace) -> frozenset[str] | None:
    """None for an agent without a graph of its own, and for a graph that cannot be loaded: its runs say why."""
    entry = agent.spec.config.get("langgraph", {}).get("graph")
    if entry is None:
        return None
    named = [ToolSpecView(name, "", {"type": "object"}, None, "readonly") for name in (*agent.tools, *agent.subagents)]
    try:
        return frozenset(own_graph(entry, workspace.files, agent_tools(named)).nodes)
    except Exception:  # the workspace's code may raise anything
        return None
