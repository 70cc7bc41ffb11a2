"""LangGraph: an agent's own graph, the graph of its `edges`, or LangChain's agent loop. Imported on first use.

kind       what a workspace may write about it, and how it is made
chat       the agent's model and tools as LangChain knows them
graphs     which graph an agent runs, and the one that `edges` describe
session    one run of a graph: signals, questions, state
workflow   the adapter of workflows
"""

from app.backends.kinds.langgraph.kind import KIND, WORKFLOWS

__all__ = ["KIND", "WORKFLOWS"]
