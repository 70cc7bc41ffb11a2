"""Every type of the published event model has a producer in the server, or the part it reports is still to be built."""

import re
from pathlib import Path
from typing import Final

import pytest

import app
from app.events.catalog import EVENTS
from app.events.catalog.adapter import HANDOFF, TOOL_RESULT, TOOL_START

APP: Final = Path(app.__file__).parent
PUBLISHED: Final = (
    "runtime.request.",
    "runtime.execution.contract.failed",
    "runtime.tool.direct.",
    "runtime.workflow.",
    "runtime.artifact.created",
    "runtime.specDriven.phase.",
    "runtime.skill.candidate.created",
    "runtime.memory.",
    "runtime.progress.narration",
    "runtime.adapter.event",
)
"""Families that the published model names."""
WITH_WORKFLOWS: Final = ("runtime.workflow.", "runtime.specDriven.phase.")
"""Nothing executes workflows and cycles yet, so nothing can report them; their types are drafts."""


def _source() -> str:
    files = (path for path in APP.rglob("*.py") if "catalog" not in path.parts)
    return "\n".join(path.read_text() for path in files)


@pytest.mark.requirement("SH-13")
def test_every_published_type_has_a_producer_or_is_a_draft_of_what_is_not_built() -> None:
    source = _source()
    for name, model in EVENTS.items():
        if not name.startswith(PUBLISHED):
            continue
        made = re.search(rf"\b(Built)?{model.__name__}(\(|\.unchecked\(|\.model_validate\()", source)
        if not made:
            assert name.startswith(WITH_WORKFLOWS) and model.draft, f"{name} has no producer"


@pytest.mark.requirement("SH-13")
def test_the_runtime_makes_the_signals_that_every_backend_has() -> None:
    assert {HANDOFF, TOOL_START, TOOL_RESULT} == {"agent.handoff", "agent.tool.start", "agent.tool.result"}
    source = _source()
    for constant in ("HANDOFF", "TOOL_START", "TOOL_RESULT", "OUTPUT_DELTA"):
        assert re.search(rf"\b{constant}\b", source), constant
