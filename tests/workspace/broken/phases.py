"""Broken phases of spec-driven work: what they name, and how their artifacts are checked."""

from tests.workspace.broken.case import Case
from tests.workspace.building import document

W = "w.yaml"


def phases(*lines: str, **files: str) -> dict[str, str]:
    found = {W: document("Workflow", "w", "phases:\n" + "".join(f"  - {line}\n" for line in lines))}
    return found | {name.replace("_", ".", 1): content for name, content in files.items()}


def phase(fields: str, **files: str) -> dict[str, str]:
    return phases(f"{{id: p, ref: agents.helper, {fields}}}", **files)


def verified(how: str, **files: str) -> dict[str, str]:
    return phase(f"artifact: {{name: a.json}}, verify: {{{how}}}", **files)


def case(name: str, code: str, changes: dict[str, str], line: int = 7) -> Case:
    return Case(f"phases: {name}", code, W, line, changes)


OTHER = {"v.yaml": document("Workflow", "v", "phases:\n  - {id: p, ref: agents.helper}\n")}
PHASES = [
    case("an agent that does not exist", "AGENT_UNKNOWN", phases("{id: p, ref: agents.helpr}")),
    case("a tool", "VALUE_INVALID", phases("{id: p, ref: tools.echo}")),
    case("two of one name", "REFERENCE_DUPLICATE", phases(*["{id: p, ref: agents.helper}"] * 2), 8),
    case("verify without an artifact", "FIELD_CONFLICT", phase("verify: {rule: 'true'}")),
    case("verify that checks nothing", "FIELD_CONFLICT", verified("")),
    case("a score without an evaluator", "FIELD_CONFLICT", verified("rule: 'true', minScore: 0.5")),
    case("an evaluator that does not exist", "EVALUATOR_UNKNOWN", verified("evaluator: strict")),
    case("an agent to verify that does not exist", "AGENT_UNKNOWN", verified("agent: nobody")),
    case("a rule with an unknown name", "EXPRESSION_INVALID", verified("rule: artefact.x == 1")),
    case("an unknown schema", "SCHEMA_UNKNOWN", phase("artifact: {name: a.json, schema: plan_v2}")),
    case("an unknown schema to verify", "SCHEMA_UNKNOWN", verified("schema: schemas/a.json")),
    case("a schema file that is not JSON", "SCHEMA_INVALID", verified("schema: a.json", a_json="{")),
    case("a schema file that is a list", "SCHEMA_INVALID", verified("schema: a.json", a_json="[]")),
    case("a schema file that is no schema", "SCHEMA_INVALID", verified("schema: a.json", a_json='{"type": "objct"}')),
    case(
        "a schema file with a remote reference",
        "SCHEMA_REMOTE_REF",
        verified("schema: a.json", a_json='{"$ref": "http://x/y"}'),
    ),
    case(
        "edges between them",
        "FIELD_CONFLICT",
        phases("{id: p, ref: agents.helper}\nedges: [{from: START, to: p}]"),
        5,
    ),
    case("an artifact with a line break in its name", "VALUE_INVALID", phase('artifact: {name: "a\\nb"}')),
    case("an artifact with an absolute path", "VALUE_INVALID", phase("artifact: {name: /a.md}")),
    case("a workflow without leave to run one", "SUBWORKFLOW_DENIED", phases("{id: p, ref: workflows.v}") | OTHER),
    case(
        "workflows in a circle",
        "SUBWORKFLOW_CYCLE",
        phases("{id: p, ref: workflows.w}\nsubworkflows: {}"),
    ),
]
