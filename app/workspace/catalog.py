"""Which kinds exist: backends, providers, tools, evaluators, guardrails and hooks; passed in with the compiler.

A kind describes itself with one value. Kinds that ship are listed in `wiring/kinds.py`; one of an installed package is
loaded when a document first names it, so that a package that nobody uses costs nothing and breaks nothing.
"""

import importlib.util
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from importlib.machinery import PathFinder
from typing import TypeVar

from pydantic import BaseModel, ConfigDict

from app.core.value import contract_value
from app.workspace.served import UnservedParts
from app.workspace.specs.base import Spec


class NoConfig(Spec):
    """The `config` of a kind that reads none."""


class AnyConfig(BaseModel):
    """The `config` of a kind that takes whatever it is given."""

    model_config = ConfigDict(extra="allow")


def has_module(name: str) -> bool:
    """Whether a module is installed; looks it up, part by part, without importing any of its packages.

    That `google` is there says nothing of `google.adk`: the packages of many vendors share such a name.
    """
    first, *rest = name.split(".")
    try:
        found = importlib.util.find_spec(first)
        for part in rest:
            if found is None or found.submodule_search_locations is None:
                return False
            found = PathFinder.find_spec(f"{found.name}.{part}", found.submodule_search_locations)
    except (ImportError, ValueError):
        return False
    return found is not None


@dataclass(frozen=True, kw_only=True)
class Kind:
    """What a kind says of itself. Each package of kinds adds how one is made."""

    name: str
    """What a document writes: `backend`, `provider`, or `kind` of a Tool or an Evaluator."""
    config: type[BaseModel] = NoConfig
    """The model of the `config` section that is passed to it."""
    extra: str | None = None
    """The optional extra of Holdfast that brings what it imports."""
    module: str | None = None
    """A module of that extra: where it is missing, the kind is known and cannot be used."""
    entry_fields: tuple[str, ...] = ()
    """The keys of `config` that name `module:attribute`, or a list of such names."""
    runs_edges: bool = False
    """Whether it runs an agent's `edges`. For backends."""
    needs_model: bool = False
    """Whether what uses it must name a model: an agent, evaluator or guardrail its own, a Memory its `embedding`."""
    needs_entry: bool = False
    """Whether a document that uses it must name a function. For evaluators and guardrails."""

    @property
    def installed(self) -> bool:
        return self.module is None or has_module(self.module)

    @property
    def remedy(self) -> str:
        return f"run: pip install 'holdfast[{self.extra}]'" if self.extra else f"install the module {self.module}"


@dataclass(frozen=True, kw_only=True)
class RuleKind(Kind):
    """A kind of guardrail, as far as the compiler has to know it."""

    redacts: bool = True
    """Whether it says where it found something; one that does not cannot have the action `redact`."""


@contract_value(frozen=True, slots=True)
class BrokenKind:
    """A kind that an installed package offers and that cannot be used."""

    name: str
    package: str
    reason: str


K = TypeVar("K", bound=Kind, covariant=True)
Load = Callable[[], K | BrokenKind]


class Kinds(Mapping[str, K | BrokenKind]):
    """Kinds by name. Those of installed packages are loaded when they are first looked up, once."""

    def __init__(self, kinds: Iterable[K] = (), offered: Mapping[str, Load[K]] | None = None) -> None:
        self._kinds: dict[str, K | BrokenKind] = {kind.name: kind for kind in kinds}
        self._offered = {name: load for name, load in (offered or {}).items() if name not in self._kinds}

    def __getitem__(self, name: str) -> K | BrokenKind:
        if name in self._offered:
            self._kinds[name] = self._offered[name]()
            del self._offered[name]
        return self._kinds[name]

    def __iter__(self) -> Iterator[str]:
        yield from {**self._kinds, **self._offered}

    def __len__(self) -> int:
        return len(self._kinds) + len(self._offered)

    def __contains__(self, name: object) -> bool:
        return name in self._kinds or name in self._offered

    def usable(self, name: str) -> K | None:
        """None for a kind that does not exist, is broken, or lacks its extra."""
        kind = self.get(name)
        return None if kind is None or isinstance(kind, BrokenKind) or not kind.installed else kind


@contract_value(frozen=True, slots=True)
class KindCatalog:
    backends: Kinds[Kind] = field(default_factory=Kinds)
    providers: Kinds[Kind] = field(default_factory=Kinds)
    tools: Kinds[Kind] = field(default_factory=Kinds)
    builtin_tools: frozenset[str] = frozenset()
    builtin_hooks: Kinds[Kind] = field(default_factory=Kinds)
    guardrails: Kinds[RuleKind] = field(default_factory=Kinds)
    evaluators: Kinds[Kind] = field(default_factory=Kinds)
    memories: Kinds[Kind] = field(default_factory=Kinds)
    adapters: Kinds[Kind] = field(default_factory=Kinds)
    narrators: frozenset[str] = frozenset()
    sinks: frozenset[str] = frozenset()
    redaction_kinds: frozenset[str] = frozenset()
    unserved: UnservedParts = field(default_factory=UnservedParts)
    has_module: Callable[[str], bool] = field(default=has_module, compare=False)
