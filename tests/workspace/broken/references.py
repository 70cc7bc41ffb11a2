"""Names that lead nowhere or in circles."""

from tests.workspace.broken.case import (
    A,
    Case,
    M,
    R,
    agent,
    model,
)
from tests.workspace.building import AGENT, RUNTIME, document

REFERENCES = [
    Case(
        "an agent with the name of a route", "NAME_RESERVED", A, 4, {A: document("Agent", "extensions", "model: main")}
    ),
    Case("an unknown default agent", "AGENT_UNKNOWN", R, 6, {R: RUNTIME.replace("helper", "helpr")}),
    Case(
        "an unknown routed agent",
        "AGENT_UNKNOWN",
        R,
        10,
        {R: RUNTIME + "  routes:\n    r:\n      agent: nobody\n"},
    ),
    Case(
        "an unknown routed workflow",
        "WORKFLOW_UNKNOWN",
        R,
        8,
        {R: RUNTIME + "  routes: {r: {workflow: nothing}}\n"},
    ),
    Case(
        "a route to both",
        "FIELD_CONFLICT",
        R,
        8,
        {R: RUNTIME + "  routes: {r: {workflow: w, agent: helper}}\n"},
    ),
    Case("an unknown model", "MODEL_UNKNOWN", A, 6, agent("model: mian")),
    Case("an unknown primary model", "MODEL_UNKNOWN", A, 7, agent("modelPlan:\n  primary: mian")),
    Case(
        "an unknown fallback",
        "MODEL_UNKNOWN",
        M,
        9,
        model("provider: scripted\nmodel: x\nfallbacks:\n  - mian"),
    ),
    Case("an unknown tool", "TOOL_UNKNOWN", A, 9, agent("model: main\ntools:\n  - echo\n  - ehco")),
    Case("a tool listed twice", "REFERENCE_DUPLICATE", A, 7, agent("model: main\ntools: [echo, echo]")),
    Case("an unknown evidence tool", "TOOL_UNKNOWN", A, 7, agent("model: main\nevidence: [ecko]")),
    Case("an unknown skill", "SKILL_UNKNOWN", A, 7, agent("model: main\nskills: [greet]")),
    Case("an unknown subagent", "AGENT_UNKNOWN", A, 7, agent("model: main\nsubagents: [helpr]")),
    Case("an unknown memory", "MEMORY_UNKNOWN", A, 7, agent("model: main\nmemory: [facts]")),
    Case(
        "a kind of memory that does not exist", "MEMORY_KIND_UNKNOWN", A, 6, {A: document("Memory", "a", "kind: stor")}
    ),
    Case("an embedding that nothing uses", "MEMORY_EMBEDDING", A, 6, {A: document("Memory", "a", "embedding: main")}),
    Case(
        "a namespace with an unknown variable",
        "NAMESPACE_INVALID",
        A,
        6,
        {A: document("Memory", "a", 'namespace: "{tenant}/{who}"')},
    ),
    Case("an unknown hook", "HOOK_UNKNOWN", A, 7, agent("model: main\nhooks: [audit]")),
    Case("an unknown guardrail", "GUARDRAIL_UNKNOWN", A, 8, agent("model: main\nguardrails:\n  input: [pii]")),
    Case("an unknown gate", "EVALUATOR_UNKNOWN", A, 7, agent("model: main\ngates: [{evaluator: quality}]")),
    Case("an agent that calls itself", "SUBAGENT_CYCLE", A, 7, agent("model: main\nsubagents: [a]")),
    Case(
        "agents in a circle",
        "SUBAGENT_CYCLE",
        A,
        8,
        agent("model: main\ntools: [echo]\nsubagents: [helper]") | {"agents/helper.yaml": AGENT + "  subagents: [a]\n"},
    ),
    Case(
        "a tool passed on to a subagent that does not have it",
        "SUBAGENT_TOOLS",
        A,
        7,
        {
            **agent("backend: echo\nsubagents: [{agent: helper, tools: [echo]}]"),
            "agents/helper.yaml": document("Agent", "helper", "backend: echo"),
        },
    ),
    Case(
        "a subagent with tools that its parent lacks",
        "SUBAGENT_TOOLS",
        A,
        8,
        {**agent("model: main\nsubagents:\n- helper"), "agents/helper.yaml": AGENT},
        warning=True,
    ),
    Case("fallbacks in a circle", "FALLBACK_CYCLE", M, 8, model("provider: scripted\nmodel: x\nfallbacks: [m]")),
    Case(
        "a tool named like a subagent",
        "NAME_CLASH",
        A,
        8,
        {
            **agent("model: main\ntools: [twin]\nsubagents: [twin]"),
            "x.yaml": document("Tool", "twin", "kind: builtin\nentry: echo")
            + "---\n"
            + document("Agent", "twin", "backend: echo"),
        },
    ),
    Case(
        "an instructions file that is missing",
        "FILE_NOT_FOUND",
        A,
        7,
        agent("model: main\ninstructions: agents/a.md"),
    ),
    Case(
        "an instructions path that leaves",
        "PATH_LEAVES",
        A,
        7,
        agent("model: main\ninstructions: ../../etc/secrets.md"),
    ),
    Case(
        "an absolute instructions path",
        "PATH_LEAVES",
        A,
        7,
        agent("model: main\ninstructions: /etc/secrets.md"),
    ),
    Case(
        "an edge to nothing",
        "NODE_UNKNOWN",
        A,
        9,
        agent("model: main\nbackend: own\ntools: [echo]\nedges: [{from: START, to: tools.ecko}]"),
    ),
    Case(
        "an edge that nothing leads to",
        "NODE_UNREACHABLE",
        A,
        9,
        agent("model: main\nbackend: own\ntools: [echo]\nedges: [{from: tools.echo, to: END}]"),
    ),
    Case(
        "a label that no router chooses",
        "ROUTE_INVALID",
        A,
        9,
        agent("model: main\nbackend: own\ntools: [echo]\nedges: [{from: START, to: tools.echo, condition: x}]"),
    ),
    Case(
        "edges in a circle",
        "EDGE_CYCLE",
        A,
        11,
        agent(
            "model: main\nbackend: own\ntools: [echo]\nedges:\n"
            "  - {from: START, to: tools.echo}\n  - {from: tools.echo, to: tools.echo}"
        ),
    ),
    Case("an unknown profile", "PROFILE_UNKNOWN", R, 1, {}, profile="gpt"),
    Case(
        "a profile for an unknown model",
        "MODEL_UNKNOWN",
        "p.yaml",
        7,
        {"p.yaml": document("Profile", "p", "models:\n  mian: {model: x}")},
    ),
    Case(
        "a profile with an unknown provider",
        "PROVIDER_UNKNOWN",
        "p.yaml",
        7,
        {"p.yaml": document("Profile", "p", "models:\n  main: {provider: openia}")},
    ),
    Case(
        "a misspelt field in a profile",
        "FIELD_UNKNOWN",
        "p.yaml",
        7,
        {"p.yaml": document("Profile", "p", "models:\n  main: {modle: x}")},
    ),
]
