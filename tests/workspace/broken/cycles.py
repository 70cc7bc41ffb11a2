"""Broken cycles, phases, policies, personas and artifact templates."""

from tests.workspace.broken.case import Case
from tests.workspace.building import document

P, C, POLICY = "workflows/phases/build.md", "workflows/cycles/ship.md", "workflows/policies/p.md"
OTHER = "workflows/phases/other.md"
PERSONA, ARTIFACT = "workflows/personas/reviewer/critic.md", "workflows/artifacts/report-template.md"


def phase(signal: str = "output.done == true", more: str = "", phase_id: str = "build") -> str:
    return f"---\nid: {phase_id}\nadvance_signal: {signal}\nschema_version: v1\n{more}---\nBuild.\n"


def cycle(phases: str = "build", entry: str = "build", more: str = "") -> str:
    return f"---\nid: ship\nphases: [{phases}]\nentry_phase: {entry}\nschema_version: v1\n{more}---\nShip.\n"


def policy(kind: str = "loop-halt", rule: str = "{when: generation > 1, then: deny, reason: r}", more: str = "") -> str:
    return f"---\nid: p\nkind: {kind}\nrules:\n  - {rule}\nschema_version: v1\n{more}---\n"


def persona(more: str = "", body: str = "Be strict.\n") -> str:
    return f"---\nname: critic\ndescription: d\n{more}---\n{body}"


def artifact(naming: str = "naming: r.md\n", schema: str = "schema: {type: object}\n", body: str = "Text.\n") -> str:
    return f"---\nid: report\n{naming}{schema}---\n{body}"


WITH_PHASE = {P: phase()}

