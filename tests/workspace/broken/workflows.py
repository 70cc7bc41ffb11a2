"""Broken workflows: steps, edges, routers, templates and limits."""

from tests.workspace.broken.case import Case
from tests.workspace.building import document

W = "w.yaml"
TWO = "nodes:\n  - {id: a, ref: tools.echo}\n  - {id: b, ref: tools.echo}\n"
LINE = "edges:\n  - {from: START, to: a}\n  - {from: a, to: b}\n"


def flow(spec: str, name: str = "w") -> dict[str, str]:
    return {f"{name}.yaml": document("Workflow", name, spec)}


def step(fields: str) -> dict[str, str]:
    return flow(f"nodes:\n  - {{id: a, {fields}}}\n")


def case(name: str, code: str, line: int, changes: dict[str, str], *, warning: bool = False) -> Case:
    return Case(f"workflow: {name}", code, W, line, changes, warning=warning)


def chain(length: int, depth: int = 3) -> dict[str, str]:
    """Workflows that run each other; the first is `w`."""
    names = ["w", *(f"w{number}" for number in range(1, length))]
    found: dict[str, str] = {}
    for name, following in zip(names, [*names[1:], None], strict=True):
        ref = f"workflows.{following}" if following else "tools.echo"
        deep = depth if name == "w" else 4
        found |= flow(f"subworkflows: {{maxDepth: {deep}}}\nnodes:\n  - {{id: a, ref: {ref}}}\n", name)
    return found


