"""The agent's model and tools for a LangGraph graph of your own, `config.langgraph.graph` of an agent.

    from holdfast.langgraph import model, tools

    agent = create_agent(model(), tools())

A graph may also be a function `(model, tools) -> graph`, which gets the same. Needs the extra `langgraph`.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from langchain.agents.middleware import AgentMiddleware
    from langchain_core.language_models import BaseChatModel
    from langchain_core.tools import BaseTool

__all__ = ["middleware", "model", "tools"]


def model() -> "BaseChatModel":
    """The model of the agent's plan, with its fallbacks, budgets and redaction. Acts for the run that calls it."""
    from app.backends.kinds.langgraph.chat import GateModel

    return GateModel()


def tools() -> "list[BaseTool]":
    """The tools of the agent whose graph is being built: call it in the graph's module or function."""
    from app.backends.bridge import current_bridge
    from app.backends.kinds.langgraph.chat import agent_tools

    return agent_tools(current_bridge().tools.values())


def middleware() -> "AgentMiddleware":
    """Makes the tools that an agent of yours runs itself recorded steps: for subagents that you build yourself."""
    from app.backends.kinds.langgraph.own_tools import RecordedTools

    return RecordedTools(outside=True)
