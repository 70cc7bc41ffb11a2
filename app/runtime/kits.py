"""What a compiled workspace needs at run time: its models as plans, its tools behind one gateway."""

from collections import OrderedDict
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final

from app.core.errors import Failure
from app.models.plans import ModelPlans
from app.tools.gateway import Gateway
from app.tools.registry import Registry
from app.workspace.compiled import CompiledWorkspace

BuildTools = Callable[[CompiledWorkspace], Awaitable[Registry | list[Failure]]]

MAX_KITS: Final = 8


@dataclass(frozen=True, slots=True)
class Kit:
    workspace: CompiledWorkspace
    plans: ModelPlans
    gateway: Gateway


class Kits:
    def __init__(self, build_tools: BuildTools) -> None:
        self._build_tools = build_tools
        self._built: OrderedDict[str, Kit] = OrderedDict()

    async def of(self, workspace: CompiledWorkspace) -> Kit | Failure:
        """A tool that cannot be made is the failure of every run that uses its workspace (fail closed)."""
        kit = self._built.get(workspace.digest)
        if kit is None:
            registry = await self._build_tools(workspace)
            if not isinstance(registry, Registry):
                return registry[0]
            kit = self._built[workspace.digest] = Kit(workspace, ModelPlans(workspace.models), Gateway(registry))
            while len(self._built) > MAX_KITS:
                self._built.popitem(last=False)
        return kit