GRAPHS = [
    case("a step that does nothing", "FIELD_CONFLICT", 7, flow("nodes:\n  - {id: a}\n")),
    case("a step that does two things", "FIELD_CONFLICT", 7, step("ref: tools.echo, wait: {seconds: 1}")),
    case("a step named START", "FIELD_CONFLICT", 7, flow("nodes:\n  - {id: START, ref: tools.echo}\n")),
    case("a step with a dot in its name", "VALUE_INVALID", 7, flow("nodes:\n  - {id: a.b, ref: tools.echo}\n")),
    case("two steps with one name", "REFERENCE_DUPLICATE", 8, flow(TWO.replace("id: b", "id: a"))),
    case("a reference without a folder", "VALUE_INVALID", 7, step("ref: echo")),
    case("an unknown agent", "AGENT_UNKNOWN", 7, step("ref: agents.halper")),
    case("an unknown tool", "TOOL_UNKNOWN", 7, step("ref: tools.ecko")),
    case("an unknown skill", "SKILL_UNKNOWN", 7, step("ref: skills.nothing")),
    case("an unknown workflow", "WORKFLOW_UNKNOWN", 8, flow("subworkflows: {}\nnodes:\n  - {id: a, ref: workflows.x}")),
    case("an edge to nothing", "NODE_UNKNOWN", 12, flow(TWO + LINE + "  - {from: b, to: c}\n")),
    case("an edge from END", "NODE_UNKNOWN", 12, flow(TWO + LINE + "  - {from: END, to: b}\n")),
    case("an edge to START", "NODE_UNKNOWN", 12, flow(TWO + LINE + "  - {from: b, to: START}\n")),
    case("an edge twice", "REFERENCE_DUPLICATE", 12, flow(TWO + LINE + "  - {from: a, to: b}\n")),
    case("a step that is never reached", "NODE_UNREACHABLE", 8, flow(TWO + "edges: [{from: START, to: a}]\n")),
    case("a circle", "EDGE_CYCLE", 12, flow(TWO + LINE + "  - {from: b, to: a}\n  - {from: b, to: END}\n")),
    case(
        "a circle without an end",
        "WORKFLOW_ENDLESS",
        7,
        flow(TWO + LINE + "  - {from: b, to: a}\ncycles: {maxVisits: 2}\n"),
    ),
    case("a circle of one visit", "VALUE_INVALID", 9, flow(TWO + "cycles: {maxVisits: 1}\n")),
    case("a label without a router", "ROUTE_INVALID", 11, flow(TWO + LINE.replace("b}", "b, condition: yes}"))),
    case(
        "a router without its edge",
        "ROUTE_INVALID",
        13,
        flow(
            TWO
            + LINE.replace("b}", "b, condition: ok}")
            + "routers:\n  a: [{label: okay, when: 'true'}, {label: ok}]\n"
        ),
    ),
    case("a router of no step", "NODE_UNKNOWN", 13, flow(TWO + LINE + "routers:\n  c: [{label: x}]\n")),
    case(
        "a label twice",
        "ROUTE_INVALID",
        12,
        flow(
            TWO
            + LINE.replace("b}", "b, condition: ok}")
            + "  - {from: a, to: END, condition: ok}\nrouters: {a: [{label: ok}]}\n"
        ),
    ),
    case(
        "a router that chooses failed",
        "ROUTE_INVALID",
        13,
        flow(TWO + LINE.replace("b}", "b, condition: failed}") + "routers:\n  a: [{label: failed}]\n"),
    ),
    case(
        "a rule after the last",
        "ROUTE_INVALID",
        13,
        flow(
            TWO + LINE.replace("b}", "b, condition: ok}") + "routers:\n  a: [{label: ok}, {label: ok, when: 'true'}]\n"
        ),
    ),
    case(
        "a rule that is no expression",
        "EXPRESSION_INVALID",
        13,
        flow(TWO + LINE.replace("b}", "b, condition: ok}") + "routers:\n  a: [{label: ok, when: nodes.a.output +}]\n"),
    ),
    case(
        "a rule that reads an unknown step",
        "NODE_UNKNOWN",
        13,
        flow(
            TWO + LINE.replace("b}", "b, condition: ok}") + "routers:\n  a: [{label: ok, when: nodes.z.output == 1}]\n"
        ),
    ),
    case("a subworkflow without leave", "SUBWORKFLOW_DENIED", 7, step("ref: workflows.w2") | flow(TWO, "w2")),
    case(
        "a workflow that runs itself",
        "SUBWORKFLOW_CYCLE",
        8,
        flow("subworkflows: {}\nnodes:\n  - {id: a, ref: workflows.w}\n"),
    ),
    case("workflows too deep", "SUBWORKFLOW_TOO_DEEP", 8, chain(3, depth=1)),
    case("a deeper limit than there is", "VALUE_INVALID", 6, flow("subworkflows: {maxDepth: 9}\n" + TWO)),
    case(
        "a skill that nobody has",
        "SKILL_WITHOUT_AGENT",
        7,
        step("ref: skills.lost") | {"skills/lost/SKILL.md": "---\nname: lost\ndescription: d\n---\nDo it.\n"},
    ),
    case("a retry of a question", "FIELD_CONFLICT", 7, step("ask: {title: t}, retry: {}")),
    case("items without foreach", "FIELD_CONFLICT", 7, step("ref: tools.echo, maxItems: 3")),
    case("questions of an approval", "FIELD_CONFLICT", 7, step("ask: {title: t, questions: [{key: a}]}")),
    case("a wait of no time", "VALUE_INVALID", 7, step("wait: {seconds: 0}")),
    case("too many attempts", "VALUE_INVALID", 7, step("ref: tools.echo, retry: {attempts: 99}")),
    case("an agent given arguments", "FIELD_UNKNOWN", 7, step("ref: agents.helper, with: {text: x}")),
    case("a template that does not close", "TEMPLATE_INVALID", 7, step("ref: tools.echo, with: {text: '{{ input'}")),
    case("an item without foreach", "TEMPLATE_INVALID", 7, step("ref: tools.echo, with: {text: '{{ item }}'}")),
    case("foreach over a text", "TEMPLATE_INVALID", 7, step("ref: tools.echo, foreach: 'all of {{ input }}'")),
]

