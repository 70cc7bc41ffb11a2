"""The tools of one workspace by name, each with its guard. Built once; a tool whose definition cannot work
is an error here, so that none is ever offered unguarded."""

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from types import MappingProxyType

from app.core.errors import Failure
from app.core.value import value
from app.events.catalog.values import Effect
from app.tools.contract import Tool, ToolDefinition
from app.tools.guard import Guard, ToolInvalid
from app.workspace.specs.agent import McpSelection


@value(frozen=True, slots=True)
class Registered:
    tool: Tool
    guard: Guard

    @property
    def definition(self) -> ToolDefinition:
        return self.guard.definition


class Registry:
    def __init__(
        self,
        tools: Iterable[Tool | Registered],
        *,
        root: Path | None = None,
        unavailable: Mapping[str, Failure] | None = None,
        selected: Mapping[McpSelection, frozenset[str]] | None = None,
    ) -> None:
        """`root` is the folder beneath which path arguments must stay, for tools that have no guard yet."""
        self.unavailable: Mapping[str, Failure] = MappingProxyType(dict(unavailable or {}))
        """Tools that are declared and cannot be offered now, with the reason."""
        self.selected: Mapping[McpSelection, frozenset[str]] = MappingProxyType(dict(selected or {}))
        """The tools that agents have by naming a server rather than a tool."""
        self._tools: dict[str, Registered] = {}
        for tool in tools:
            definition = tool.definition
            if definition.name in self._tools:
                raise ToolInvalid(definition.name, "two tools have this name")
            guarded = tool if isinstance(tool, Registered) else Registered(tool, Guard(definition, root))
            self._tools[definition.name] = guarded
        self.effects: Mapping[str, Effect] = MappingProxyType(
            {name: registered.definition.effect for name, registered in self._tools.items()}
        )

    @classmethod
    def extended(cls, known: "Registry", more: Iterable[Tool | Registered]) -> "Registry":
        """The known tools and some that only one run has; a name that is taken is refused."""
        both = cls(more)
        for name, registered in known._tools.items():
            if name in both._tools:
                raise ToolInvalid(name, "two tools have this name")
            both._tools[name] = registered
        both.unavailable = known.unavailable
        both.effects = MappingProxyType({**known.effects, **both.effects})
        return both

    def find(self, name: str) -> Registered | None:
        return self._tools.get(name)

    def definitions(self, allowed: Iterable[str] | None = None) -> list[ToolDefinition]:
        """What may be offered to a model, in the order of registration."""
        scope = None if allowed is None else frozenset(allowed)
        return [r.definition for name, r in self._tools.items() if scope is None or name in scope]

    def __iter__(self) -> Iterator[str]:
        return iter(self._tools)

    def __len__(self) -> int:
        return len(self._tools)
