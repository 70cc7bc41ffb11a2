"""What a compiled workspace needs at run time: its models as plans, its tools behind one gateway, its hooks."""

from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final

from app.core.errors import Failure
from app.core.schemas import SchemaRegistry
from app.models.plans import ModelPlans
from app.policy.contract import Point
from app.policy.hooks import HookRunner
from app.tools.gateway import Gateway
from app.tools.registry import Registry
from app.workspace.compiled import CompiledAgent, CompiledWorkspace

BuildTools = Callable[[CompiledWorkspace], Awaitable[Registry | list[Failure]]]
BuildHooks = Callable[[CompiledWorkspace], HookRunner | list[Failure]]

MAX_KITS: Final = 8
_RECORDING: Final = 30.0  # seconds for the events of a firing to be stored, beyond what its hooks may take


def _no_hooks(_workspace: CompiledWorkspace) -> HookRunner:
    return HookRunner(schemas=SchemaRegistry())


@dataclass(frozen=True)
class Kit:
    workspace: CompiledWorkspace
    plans: ModelPlans
    gateway: Gateway
    hooks: HookRunner
    _tools_of: dict[str, frozenset[str]] = field(default_factory=dict, init=False, repr=False, compare=False)

    @cached_property
    def roles(self) -> Mapping[str, str]:
        return {role.name: role.prompt for role in self.workspace.roles.values()}

    def tools_of(self, agent: CompiledAgent) -> frozenset[str]:
        """What an agent may call of the workspace: its tools and its subagents."""
        found = self._tools_of.get(agent.name)
        if found is None:
            found = self._tools_of[agent.name] = frozenset((*agent.tools, *agent.subagents))
        return found

    def gate(self, registry: Registry) -> Gateway:
        return _gate(registry, self.hooks)


class Kits:
    def __init__(self, build_tools: BuildTools, build_hooks: BuildHooks = _no_hooks) -> None:
        self._build_tools, self._build_hooks = build_tools, build_hooks
        self._built: OrderedDict[str, Kit] = OrderedDict()

    def at_hand(self, workspace: CompiledWorkspace) -> Kit | None:
        """If it was built before."""
        return self._built.get(workspace.digest)

    async def of(self, workspace: CompiledWorkspace) -> Kit | Failure:
        """A tool or hook that cannot be made is the failure of every run that uses its workspace (fail closed)."""
        kit = self._built.get(workspace.digest)
        if kit is None:
            registry = await self._build_tools(workspace)
            if not isinstance(registry, Registry):
                return registry[0]
            hooks = self._build_hooks(workspace)
            if not isinstance(hooks, HookRunner):
                return hooks[0]
            kit = Kit(workspace, ModelPlans(workspace.models), _gate(registry, hooks), hooks)
            self._built[workspace.digest] = kit
            while len(self._built) > MAX_KITS:
                self._built.popitem(last=False)
        return kit


def _gate(registry: Registry, hooks: HookRunner) -> Gateway:
    """Each hook has its own time; the gate's is only for what goes wrong beyond that."""
    return Gateway(registry, hook_timeout=hooks.patience(Point.PRE_TOOL_USE, Point.POST_TOOL_USE) + _RECORDING)
