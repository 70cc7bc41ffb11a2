"""Runs an agent on LangGraph: its own graph, the graph of its edges, or LangChain's loop of model and tools."""

from typing import Any

from langgraph.pregel import Pregel

from app.backends.bridge import Bridge, bridging
from app.backends.contract import Context, Result, Resume
from app.backends.kinds.langgraph.built_graphs import BuiltGraphs
from app.backends.kinds.langgraph.chat import GateModel, agent_tools
from app.backends.kinds.langgraph.edges import edge_graph
from app.backends.kinds.langgraph.own_graph import own_graph
from app.backends.kinds.langgraph.session import GraphSession


class LangGraphBackend:
    kind = "langgraph"
    resume: Resume = "replay"

    def __init__(self) -> None:
        self._built = BuiltGraphs()

    async def run(self, ctx: Context) -> Result:
        bridge = Bridge(ctx)
        with bridging(bridge):
            graph = self._graph(bridge)
            own, edges = "graph" in ctx.config, bool(ctx.definition.spec.edges)
            session = GraphSession(bridge, graph, ctx.config, keeps_state=own)
            if edges and not own:
                session.output_key = "answer"
            await ctx.emit("agent.langgraph.invoke", workflowId=ctx.agent, traceType="adapter")
            return await bridge.converse(session.turn)

    def _graph(self, bridge: Bridge) -> Pregel[Any, Any, Any, Any]:
        ctx = bridge.ctx
        if entry := ctx.config.get("graph"):
            return self._built.of(bridge, lambda: self._loaded(bridge, entry))
        if ctx.definition.spec.edges:
            return edge_graph(bridge)
        return self._built.of(bridge, lambda: self._loop(bridge), ctx.instructions)

    def _loop(self, bridge: Bridge) -> Pregel[Any, Any, Any, Any]:
        from langchain.agents import create_agent

        return create_agent(
            GateModel(), agent_tools(bridge.tools.values()), system_prompt=bridge.ctx.instructions or None
        )

    def _loaded(self, bridge: Bridge, entry: str) -> Pregel[Any, Any, Any, Any]:
        return own_graph(entry, bridge.ctx.workspace.files, agent_tools(bridge.tools.values()))
