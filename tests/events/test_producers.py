"""Every type of the catalog is recorded by production code, or is on a short list that says why not yet."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from app.events.catalog import EVENTS
from scripts.event_words import LEFT_OUT
from tests.server import ROOT

PENDING: Final[dict[str, str]] = {}
"""Types without a producer, with the reason. They are drafts; take one off the list with its producer."""
_MADE_BY: Final = frozenset({"unchecked", "model_validate", "model_construct"})


def _made(tree: ast.AST) -> Iterator[str]:
    """Names of the classes that this code makes values of."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        made = node.func
        if isinstance(made, ast.Attribute) and made.attr in _MADE_BY:
            made = made.value
        if isinstance(made, ast.Name):
            yield made.id
        elif isinstance(made, ast.Attribute):
            yield made.attr


def producers() -> dict[str, list[Path]]:
    """By the name of a class: the files of production code that make a value of it."""
    found: dict[str, list[Path]] = {}
    for path in sorted((ROOT / "app").rglob("*.py")):
        if path.is_relative_to(ROOT / "app" / "events" / "catalog"):
            continue
        for name in set(_made(ast.parse(path.read_bytes()))):
            found.setdefault(name, []).append(path)
    return found


@pytest.mark.requirement("SH-13", "OS-L4")
def test_every_type_of_the_catalog_has_a_producer_or_a_reason() -> None:
    made = producers()
    # Frequent events have a builder besides their model.
    without = {name for name, cls in EVENTS.items() if not made.keys() & {cls.__name__, f"Built{cls.__name__}"}}
    assert without == PENDING.keys(), "nothing records these types, or one on the list is recorded by now"
    assert all(EVENTS[name].draft for name in without), "only drafts may wait"
    assert not any(f"runtime.{name}" in EVENTS for name in LEFT_OUT)


@pytest.mark.requirement("SH-13")
def test_the_runtime_makes_the_signals_that_every_backend_has() -> None:
    files = (path for path in (ROOT / "app").rglob("*.py") if "catalog" not in path.parts)
    source = "\n".join(path.read_text() for path in files)
    for constant in ("HANDOFF", "TOOL_START", "TOOL_RESULT", "OUTPUT_DELTA"):
        assert re.search(rf"\b{constant}\b", source), constant
