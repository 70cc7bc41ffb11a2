"""The list of kinds is complete, and what users import is the server's own."""

import importlib
import pkgutil
from pathlib import Path

import pytest

import app
import app.tools
import holdfast
from app.wiring import kinds
from app.wiring.evaluator_kinds import EVALUATORS
from app.workspace.catalog import Kind

LISTED = [
    *kinds.BACKENDS,
    *kinds.PROVIDERS,
    *kinds.TOOLS,
    *kinds.HOOKS.values(),
    *kinds.BUSES,
    *kinds.MEMORIES,
    *EVALUATORS,
]
MODULES = [
    f"app.{folder.parent.name}.kinds.{module.name}"
    for folder in sorted(Path(app.__file__).parent.glob("*/kinds"))
    for module in pkgutil.iter_modules([str(folder)])
]


@pytest.mark.requirement("SH-4")
@pytest.mark.parametrize("name", MODULES)
def test_every_kind_describes_itself_and_is_listed(name: str) -> None:
    """A module without a kind is a part of one that has its name: `mcp_sessions` of `mcp`."""
    kind = getattr(importlib.import_module(name), "KIND", None)
    if kind is None:
        assert any(name.startswith(f"{other}_") for other in MODULES), f"{name} exports no KIND"
    else:
        assert isinstance(kind, Kind)
        assert any(kind is listed for listed in LISTED)
        assert kind.name == name.rpartition(".")[2]


def test_catalog_of_the_compiler_is_the_list() -> None:
    catalog = kinds.kind_catalog()
    assert list(catalog.backends.values()) == list(kinds.BACKENDS)
    assert list(catalog.providers.values()) == list(kinds.PROVIDERS)
    assert list(catalog.tools.values()) == list(kinds.TOOLS)


def test_imports_of_older_workspaces_keep_working() -> None:
    assert app.tools.ToolError is holdfast.ToolError
    assert app.tools.ToolContext is holdfast.ToolContext


@pytest.mark.parametrize(
    "name", ["holdfast", *(f"holdfast.{part.name}" for part in pkgutil.iter_modules(holdfast.__path__))]
)
def test_public_package_offers_what_it_lists(name: str) -> None:
    module = importlib.import_module(name)
    assert all(hasattr(module, offered) for offered in module.__all__)
