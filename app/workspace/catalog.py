"""Which kinds exist: backends, providers, tools and so on, passed in by whoever starts the compiler.

Compiling never imports a kind: a name is known or not, installed or not, and that is all it asks.
"""

import importlib.util
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib.metadata import entry_points
from types import MappingProxyType
from typing import Final

HOOKS_GROUP: Final = "holdfast.hooks"
"""Entry points under which installed packages offer hooks by name."""

_EXTRA: Final = "pip install 'holdfast[{}]'"


@dataclass(frozen=True, slots=True)
class KindInfo:
    """`install` is the command that brings it; `needs_model` is for backends."""

    installed: bool = True
    install: str | None = None
    needs_model: bool = True


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
    has_module: Callable[[str], bool] = field(default=has_module, compare=False)


def extra(name: str, module: str) -> KindInfo:
    """A kind that comes with an optional extra and needs a module of it."""
    return KindInfo(installed=has_module(module), install=_EXTRA.format(name))


def shipped_catalog() -> KindCatalog:
    """The kinds that ship with the program."""
    ready = KindInfo()
    return KindCatalog(
        backends=MappingProxyType(
            {
                "echo": KindInfo(needs_model=False),
                "native": ready,
                "plan_work_review": ready,
                "langgraph": extra("langgraph", "langgraph"),
                "deepagents": extra("deepagents", "deepagents"),
                "openai_agents": extra("openai-agents", "agents"),
                "google_adk": extra("google-adk", "google_adk"),
                "agent_framework": extra("agent-framework", "agent_framework"),
            }
        ),
        providers=MappingProxyType(dict.fromkeys(("openai", "anthropic", "gemini", "ollama", "scripted"), ready)),
        tools=MappingProxyType(dict.fromkeys(("python", "http", "mcp", "builtin", "subprocess"), ready)),
        builtin_tools=frozenset(
            {"echo", "clock", "calculator", "notes", "read_file", "write_file", "list_files", "http_fetch", "todos"}
        ),
        builtin_hooks=frozenset(
            {"deny_tools", "redact_cards", "max_turns", *(point.name for point in entry_points(group=HOOKS_GROUP))}
        ),
        adapters=MappingProxyType({"native": ready, "langgraph": extra("langgraph", "langgraph")}),
    )
