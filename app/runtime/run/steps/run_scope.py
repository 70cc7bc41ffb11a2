"""A run on its way through its steps: what it was given, what is known by now, what came of it.

Values that steps hand on to each other. Leaves to the steps: every decision.
"""

from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from app.backends.contract import AgentAnswer, Backend, Output
from app.core.clock import Clock
from app.core.errors import Failure
from app.core.json import JsonObject
from app.core.schemas import SchemaRegistry
from app.events.envelope import Event
from app.events.recorder import Recorder
from app.models.embeddings import Embedder
from app.models.router import ModelRouter
from app.policy.gates import AgentGates
from app.runtime.ports import BlobStore
from app.runtime.run.budgets import BudgetAccounts, RunBudget
from app.runtime.run.child_request import Branch, ChildRequest
from app.runtime.run.context import RunContext
from app.runtime.run.inlined import Load
from app.runtime.run.model_calls import ModelCalls
from app.runtime.run.run_guardrails import RunGuardrails, SecretScanners
from app.runtime.run.run_hooks import RunHooks
from app.runtime.run.run_log import RunLog
from app.runtime.run.run_memory import RunMemories, RunMemory
from app.runtime.run.steps.ports import NO_GATES, GateCatalog, Memory, NoGates, NoMemory
from app.runtime.run.tool_calls import ToolCalls
from app.runtime.run.toolsets import Toolset
from app.views.ports import Reader
from app.views.run import Run
from app.workspace.compiled import CompiledAgent, CompiledSkill, CompiledWorkflow, CompiledWorkspace


@dataclass(frozen=True, slots=True, repr=False)
class RunServices:
    """What all runs share."""

    recorder: Recorder
    reader: Reader
    clock: Clock
    router: ModelRouter
    blobs: BlobStore
    budgets: BudgetAccounts
    secrets: SecretScanners
    files: Path | None = None
    """Where the file tools keep each tenant's folder."""
    schemas: SchemaRegistry = field(default_factory=SchemaRegistry)
    gates: GateCatalog = field(default_factory=NoGates)
    memory: Memory = field(default_factory=NoMemory)
    embedder: Embedder | None = None
    memory_runs: RunMemories = field(default_factory=RunMemories)


@dataclass(slots=True, repr=False)
class RunScope:
    services: RunServices
    run: Run
    asked: Mapping[str, Any]
    """What `runtime.request.queued` says: limits, client tools and the rest of the request."""
    workspace: CompiledWorkspace
    agent: CompiledAgent
    backend: Backend
    toolset: Toolset
    log: RunLog
    budget: RunBudget
    history: Sequence[JsonObject]
    family: Sequence[Event]
    """What was stored of the root run and its subagents when it was entered."""
    given: Any
    """The input as the backend is to see it."""
    ask_agent: Callable[["RunScope", str, Any, str], Coroutine[Any, Any, AgentAnswer]]
    run_child: Callable[["RunScope", ChildRequest, Branch], Coroutine[Any, Any, AgentAnswer]]
    hooks: RunHooks
    load: Load
    """Reads what left a payload of its thread for a blob."""
    former: Callable[["RunScope", str], Coroutine[Any, Any, "RunScope | Failure"]]
    """The same run with the agent of a former workspace, by its digest."""
    guardrails: RunGuardrails | None = None
    """None for an agent that lists none."""
    ceiling: frozenset[str] | None = None
    """Of a subagent: the workspace's tools that its parent lets it use. None for a root run."""
    writes: tuple[str, ...] | None = None
    """Patterns of the files that it may write. None leaves that to its tools."""
    depth: int = 0
    root_run_id: str = ""
    workflow: CompiledWorkflow | None = None
    """Of a run that is a workflow's; `agent` then stands for it."""

    brought: bool = False
    """Whether the history came with the request, so that nobody has looked at it yet."""

    state: Any = None
    """What the thread's last run of the agent left."""

    # Known after their steps.
    policy: Sequence[str] = ()
    """What hooks added to the instructions."""
    skill: CompiledSkill | None = None
    memory: str = ""
    """What was recalled before the run planned."""
    memory_access: RunMemory | None = None
    """What it lends to memory; None for an agent without."""
    recalled: list[str] = field(default_factory=list)
    """The memory records that the run has got so far."""
    stale: list[str] = field(default_factory=list)
    """Those of them whose use is to be recorded."""
    finalized: bool = False
    """Whether memory was asked before the final answer."""
    tools: ToolCalls | None = None
    context: RunContext | None = None
    models: ModelCalls | None = None
    gates: AgentGates = NO_GATES
    own_tools: frozenset[str] = frozenset()
    """The workspace's tools that this run may use, after its skill and its parents."""
    output: Output | None = None
    left_state: Any = None
    """What this run leaves for the next one."""
