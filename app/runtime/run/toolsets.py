"""What a compiled workspace needs at run time: its models as plans, its tools behind one gateway, its rules."""

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from cachetools import LRUCache

from app.core.errors import Failure
from app.core.recent import RecentDict
from app.core.schemas import SchemaRegistry
from app.core.value import value
from app.models.completion import ReasoningLevel
from app.models.contract import ContentPolicy
from app.models.negotiate import ModelChoice
from app.models.plans import ModelPlans
from app.policy.contract import Point
from app.policy.guardrails.declared import RuleBook
from app.policy.hooks import HookRunner
from app.runtime.run.budgets import tightest
from app.runtime.run.parameters import reasoning_level, sampling
from app.tools.gateway import Gateway
from app.tools.registry import Registry
from app.workspace.compiled import CompiledAgent, CompiledWorkspace
from app.workspace.specs.base import Limits
from app.workspace.specs.plain import plain
from app.workspace.specs.runtime import TenantBudget

BuildTools = Callable[[CompiledWorkspace], Awaitable[Registry | list[Failure]]]
BuildHooks = Callable[[CompiledWorkspace], HookRunner | list[Failure]]
BuildGuardrails = Callable[[CompiledWorkspace], RuleBook | list[Failure]]

MAX_TOOLSETS: Final = 8
RETRY_SECONDS: Final = 2.0
LONGEST_RETRY_SECONDS: Final = 60.0
"""Between two tries to get the tools of a server that could not be reached."""
_RECORDING: Final = 30.0  # seconds for the events of a firing to be stored, beyond what its hooks may take


def _no_hooks(_workspace: CompiledWorkspace) -> HookRunner:
    return HookRunner(schemas=SchemaRegistry())


def _no_guardrails(_workspace: CompiledWorkspace) -> RuleBook:
    return RuleBook()


@value(frozen=True, slots=True)
class AgentSetup:
    """What all runs of an agent have in common. Put together once: reading it from the agent's and the workspace's
    documents would cost each run more than what it does with it."""

    tools: frozenset[str]
    """What it may call of the workspace besides its subagents, which a step of a workflow may take away."""
    plan: ModelChoice | None
    """The models of its own plan; None if it has none, or the workspace has no such model."""
    limits: Limits
    """What a run may use, unless its request asks for less."""
    daily: TenantBudget
    person_ms: int
    """How long a person has to answer."""
    sampling: Mapping[str, Any]
    reasoning: ReasoningLevel | None
    parallel_tools: bool
    output_schema: Mapping[str, Any] | None
    learns: bool
    """Whether it has a memory."""
    hides_personal_data: bool
    contents: ContentPolicy
    """What of its model calls goes to the log."""


@dataclass(frozen=True)
class Toolset:
    workspace: CompiledWorkspace
    plans: ModelPlans
    gateway: Gateway
    hooks: HookRunner
    guardrails: RuleBook = field(default_factory=RuleBook)
    steps: dict[str, tuple[Callable[..., Awaitable[None]], ...]] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )
    """By agent: the steps of its runs that may have something to do, as the conductor found them."""
    _setups: dict[str, AgentSetup] = field(default_factory=dict, init=False, repr=False, compare=False)

    def setup_of(self, agent: CompiledAgent) -> AgentSetup:
        found = self._setups.get(agent.name)
        if found is None:
            found = self._setups[agent.name] = self._set_up(agent)
        return found

    def _set_up(self, agent: CompiledAgent) -> AgentSetup:
        workspace, spec = self.workspace, agent.spec
        runtime, model_plan = workspace.runtime, agent.model_plan
        selected = self.gateway.registry.selected
        offered = (name for one in agent.mcp_selections for name in selected.get(one, ()))
        return AgentSetup(
            tools=frozenset((*agent.tools, *offered)),
            plan=self.plans.plan(model_plan) if model_plan and model_plan.primary in workspace.models else None,
            limits=plain(tightest(runtime.budgets.run, spec.limits)),
            daily=plain(runtime.budgets.tenant),
            person_ms=int(runtime.interrupts.expires_seconds * 1000),
            sampling=sampling(spec.parameters),
            reasoning=reasoning_level(spec.reasoning),
            parallel_tools=spec.parallel_tools,
            output_schema=spec.output_schema,
            learns=bool(spec.memory),
            hides_personal_data=runtime.redaction.in_prompts,
            contents=ContentPolicy("full", runtime.redaction.reasoning),
        )

    def gate(self, registry: Registry) -> Gateway:
        return _gate(registry, self.hooks)