CYCLES = [
    *(
        Case(
            f"a workflow that gives a cycle {field}",
            "FIELD_CONFLICT",
            "w.yaml",
            5,
            {P: phase(), C: cycle(), "w.yaml": document("Workflow", "w", f"cycle: ship\n{field}: {value}\n")},
        )
        for field, value in (
            ("edges", "[{from: START, to: build}]"),
            ("cycles", "{maxVisits: 2}"),
            ("result", "'{{ input }}'"),
            ("output", "{type: object}"),
        )
    ),
    Case("a phase without a signal", "FRONTMATTER_INVALID", P, 2, {P: "---\nid: build\nschema_version: v1\n---\n"}),
    Case("a signal in plain language", "EXPRESSION_INVALID", P, 3, {P: phase("when the tests are green")}),
    Case("a signal about an unknown name", "EXPRESSION_INVALID", P, 3, {P: phase("tests.green == true")}),
    Case("a signal that is no bool", "EXPRESSION_INVALID", P, 3, {P: phase("generation + 1")}),
    Case("a halt signal without meaning", "EXPRESSION_INVALID", P, 5, {P: phase(more="halt_signal: stop now\n")}),
    Case("a phase with an unknown persona", "PERSONA_UNKNOWN", P, 5, {P: phase(more="agents_invoked: [critic]\n")}),
    Case(
        "a phase that asks somebody twice",
        "REFERENCE_DUPLICATE",
        P,
        5,
        {P: phase(more="agents_invoked: [lead, lead]\n")},
    ),
    Case(
        "a phase that asks too many",
        "VALUE_INVALID",
        P,
        5,
        {P: phase(more=f"agents_invoked: [{', '.join(f'p{n}' for n in range(33))}]\n")},
    ),
    Case("a phase with an unknown policy", "POLICY_UNKNOWN", P, 5, {P: phase(more="policies: [gate]\n")}),
    Case("a phase with an unknown schema", "SCHEMA_UNKNOWN", P, 5, {P: phase(more="output_schema: brainstrom_v1\n")}),
    Case("a phase with an unknown artifact", "ARTIFACT_UNKNOWN", P, 5, {P: phase(more="artifact: report\n")}),
    Case(
        "an artifact that two agents deliver",
        "FIELD_CONFLICT",
        P,
        6,
        {P: phase(more="agents_invoked: [lead, planner]\nartifact: report\n"), ARTIFACT: artifact()},
    ),
    Case("a misspelt field of a phase", "FIELD_UNKNOWN", P, 5, {P: phase(more="agents_invokd: [lead]\n")}),
    Case("an id with a space", "VALUE_INVALID", P, 2, {P: phase(phase_id="the build")}),
    Case(
        "two phases with one id",
        "NAME_DUPLICATE",
        "workflows/phases/other.md",
        2,
        {P: phase(), "workflows/phases/other.md": phase()},
    ),
    Case("a cycle with an unknown phase", "PHASE_UNKNOWN", C, 3, {C: cycle()}),
    Case("a cycle with a foreign entry", "PHASE_UNKNOWN", C, 4, {C: cycle(entry="biuld"), **WITH_PHASE}),
    Case("a cycle that lists a phase twice", "REFERENCE_DUPLICATE", C, 3, {C: cycle("build, build"), **WITH_PHASE}),
    Case("a cycle with an unknown policy", "POLICY_UNKNOWN", C, 6, {C: cycle(more="policies: [gate]\n"), **WITH_PHASE}),
    Case(
        "a cycle with an unknown condition",
        "FIELD_UNKNOWN",
        C,
        6,
        {C: cycle(more="exit_conditions: {finished: generation > 1}\n"), **WITH_PHASE},
    ),
    Case(
        "a cycle with a condition that is no text",
        "EXPRESSION_INVALID",
        C,
        6,
        {C: cycle(more="exit_conditions: {done: true}\n"), **WITH_PHASE},
    ),
    Case(
        "a cycle without an end",
        "VALUE_INVALID",
        C,
        6,
        {C: cycle(more="loop_bounds: {max_generations: 0}\n"), **WITH_PHASE},
    ),
    Case(
        "a cycle with far too many generations",
        "VALUE_INVALID",
        C,
        6,
        {C: cycle(more="loop_bounds: {max_generations: 1000000}\n"), **WITH_PHASE},
    ),
    Case(
        "a grade that is no number",
        "EXPRESSION_INVALID",
        C,
        6,
        {C: cycle(more="loop_bounds: {grade: generation > 1}\n"), **WITH_PHASE},
    ),
    Case(
        "a cycle with the name of a workflow",
        "NAME_CLASH",
        C,
        2,
        {C: cycle(), **WITH_PHASE, "w.yaml": document("Workflow", "ship", "nodes: [{id: n, ref: agents.helper}]")},
    ),
    Case("a policy of an unknown kind", "FRONTMATTER_INVALID", POLICY, 3, {POLICY: policy("vibes")}),
    Case(
        "a policy rule that is no expression",
        "EXPRESSION_INVALID",
        POLICY,
        5,
        {POLICY: policy(rule="{when: too many rounds, then: deny, reason: r}")},
    ),
    Case(
        "a policy rule about what its kind does not see",
        "EXPRESSION_INVALID",
        POLICY,
        5,
        {POLICY: policy(rule="{when: finding.confidence > 1, then: deny, reason: r}")},
    ),
    Case(
        "a decision that the kind does not have",
        "VALUE_NOT_ALLOWED",
        POLICY,
        5,
        {POLICY: policy(rule="{when: generation > 1, then: suppress, reason: r}")},
    ),
    Case(
        "a rule without a reason",
        "VALUE_INVALID",
        POLICY,
        5,
        {POLICY: policy(rule="{when: generation > 1, then: deny, reason: ''}")},
    ),
    Case(
        "paths in a policy that is not about them",
        "FIELD_CONFLICT",
        POLICY,
        5,
        {POLICY: policy(rule="{when: generation > 1, then: deny, reason: r, paths: [a]}")},
    ),
    Case(
        "paths that leave the folder",
        "VALUE_INVALID",
        POLICY,
        5,
        {POLICY: policy("role-permissions", "{when: generation > 1, then: allow, reason: r, paths: [../x]}")},
    ),
    Case("a default that is no decision", "FRONTMATTER_INVALID", POLICY, 7, {POLICY: policy(more="default: maybe\n")}),
    Case("a persona without a name", "FRONTMATTER_INVALID", PERSONA, 2, {PERSONA: "---\ndescription: d\n---\n"}),
    Case("a persona without instructions", "PROMPT_EMPTY", PERSONA, 2, {PERSONA: persona(body="")}),
    Case("a persona with an unknown tool", "TOOL_UNKNOWN", PERSONA, 4, {PERSONA: persona("allowed-tools: [hammer]\n")}),
    Case("a persona of an unknown agent", "AGENT_UNKNOWN", PERSONA, 4, {PERSONA: persona("agent: nobody\n")}),
    Case(
        "a persona with the name of a role",
        "NAME_CLASH",
        "workflows/personas/lead.md",
        2,
        {"workflows/personas/lead.md": "---\nname: lead\ndescription: d\n---\nLead.\n"},
    ),
    Case("an artifact without a name", "FIELD_MISSING", ARTIFACT, 2, {ARTIFACT: artifact(naming="")}),
    Case("an artifact without a schema", "FIELD_MISSING", ARTIFACT, 2, {ARTIFACT: artifact(schema="")}),
    Case(
        "an artifact without its schema", "SCHEMA_UNKNOWN", ARTIFACT, 4, {ARTIFACT: artifact(schema="schema: x_v1\n")}
    ),
    Case(
        "an artifact named in prose",
        "TEMPLATE_INVALID",
        ARTIFACT,
        3,
        {ARTIFACT: artifact(naming="naming: 'the {{ day }} of the report'\n")},
    ),
    Case("a text of an unknown place", "TEMPLATE_INVALID", ARTIFACT, 2, {ARTIFACT: artifact(body="{{ outptu.x }}\n")}),
]
