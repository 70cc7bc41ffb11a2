"""The deliverable of a phase as an artifact: named by its template's rule, valid by its schema, written by its text."""

import re
from datetime import UTC, datetime
from typing import Any, Final

import yaml

from app.backends.contract import StepFailed
from app.core import json
from app.core.artifact import ArtifactRef
from app.core.errors import Failure
from app.core.json import JsonObject
from app.core.schemas import Validator
from app.runtime.workflows.cycle_ports import CycleRun
from app.runtime.workflows.cycle_state import CycleState
from app.workspace.compiled_cycles import ArtifactTemplate, CompiledPhase, WorkflowUnits
from app.workspace.templates import Template

_TITLES: Final = ("title", "topic", "problem", "summary", "intent", "output")
_NOT_IN_A_NAME: Final = re.compile(r"[^A-Za-z0-9._-]+")
_SLUG: Final = 60  # characters of a name that come from a title
_PIECE: Final = 80  # characters that one value may put into a name


def template_schema(units: WorkflowUnits, phase: CompiledPhase) -> tuple[str, Validator] | None:
    """The schema that a deliverable needs for the artifact that is made of it."""
    if phase.artifact is None:
        return None
    template = units.artifacts[phase.artifact]
    return template.schema or f"artifact {template.id}", template.validator


async def make_artifact(run: CycleRun, template: ArtifactTemplate, state: CycleState) -> ArtifactRef:
    output = state.outputs.get(state.phase)
    issues = template.validator.issues(output)
    if issues:
        where = f"{issues[0].path or '/'}: {issues[0].message}"
        message = f"The output of the phase {state.phase!r} breaks the schema of the artifact {template.id!r}: {where}"
        raise StepFailed(Failure("SCHEMA_VIOLATION", message))
    values = _values(run, state, output)
    name = _filled(template, template.naming, values, quote=_in_a_name)
    if not name.strip("./-") or ".." in name.split("/") or name.startswith("/"):
        raise StepFailed(Failure("ARTIFACT_INVALID", f"The template {template.id!r} gives the name {name[:100]!r}."))
    if name.endswith(".json"):
        return await run.artifact(name, "application/json", json.canonical(output))
    return await run.artifact(name, "text/markdown", _text(template, values).encode())


def _values(run: CycleRun, state: CycleState, output: Any) -> JsonObject:
    date = datetime.fromtimestamp(run.submitted_ms / 1000, UTC).date().isoformat()
    return {
        "output": output,
        "input": state.input,
        "cycle": state.cycle.id,
        "phase": state.phase,
        "mode": state.mode,
        "generation": state.generation,
        "date": date,
        "slug": slug(output, state.input) or state.phase,
        "run": run.run_id,
        "review_aggregate": state.aggregate,
    }


def slug(output: Any, given: Any) -> str:
    """A short name from the deliverable's title, or from what was asked for."""
    titles = [output.get(name) for name in _TITLES] if isinstance(output, dict) else [output]
    text = next((one for one in (*titles, given) if isinstance(one, str) and one.strip()), "")
    return _NOT_IN_A_NAME.sub("-", text.lower())[:_SLUG].strip("-._")


def _in_a_name(text: str) -> str:
    """A value as part of a name: it adds no folder and nothing that a shell or a URL would read."""
    return _NOT_IN_A_NAME.sub("-", text)[:_PIECE].strip("-.")


def _text(template: ArtifactTemplate, values: JsonObject) -> str:
    body = _filled(template, template.body, values)
    if not template.frontmatter:
        return body + "\n"
    filled = {
        name: _filled(template, value, values) if isinstance(value, Template) else value
        for name, value in template.frontmatter.items()
    }
    head = yaml.safe_dump(filled, sort_keys=False, allow_unicode=True)
    return f"---\n{head}---\n\n{body}\n"


def _filled(template: ArtifactTemplate, text: Template, values: JsonObject, quote: Any = str) -> str:
    made = text.render(values, quote)
    if isinstance(made, Failure):
        raise StepFailed(Failure("ARTIFACT_INVALID", f"The template {template.id!r}: {made.message}"))
    return made