class Toolsets:
    def __init__(
        self,
        build_tools: BuildTools,
        build_hooks: BuildHooks = _no_hooks,
        build_guardrails: BuildGuardrails = _no_guardrails,
    ) -> None:
        self._build_tools, self._build_hooks, self._build_guardrails = build_tools, build_hooks, build_guardrails
        self._built: RecentDict[str, Toolset] = RecentDict(MAX_TOOLSETS)
        self._retries: LRUCache[str, tuple[float, float]] = LRUCache(MAX_TOOLSETS)
        """Of those that lack tools: the pause before the next try, and when it is due."""
        self._retrying: asyncio.Task[None] | None = None

    def cached(self, workspace: CompiledWorkspace) -> Toolset | None:
        """If it was built before. One that lacks tools is built again meanwhile; runs go on with what it has."""
        toolset = self._built.get(workspace.digest)
        if toolset is not None:
            self._built.move_to_end(workspace.digest)
            if toolset.gateway.registry.unavailable:
                self._retry(workspace)
        return toolset

    def _retry(self, workspace: CompiledWorkspace) -> None:
        digest, now = workspace.digest, time.monotonic()
        pause, due = self._retries.get(digest, (RETRY_SECONDS, now + RETRY_SECONDS))
        if digest not in self._retries:
            self._retries[digest] = (pause, due)
        elif now >= due and self._retrying is None:
            longer = min(LONGEST_RETRY_SECONDS, pause * 2)
            self._retries[digest] = (longer, now + longer)
            self._retrying = asyncio.create_task(self._build_again(workspace), name="holdfast-tools-again")

    async def close(self) -> None:
        if self._retrying is not None:
            self._retrying.cancel()
            await asyncio.wait({self._retrying})

    async def _build_again(self, workspace: CompiledWorkspace) -> None:
        try:
            before = self._built.get(workspace.digest)
            toolset = await self._build(workspace)
            if before is not None and isinstance(toolset, Toolset) and workspace.digest in self._built:
                self._built.put(workspace.digest, toolset)
                if not toolset.gateway.registry.unavailable:
                    self._retries.pop(workspace.digest, None)
        finally:
            self._retrying = None

    async def of(self, workspace: CompiledWorkspace) -> Toolset | Failure:
        """A tool or hook that cannot be made is the failure of every run that uses its workspace (fail closed)."""
        toolset = self.cached(workspace)
        if toolset is not None:
            return toolset
        made = await self._build(workspace)
        if isinstance(made, Toolset):
            self._built.put(workspace.digest, made)
        return made

    async def _build(self, workspace: CompiledWorkspace) -> Toolset | Failure:
        registry = await self._build_tools(workspace)
        if not isinstance(registry, Registry):
            return registry[0]
        hooks = self._build_hooks(workspace)
        if not isinstance(hooks, HookRunner):
            return hooks[0]
        # Rules may take a while to make, such as the pipeline of an optional extra.
        rules = await asyncio.to_thread(self._build_guardrails, workspace) if workspace.guardrails else RuleBook()
        if not isinstance(rules, RuleBook):
            return rules[0]
        return Toolset(workspace, ModelPlans(workspace.models), _gate(registry, hooks), hooks, rules)


def _gate(registry: Registry, hooks: HookRunner) -> Gateway:
    """Each hook has its own time; the gate's is only for what goes wrong beyond that."""
    return Gateway(registry, hook_timeout=hooks.patience(Point.PRE_TOOL_USE, Point.POST_TOOL_USE) + _RECORDING)