PLAN = (
    "agents/plan.yaml",
    document(
        "Agent",
        "plan",
        "model: main\noutputSchema:\n  type: object\n"
        "  properties: {topics: {type: array, items: {type: string}}, n: {type: integer}}",
    ),
)
SUM = (
    "tools/sum.yaml",
    document(
        "Tool",
        "sum",
        "kind: python\nentry: json:loads\neffect: readonly\n"
        "input: {type: object, required: [a], properties: {a: {type: integer}}}\n"
        "output: {type: object, properties: {total: {type: integer}}}",
    ),
)


def typed(second: str, more: str = "") -> dict[str, str]:
    """A step `p` that plans, and a second one that reads it."""
    return flow(f"nodes:\n  - {{id: p, ref: agents.plan}}\n  - {{id: s, {second}}}\n{more}") | dict([PLAN, SUM])


def calling(given: str) -> dict[str, str]:
    """A step that runs a workflow which takes a number."""
    called = flow(
        "input: {type: object, required: [n], properties: {n: {type: integer}}}\n"
        "nodes:\n  - {id: a, ref: tools.echo, with: {text: x}}\n",
        "called",
    )
    return flow(f"subworkflows: {{}}\nnodes:\n  - {{id: a, ref: workflows.called, {given}}}\n") | called


TYPES = [
    case(
        "a value that an output does not have",
        "TEMPLATE_TYPE",
        8,
        typed("ref: tools.echo, with: {text: '{{ nodes.p.output.topic }}'}"),
    ),
    case(
        "a field of a text",
        "TEMPLATE_TYPE",
        8,
        typed("ref: tools.echo, foreach: nodes.p.output.topics, with: {text: '{{ item.name }}'}"),
    ),
    case("a step without output", "TEMPLATE_TYPE", 8, typed("ref: tools.echo, with: {text: '{{ nodes.p.topics }}'}")),
    case("foreach over a number", "TEMPLATE_TYPE", 8, typed("ref: tools.echo, foreach: nodes.p.output.n")),
    case("a list for a number", "TEMPLATE_TYPE", 8, typed("ref: tools.sum, with: {a: '{{ nodes.p.output.topics }}'}")),
    case("a text for a number", "TEMPLATE_TYPE", 8, typed("ref: tools.sum, with: {a: many}")),
    case("an argument that is missing", "ARGUMENT_MISSING", 8, typed("ref: tools.sum, with: {}")),
    case("an argument that is unknown", "ARGUMENT_UNKNOWN", 8, typed("ref: tools.sum, with: {a: 1, b: 2}")),
    case(
        "a template that reads an unknown step",
        "NODE_UNKNOWN",
        8,
        typed("ref: tools.echo, with: {text: '{{ nodes.q.output }}'}"),
    ),
    case(
        "a template that reads a later step",
        "NODE_NOT_BEFORE",
        7,
        flow(
            "nodes:\n  - {id: a, ref: tools.echo, with: {text: '{{ nodes.b.output }}'}}\n  - {id: b, ref: tools.echo}\n"
        ),
    ),
    case(
        "a result that no step makes",
        "TEMPLATE_TYPE",
        9,
        typed("ref: tools.sum, with: {a: 1}", "result: '{{ nodes.s.output.sum }}'\n"),
    ),
    case(
        "an input that the schema does not have",
        "TEMPLATE_TYPE",
        8,
        flow(
            "input: {type: object, properties: {goal: {type: string}}}\n"
            "nodes:\n  - {id: a, ref: tools.echo, with: {text: '{{ input.gaol }}'}}\n"
        ),
    ),
    case(
        "an input that a workflow does not take",
        "TEMPLATE_TYPE",
        8,
        calling("with: {input: 'a text'}"),
    ),
    case("an input without what a workflow needs", "ARGUMENT_MISSING", 8, calling("with: {input: {m: 1}}")),
    case("a value of the wrong type for a workflow", "TEMPLATE_TYPE", 8, calling("with: {input: {n: many}}")),
]
