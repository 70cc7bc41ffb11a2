"""Which kinds exist: backends, providers, tools and so on, passed in by whoever starts the compiler.

Compiling never imports a kind: a name is known or not, installed or not, and that is all it asks.
"""

import importlib.util
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from importlib.metadata import entry_points
from types import MappingProxyType
from typing import Final

from app.workspace.served import UNSERVED, UnservedParts

HOOKS_GROUP: Final = "holdfast.hooks"
"""Entry points under which installed packages offer hooks by name."""
PROVIDERS_GROUP: Final = "holdfast.providers"
"""The same for providers of models."""

_EXTRA: Final = "pip install 'holdfast[{}]'"


@dataclass(frozen=True, slots=True)
class KindInfo:
    """`install` is the command that brings it; `needs_model` is for backends.

    One that is not `served` is known by name only. `config` are the keys of a document's `config` that it reads; None
    where nobody here knows them.
    """

    installed: bool = True
    install: str | None = None
    needs_model: bool = True
    served: bool = True
    config: frozenset[str] | None = None


Kinds = Mapping[str, KindInfo]


def has_module(name: str) -> bool:
    """Whether a top-level module is installed; looks it up without importing it."""
    try:
        return importlib.util.find_spec(name.partition(".")[0]) is not None
    except (ImportError, ValueError):
        return False


@dataclass(frozen=True, slots=True)
class KindCatalog:
    backends: Kinds = field(default_factory=dict)
    providers: Kinds = field(default_factory=dict)
    tools: Kinds = field(default_factory=dict)
    builtin_tools: frozenset[str] = frozenset()
    builtin_hooks: frozenset[str] = frozenset()
    adapters: Kinds = field(default_factory=dict)
    narrators: frozenset[str] = frozenset()
    redaction_kinds: frozenset[str] = frozenset()
    unserved: UnservedParts = field(default_factory=UnservedParts)
    has_module: Callable[[str], bool] = field(default=has_module, compare=False)


def extra(name: str, module: str) -> KindInfo:
    """A kind that comes with an optional extra and needs a module of it."""
    return KindInfo(installed=has_module(module), install=_EXTRA.format(name))


def _reads(*config: str) -> KindInfo:
    return KindInfo(config=frozenset(config))


_PLANNED: Final = KindInfo(served=False)
"""Known by name, so that the message says that it is not there yet."""

_BACKENDS: Final = {
    "echo": KindInfo(needs_model=False, config=frozenset()),
    "native": _reads(),
    "plan_work_review": _reads("escalate"),
    **dict.fromkeys(("langgraph", "deepagents", "openai_agents", "google_adk", "agent_framework"), _PLANNED),
}
_PROVIDERS: Final = {
    "openai": _reads("body"),
    "anthropic": _reads("apiVersion", "body"),
    "gemini": _reads("apiVersion", "body"),
    "ollama": _reads("body"),
    "scripted": _reads(),
}


def shipped_catalog(backends: Iterable[str] = ()) -> KindCatalog:
    """The kinds that ship with the program or are installed; `backends` are those that an embedding program brings."""
    brought = {name: KindInfo(needs_model=False) for name in backends if not _BACKENDS.get(name, _PLANNED).served}
    installed = {point.name: KindInfo() for point in entry_points(group=PROVIDERS_GROUP)}
    return KindCatalog(
        backends=MappingProxyType(_BACKENDS | brought),
        providers=MappingProxyType(installed | _PROVIDERS),
        tools=MappingProxyType(
            dict.fromkeys(("python", "http", "mcp", "subprocess"), _reads()) | {"builtin": _reads("builtin")}
        ),
        builtin_tools=frozenset(
            {"echo", "clock", "calculator", "notes", "read_file", "write_file", "list_files", "http_fetch", "todos"}
        ),
        builtin_hooks=frozenset(
            {"deny_tools", "redact_cards", "max_turns", *(point.name for point in entry_points(group=HOOKS_GROUP))}
        ),
        adapters=MappingProxyType({"native": _PLANNED, "langgraph": _PLANNED}),
        narrators=frozenset({"template"}),
        redaction_kinds=frozenset({"secret", "card", "email", "iban"}),
        unserved=UNSERVED,
    )
