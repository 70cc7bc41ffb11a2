"""What personas, agents and roles answer in a phase: JSON that passes its schema, or a refusal. Pure functions."""

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final

from app.core import json
from app.core.errors import Failure
from app.core.json import JsonObject
from app.core.schemas import Issue, SchemaRegistry, Validator
from app.core.value import value
from app.runtime.workflows.review_aggregate import MAX_FINDINGS, ReviewReport, read_report
from app.workspace.compiled_cycles import CompiledPhase, InvokedAgent

FINDING: Final = "finding_v1"
AGGREGATE: Final = "review_aggregate_v1"
_FENCED: Final = re.compile(r"\A```[a-z]*\s*\n(.*)\n```\Z", re.DOTALL)
_MAX_ISSUES: Final = 5


@value(frozen=True, slots=True)
class Malformed:
    """An answer that breaks its schema: which one, and where."""

    schema: str
    issues: tuple[Issue, ...]

    @property
    def complaint(self) -> str:
        return "; ".join(f"{issue.path or '/'}: {issue.message}" for issue in self.issues[:_MAX_ISSUES])


def parsed(text: str) -> Any:
    """The answer as JSON, also when it is fenced as code; the text itself where it is none."""
    bare = text.strip()
    fenced = _FENCED.match(bare)
    try:
        return json.loads_strict((fenced[1] if fenced else bare).encode(), max_values=json.MAX_VALUES)
    except (json.JsonError, UnicodeEncodeError):
        return text


def reviewed(agent: InvokedAgent, text: str, schemas: SchemaRegistry) -> ReviewReport | Malformed:
    report = read_report(agent.id, parsed(text), schemas.validator(FINDING))
    if isinstance(report, Failure):
        return Malformed(FINDING, (Issue("/findings", report.message),))
    return report


def delivered(
    agent: InvokedAgent,
    phase: CompiledPhase,
    template: tuple[str, Validator] | None,
    text: str,
    schemas: SchemaRegistry,
) -> Any | Malformed:
    """A deliverable that satisfies the role's schema, the phase's and that of the artifact which is made of it."""
    value = parsed(text)
    for name, validator in wanted(agent, phase, template, schemas):
        issues = validator.issues(value)
        if issues:
            return Malformed(name, tuple(issues))
    return value


def wanted(
    agent: InvokedAgent, phase: CompiledPhase, template: tuple[str, Validator] | None, schemas: SchemaRegistry
) -> Sequence[tuple[str, Validator]]:
    """The schemas of a deliverable, by name."""
    names = dict.fromkeys(name for name in (agent.schema, phase.output_schema) if name and name != AGGREGATE)
    found = [(name, schemas.validator(name)) for name in names]
    return found if template is None or template[0] in names else [*found, template]


def answer_schema(agent: InvokedAgent, phase: CompiledPhase, schemas: SchemaRegistry) -> JsonObject | None:
    """What the agent is asked to answer with. Who reviews is known, so a finding need not say it."""
    if agent.reviews:
        finding = _plain(schemas.document(FINDING))
        finding["required"] = [name for name in finding["required"] if name != "reviewer"]
        finding["properties"] = finding["properties"] | {"pre_existing": {"type": "boolean"}}
        return {
            "type": "object",
            "required": ["findings"],
            "properties": {
                "findings": {"type": "array", "items": finding, "maxItems": MAX_FINDINGS},
                "verdict": {"enum": ["allow", "deny"]},
            },
        }
    name = agent.schema or phase.output_schema
    return _plain(schemas.document(name)) if name and name != AGGREGATE else None


def request(
    agent: InvokedAgent,
    phase: CompiledPhase,
    about: Mapping[str, Any],
    schema: JsonObject | None,
    complaint: str | None,
) -> JsonObject:
    """What an agent of a phase is given: JSON, never another agent's words alone."""
    asked: JsonObject = {**about, "task": phase.instructions}
    if schema is not None:
        asked |= {"answer": "Answer with one JSON object of this schema and nothing else.", "answer_schema": schema}
    if complaint is not None:
        asked["rejected"] = f"MALFORMED_AGENT_MESSAGE: your last answer was not accepted: {complaint}"
    return asked


def _plain(document: JsonObject) -> JsonObject:
    return {name: value for name, value in document.items() if name not in ("$id", "$schema")}
