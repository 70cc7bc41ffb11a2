"""What a workspace may write about a LangGraph agent, without importing LangGraph."""

from typing import Annotated, Final

from pydantic import Field

from app.backends.contract import Backend, BackendKind
from app.backends.workflow_contract import WorkflowAdapter, WorkflowAdapterKind
from app.workspace.compiled import CompiledAgent, CompiledWorkspace
from app.workspace.specs.base import Entry, Name, Spec, Text


class LangGraphConfig(Spec):
    """`config.langgraph` of an agent."""

    graph: Entry | None = Field(
        None, description="Your own graph as `module:attribute`: a graph, or a function of (model, tools)."
    )
    ungoverned: bool = Field(
        False,
        description="Allows a graph with models or tools of its own, which bypass budgets, approvals and the log.",
    )
    input_key: Text | None = Field(None, description="The key of the graph's state that receives the input.")
    output_key: Text | None = Field(None, description="The key of the graph's state that is the answer.")
    recursion_limit: Annotated[int, Field(ge=1, le=10_000)] = Field(
        100, description="The most steps that the graph may take in one turn."
    )
    max_visits: Annotated[int, Field(ge=1, le=1000)] | None = Field(
        None, description="Allows cycles in `edges`, and how often a node may run. Without it a cycle is an error."
    )
    handlers: dict[Text, Entry] = Field(
        default_factory=dict, description="Functions that run a node instead of the default, by node or reference."
    )
    resolvers: dict[Name, Entry] = Field(
        default_factory=dict, description="Functions that run all nodes of a kind: `tools`, `skills` or `agents`."
    )


def _make() -> Backend:
    from app.backends.kinds.langgraph.backend import LangGraphBackend

    return LangGraphBackend()


def _make_adapter() -> WorkflowAdapter:
    from app.backends.kinds.langgraph.workflow import LangGraphAdapter

    return LangGraphAdapter()


def _nodes_of(agent: CompiledAgent, workspace: CompiledWorkspace) -> frozenset[str] | None:
    from app.backends.kinds.langgraph.own_graph import node_names

    return node_names(agent, workspace)


WORKFLOWS: Final = WorkflowAdapterKind(
    name="langgraph", make=_make_adapter, extra="langgraph", module="langgraph.graph"
)

KIND: Final = BackendKind(
    name="langgraph",
    make=_make,
    config=LangGraphConfig,
    entry_fields=("graph",),
    extra="langgraph",
    module="langgraph.graph",
    needs_model=False,
    runs_edges=True,
    nodes_of=_nodes_of,
)
