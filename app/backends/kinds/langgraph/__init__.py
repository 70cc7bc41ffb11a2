"""LangGraph: an agent's own graph, the graph of its `edges`, or LangChain's agent loop. Imported on first use.

kind          what a workspace may write about it, and how it is made
backend       which graph an agent runs
built_graphs  graphs that stay built from one run to the next
chat          the agent's model and tools as LangChain knows them
edges         the graph that `edges` describe
own_tools     tools of the graph's own, as recorded steps
session       one run of a graph: signals, questions, state
state         the state as a JSON document
workflow      the adapter of workflows
"""

from app.backends.kinds.langgraph.kind import KIND, WORKFLOWS

__all__ = ["KIND", "WORKFLOWS"]
