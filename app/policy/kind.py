"""How a kind of hook describes itself, what it may use, and the hooks that are used by name."""

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from app.core.errors import Failure
from app.core.value import contract_value
from app.policy.contract import Handler, HookConfig, Point
from app.workspace.catalog import Kind, Kinds
from app.workspace.compiled import CompiledWorkspace, Named
from app.workspace.files import WorkspaceFiles
from app.workspace.specs.others import HookSpec

Load = Callable[[str, WorkspaceFiles, bool], Any]
"""Loads `module:function`; the last argument says that the module is a file of the workspace."""


@dataclass(frozen=True, kw_only=True)
class BuiltinHook(Kind):
    """A hook that a document uses by its name, with `kind: builtin`. Packages offer more of them."""

    make: Callable[[HookConfig], Handler | Callable[..., Any]]
    """Gives a function as the python kind takes it."""
    points: frozenset[Point] = frozenset(Point)
    """Where it has something to decide."""


@contract_value(frozen=True, slots=True)
class HookDeps:
    folder: Path
    """The workspace's files."""
    secret: Callable[[str], str | None]
    load: Load
    builtins: Kinds[BuiltinHook] = field(default_factory=Kinds)
    data: Path | None = None
    """The server's data folder, which no program may read."""


@dataclass(frozen=True, kw_only=True)
class HookKind(Kind):
    make: Callable[[Named[HookSpec], CompiledWorkspace, HookDeps], Handler | Failure]
    """Makes the handler of one Hook document."""
