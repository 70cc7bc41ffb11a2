"""Each broken workspace with the code, the file and the line that must be reported, and nothing else."""

from collections.abc import Mapping
from dataclasses import dataclass, field

import pytest

from app.workspace.codes import CODES
from app.workspace.compiled import Compiled
from tests.workspace.building import AGENT, MODEL, RUNTIME, TOOL, build, document, findings

A = "agents/a.yaml"
T = "tools/t.yaml"
M = "models/m.yaml"
R = "runtime.yaml"


@dataclass(frozen=True)
class Case:
    name: str
    code: str
    file: str
    line: int
    changes: Mapping[str, str | bytes | None]
    warning: bool = False
    also: tuple[str, ...] = field(default=())
    profile: str | None = None


def agent(spec: str) -> dict[str, str]:
    return {A: document("Agent", "a", spec)}


def tool(spec: str) -> dict[str, str]:
    return {T: document("Tool", "t", spec)}


def model(spec: str) -> dict[str, str]:
    return {M: document("Model", "m", spec)}


OBJECT = "{type: object, properties: {x: {type: string}}}"
SKILL = "---\nname: {name}\ndescription: d\n{more}---\nDo it.\n"
PHASE = "---\nid: build\nadvance_signal: {signal}\nschema_version: v1\n{more}---\nBuild.\n"
CYCLE = "---\nid: ship\nphases: [{phases}]\nentry_phase: {entry}\nschema_version: v1\n{more}---\nShip.\n"

YAML = [
    Case("text that is no YAML", "YAML_SYNTAX", A, 2, {A: "a: 1\nb: c: d\n"}),
    Case("an unclosed bracket", "YAML_SYNTAX", A, 2, {A: "a: [1, 2\n"}),
    Case("a tab as indentation", "YAML_SYNTAX", A, 2, {A: "a:\n\t- b\n"}),
    Case("a control character", "YAML_SYNTAX", A, 2, {A: b"a: 1\nb: \x07\n"}),
    Case("a NUL in a quoted text", "YAML_SYNTAX", A, 1, {A: 'a: "x\\0"\n'}),
    Case("bytes that are no UTF-8", "FILE_ENCODING", A, 2, {A: b"a: 1\nb: \xff\xfe\n"}),
    Case("an alias", "YAML_ALIAS", A, 1, {A: "a: &x [1]\nb: *x\n"}),
    Case("an alias to nothing", "YAML_ALIAS", A, 2, {A: "a: 1\nb: *nobody\n"}),
    Case("a list that contains itself", "YAML_ALIAS", A, 1, {A: "a: &a [*a]\n"}),
    Case("a tag", "YAML_TAG", A, 2, {A: "a: 1\nb: !!python/object:os.system {}\n"}),
    Case("a harmless tag", "YAML_TAG", A, 1, {A: "a: !!str 1\n"}),
    Case("a duplicate key", "YAML_DUPLICATE_KEY", A, 3, {A: "a: 1\nb: 2\na: 3\n"}),
    Case("a list as key", "YAML_KEY", A, 1, {A: "? [a]\n: b\n"}),
    Case("an infinite number", "YAML_NUMBER", A, 1, {A: "a: .inf\n"}),
    Case("an integer over 64 bits", "YAML_NUMBER", A, 2, {A: "a: 1\nb: 99999999999999999999\n"}),
    Case("65 levels", "YAML_TOO_DEEP", A, 1, {A: "[" * 70 + "]" * 70}),
    Case("a hundred thousand levels", "YAML_TOO_DEEP", A, 1, {A: "[" * 100_000}),
    Case("10,001 documents in a file", "TOO_MANY_DOCUMENTS", A, 10_002, {A: "---\n" * 10_001}),
    Case("a document that is a list", "DOCUMENT_NOT_MAPPING", A, 1, {A: "- a\n- b\n"}),
]
ENVELOPE = [
    Case("no apiVersion", "API_VERSION", A, 1, {A: "kind: Agent\nmetadata: {name: a}\nspec: {model: main}\n"}),
    Case("another apiVersion", "API_VERSION", A, 1, {A: AGENT.replace("holdfast/v1", "holdfast/v9")}),
    Case("no kind", "KIND_MISSING", A, 1, {A: "apiVersion: holdfast/v1\nmetadata: {name: a}\nspec: {}\n"}),
    Case("a misspelt kind", "KIND_UNKNOWN", A, 2, {A: document("Agnet", "a", "model: main")}),
    Case("no metadata", "FIELD_MISSING", A, 1, {A: "apiVersion: holdfast/v1\nkind: Agent\nspec: {model: main}\n"}),
    Case("no name", "FIELD_MISSING", A, 3, {A: "apiVersion: holdfast/v1\nkind: Agent\nmetadata: {}\nspec: {model: main}\n"}),
    Case("a name with a space", "VALUE_INVALID", A, 4, {A: document("Agent", "a b", "model: main")}),
    Case("a tool name with a dot", "VALUE_INVALID", T, 4, {T: document("Tool", "a.b", "kind: builtin\nentry: echo")}),
    Case("an unknown field at the top", "FIELD_UNKNOWN", A, 7, {A: document("Agent", "a", "model: main") + "extra: 1\n"}),
    Case("a misspelt field", "FIELD_UNKNOWN", A, 7, agent("model: main\ntoools: [echo]")),
    Case("a misspelt nested field", "FIELD_UNKNOWN", A, 8, agent("model: main\nlimits:\n  tokenz: 3")),
    Case("a text where a number belongs", "VALUE_INVALID", A, 7, agent("model: main\nmaxTurns: many")),
    Case("a number where a text belongs", "VALUE_INVALID", A, 6, agent("model: 3")),
    Case("a text where a list belongs", "VALUE_INVALID", A, 7, agent("model: main\ntools: echo")),
    Case("yes is text, not true", "VALUE_INVALID", A, 7, agent("model: main\nclientTools: yes")),
    Case("a number out of range", "VALUE_INVALID", A, 7, agent("model: main\nmaxTurns: 0")),
    Case("a word that is not allowed", "VALUE_NOT_ALLOWED", T, 7, tool("kind: builtin\neffect: readonyl\nentry: echo")),
    Case("model and modelPlan", "FIELD_CONFLICT", A, 5, agent("model: main\nmodelPlan: {primary: main}")),
    Case("two of a name", "NAME_DUPLICATE", "agents/helper.yaml", 4, {A: AGENT}),
    Case("two Runtimes", "RUNTIME_DUPLICATE", "s.yaml", 2, {"s.yaml": RUNTIME.replace("name: test", "name: two")}),
    Case("no Runtime", "RUNTIME_MISSING", R, 1, {R: None}),
    Case("no default agent", "DEFAULT_AGENT_MISSING", R, 5, {R: RUNTIME.replace("  defaultAgent: helper\n", "")}),
    Case("an empty folder", "WORKSPACE_EMPTY", "", 1, dict.fromkeys((R, "models/main.yaml", "agents/helper.yaml", "tools/echo.yaml"))),
]
REFERENCES = [
    Case("an unknown default agent", "AGENT_UNKNOWN", R, 6, {R: RUNTIME.replace("helper", "helpr")}),
    Case("an unknown routed agent", "AGENT_UNKNOWN", R, 10, {R: RUNTIME + "  routes:\n    r:\n      agent: nobody\n"}),
    Case("an unknown routed workflow", "WORKFLOW_UNKNOWN", R, 8, {R: RUNTIME + "  routes: {r: {workflow: nothing}}\n"}),
    Case("a route to both", "FIELD_CONFLICT", R, 8, {R: RUNTIME + "  routes: {r: {workflow: w, agent: helper}}\n"}),
    Case("an unknown model", "MODEL_UNKNOWN", A, 6, agent("model: mian")),
    Case("an unknown primary model", "MODEL_UNKNOWN", A, 7, agent("modelPlan:\n  primary: mian")),
    Case("an unknown fallback", "MODEL_UNKNOWN", M, 9, model("provider: scripted\nmodel: x\nfallbacks:\n  - mian")),
    Case("an unknown tool", "TOOL_UNKNOWN", A, 9, agent("model: main\ntools:\n  - echo\n  - ehco")),
    Case("a tool listed twice", "REFERENCE_DUPLICATE", A, 7, agent("model: main\ntools: [echo, echo]")),
    Case("an unknown evidence tool", "TOOL_UNKNOWN", A, 7, agent("model: main\nevidence: [ecko]")),
    Case("an unknown skill", "SKILL_UNKNOWN", A, 7, agent("model: main\nskills: [greet]")),
    Case("an unknown subagent", "AGENT_UNKNOWN", A, 7, agent("model: main\nsubagents: [helpr]")),
    Case("an unknown memory", "MEMORY_UNKNOWN", A, 7, agent("model: main\nmemory: [facts]")),
    Case("an unknown hook", "HOOK_UNKNOWN", A, 7, agent("model: main\nhooks: [audit]")),
    Case("an unknown guardrail", "GUARDRAIL_UNKNOWN", A, 8, agent("model: main\nguardrails:\n  input: [pii]")),
    Case("an unknown gate", "EVALUATOR_UNKNOWN", A, 7, agent("model: main\ngates: [quality]")),
    Case("an agent that calls itself", "SUBAGENT_CYCLE", A, 7, agent("model: main\nsubagents: [a]")),
    Case("agents in a circle", "SUBAGENT_CYCLE", A, 7, {**agent("model: main\nsubagents: [helper]"), "agents/helper.yaml": AGENT + "  subagents: [a]\n"}),
    Case("fallbacks in a circle", "FALLBACK_CYCLE", M, 8, model("provider: scripted\nmodel: x\nfallbacks: [m]")),
    Case("a tool named like a subagent", "NAME_CLASH", A, 8, {**agent("model: main\ntools: [twin]\nsubagents: [twin]"), "x.yaml": document("Tool", "twin", "kind: builtin\nentry: echo") + "---\n" + document("Agent", "twin", "backend: echo")}),
    Case("an instructions file that is missing", "FILE_NOT_FOUND", A, 7, agent("model: main\ninstructions: agents/a.md")),
    Case("an instructions path that leaves", "PATH_LEAVES", A, 7, agent("model: main\ninstructions: ../../etc/secrets.md")),
    Case("an absolute instructions path", "PATH_LEAVES", A, 7, agent("model: main\ninstructions: /etc/secrets.md")),
    Case("an edge to nothing", "NODE_UNKNOWN", A, 8, agent("model: main\ntools: [echo]\nedges: [{from: START, to: tools.ecko}]")),
    Case("an unknown profile", "PROFILE_UNKNOWN", R, 1, {}, profile="gpt"),
    Case("a profile for an unknown model", "MODEL_UNKNOWN", "p.yaml", 7, {"p.yaml": document("Profile", "p", "models:\n  mian: {model: x}")}),
    Case("a profile with an unknown provider", "PROVIDER_UNKNOWN", "p.yaml", 7, {"p.yaml": document("Profile", "p", "models:\n  main: {provider: openia}")}),
    Case("a misspelt field in a profile", "FIELD_UNKNOWN", "p.yaml", 7, {"p.yaml": document("Profile", "p", "models:\n  main: {modle: x}")}),
]
KINDS = [
    Case("an unknown backend", "BACKEND_UNKNOWN", A, 6, agent("backend: nativ\nmodel: main")),
    Case("a backend whose extra is missing", "KIND_NOT_INSTALLED", A, 6, agent("backend: langgraph\nmodel: main")),
    Case("a native agent without a model", "FIELD_MISSING", A, 5, agent("tools: [echo]")),
    Case("an unknown provider", "PROVIDER_UNKNOWN", M, 6, model("provider: openia\nmodel: x")),
    Case("a script for a real provider", "FIELD_CONFLICT", M, 5, model("provider: openai\nmodel: x\nscript: {rules: []}")),
    Case("an unknown tool kind", "TOOL_KIND_UNKNOWN", T, 6, tool("kind: pyton")),
    Case("an unknown built-in", "BUILTIN_UNKNOWN", T, 7, tool("kind: builtin\nentry: ecko")),
    Case("a built-in by its own name", "BUILTIN_UNKNOWN", T, 4, tool("kind: builtin")),
    Case("python without an entry", "FIELD_CONFLICT", T, 5, tool("kind: python")),
    Case("http without a template", "FIELD_CONFLICT", T, 5, tool("kind: http")),
    Case("a template on another kind", "FIELD_CONFLICT", T, 5, tool("kind: builtin\nentry: echo\nmcp: {server: s}")),
    Case("an entry without a function", "ENTRY_MALFORMED", T, 7, tool("kind: python\nentry: json")),
    Case("an entry in no module", "ENTRY_NOT_FOUND", T, 7, tool("kind: python\nentry: nowhere:run")),
    Case("an entry without its function", "ENTRY_NOT_FOUND", T, 7, {**tool("kind: python\nentry: work:rum"), "work.py": "def run(): ...\n"}),
    Case("a module that does not parse", "PYTHON_SYNTAX", "work.py", 2, {**tool("kind: python\nentry: work:run"), "work.py": "x = 1\ndef run(:\n"}),
    Case("an unknown MCP server", "MCP_SERVER_UNKNOWN", T, 7, tool("kind: mcp\nmcp: {server: files}")),
    Case("an MCP tool that is not allowed", "MCP_TOOL_NOT_ALLOWED", T, 9, {**tool("kind: mcp\nmcp:\n  server: files\n  tool: delete"), "m.yaml": document("McpServer", "files", "command: [srv]\ntools: {allow: [read]}")}),
    Case("an MCP server without transport", "FIELD_CONFLICT", "m.yaml", 5, {"m.yaml": document("McpServer", "files", "sessions: 2")}),
    Case("an unknown built-in hook", "HANDLER_UNKNOWN", "h.yaml", 8, {"h.yaml": document("Hook", "h", "on: [Stop]\nkind: builtin\nentry: deny_tool")}),
    Case("an unknown hook point", "VALUE_NOT_ALLOWED", "h.yaml", 6, {"h.yaml": document("Hook", "h", "on: [PreTooluse]\nkind: builtin\nentry: deny_tools")}),
    Case("an unknown workflow adapter", "ADAPTER_UNKNOWN", "w.yaml", 6, {"w.yaml": document("Workflow", "w", "adapter: temporal\nnodes: [{id: n, ref: tools.echo}]")}, warning=True),
    Case("a workflow node to nothing", "TOOL_UNKNOWN", "w.yaml", 6, {"w.yaml": document("Workflow", "w", "nodes: [{id: n, ref: tools.ecko}]")}),
    Case("a workflow edge to nothing", "NODE_UNKNOWN", "w.yaml", 7, {"w.yaml": document("Workflow", "w", "nodes: [{id: n, ref: tools.echo}]\nedges: [{from: n, to: m}]")}),
    Case("a workflow without steps", "FIELD_CONFLICT", "w.yaml", 5, {"w.yaml": document("Workflow", "w", "maxSteps: 3")}),
    Case("a cron line of four fields", "SCHEDULE_INVALID", "s.yaml", 6, {"s.yaml": document("Schedule", "s", 'cron: "* * * *"\nrun: {agent: helper}')}),
    Case("a time zone that does not exist", "SCHEDULE_INVALID", "s.yaml", 7, {"s.yaml": document("Schedule", "s", 'cron: "0 9 * * 1-5"\ntimezone: Mars/Base\nrun: {agent: helper}')}),
    Case("a schedule of an unknown agent", "AGENT_UNKNOWN", "s.yaml", 7, {"s.yaml": document("Schedule", "s", "everySeconds: 60\nrun: {agent: helpr}")}),
    Case("config for no backend", "CONFIG_BACKEND_UNKNOWN", A, 8, agent("model: main\nconfig:\n  langraph: {x: 1}"), warning=True),
    Case("a capability nobody has", "CAPABILITY_UNMET", A, 8, agent("modelPlan:\n  primary: main\n  requiredCapabilities: [reasoning]"), warning=True),
    Case("a capability that does not exist", "VALUE_NOT_ALLOWED", A, 8, agent("modelPlan:\n  primary: main\n  requiredCapabilities: [toolz]")),
]
MEANING = [
    Case("a schema of an unknown type", "SCHEMA_INVALID", T, 11, tool("kind: builtin\nentry: echo\ninput:\n  type: object\n  properties:\n    x: {type: strin}\noutput: {}")),
    Case("an output schema that is wrong", "SCHEMA_INVALID", T, 8, tool("kind: builtin\nentry: echo\noutput: {minLength: -1}")),
    Case("a schema reference to the net", "SCHEMA_REMOTE_REF", T, 8, tool("kind: builtin\nentry: echo\noutput: {$ref: 'http://example.com/s.json'}")),
    Case("a schema reference to a file", "SCHEMA_REMOTE_REF", T, 8, tool("kind: builtin\nentry: echo\noutput: {$ref: 'file:///etc/passwd'}")),
    Case("a schema reference to nothing", "SCHEMA_INVALID", T, 8, tool("kind: builtin\nentry: echo\noutput: {$ref: '#/$defs/x'}")),
    Case("an input that is no object", "SCHEMA_NOT_OBJECT", T, 8, tool("kind: builtin\nentry: echo\ninput: {type: string}\noutput: {}")),
    Case("an input without an output", "OUTPUT_SCHEMA_MISSING", T, 8, tool(f"kind: builtin\nentry: echo\ninput: {OBJECT}"), warning=True),
    Case("http without an input", "FIELD_MISSING", T, 5, tool("kind: http\nhttp: {url: 'https://example.com'}")),
    Case("an approval rule that does not parse", "EXPRESSION_INVALID", T, 8, tool("kind: builtin\nentry: echo\napproval: args.x >")),
    Case("an approval rule that is no bool", "EXPRESSION_INVALID", T, 8, tool("kind: builtin\nentry: echo\napproval: args.x")),
    Case("a misspelt always", "EXPRESSION_INVALID", T, 8, tool("kind: builtin\nentry: echo\napproval: alway")),
    Case("a rule on an unknown variable", "EXPRESSION_INVALID", T, 9, tool("kind: builtin\nentry: echo\nrules:\n  - {check: arg.x == 1, message: m}")),
    Case("a template that is not closed", "TEMPLATE_INVALID", T, 8, tool(f"kind: http\nhttp:\n  url: 'https://example.com/{{{{ args.x'\ninput: {OBJECT}\noutput: {{}}")),
    Case("a template with an unknown root", "TEMPLATE_INVALID", T, 8, tool(f"kind: http\nhttp:\n  url: 'https://example.com/{{{{ arg.x }}}}'\ninput: {OBJECT}\noutput: {{}}")),
    Case("a path argument that does not exist", "ARGUMENT_UNKNOWN", T, 10, tool(f"kind: builtin\nentry: echo\ninput: {OBJECT}\noutput: {{}}\npaths: [y]")),
    Case("an example that breaks the schema", "EXAMPLE_INVALID", T, 10, tool(f"kind: builtin\nentry: echo\ninput: {OBJECT}\noutput: {{}}\nexamples: [{{x: 3}}]")),
    Case("an unknown undo tool", "TOOL_UNKNOWN", T, 9, tool("kind: builtin\nentry: echo\ncompensation:\n  tool: unecho")),
    Case("an undo argument that does not exist", "ARGUMENT_UNKNOWN", T, 9, {**tool("kind: builtin\nentry: echo\ncompensation:\n  arguments: {z: 1}\n  tool: u"), "u.yaml": document("Tool", "u", f"kind: builtin\nentry: echo\ninput: {OBJECT}\noutput: {{}}")}),
    Case("an evaluator rule that is no bool", "EXPRESSION_INVALID", "e.yaml", 7, {"e.yaml": document("Evaluator", "e", "kind: rule\nrule: output.size")}),
]
SECRETS = [
    Case("a key written in the file", "SECRET_LITERAL", M, 8, model("provider: openai\nmodel: x\napiKey: sk-abcdef")),
    Case("a variable that is not listed", "ENV_NOT_LISTED", M, 8, model("provider: openai\nmodel: x\napiKey: ${env:OTHER_KEY}")),
    Case("a malformed reference", "ENV_MALFORMED", M, 9, model("provider: openai\nmodel: x\nheaders:\n  X-Key: ${API_KEY}")),
    Case("a reference where nobody reads it", "ENV_NOT_HERE", A, 7, agent("model: main\ninstructions: use ${env:API_KEY} please"), warning=True),
    Case("an unlisted variable in a profile", "ENV_NOT_LISTED", "p.yaml", 7, {"p.yaml": document("Profile", "p", "models:\n  main: {provider: openai, apiKey: '${env:NOPE}'}")}),
    Case("an unlisted variable of an MCP server", "ENV_NOT_LISTED", "m.yaml", 7, {"m.yaml": document("McpServer", "s", "command: [srv]\nenv: {TOKEN: '${env:TOKEN}'}")}),
]
MARKDOWN = [
    Case("a skill without frontmatter", "FRONTMATTER_MISSING", "skills/s/SKILL.md", 1, {"skills/s/SKILL.md": "# hi\n"}, warning=True),
    Case("a skill whose frontmatter is open", "FRONTMATTER_OPEN", "skills/s/SKILL.md", 1, {"skills/s/SKILL.md": "---\nname: s\n"}, warning=True),
    Case("a skill without a description", "SKILL_INVALID", "skills/s/SKILL.md", 2, {"skills/s/SKILL.md": "---\nname: s\n---\n"}, warning=True),
    Case("a skill with bad triggers", "SKILL_INVALID", "skills/s/SKILL.md", 5, {"skills/s/SKILL.md": SKILL.format(name="s", more="triggers:\n  - 3\n")}, warning=True),
    Case("a skill that allows an unknown tool", "SKILL_INVALID", "skills/s/SKILL.md", 4, {"skills/s/SKILL.md": SKILL.format(name="s", more="allowed-tools: [ecko]\n")}, warning=True),
    Case("a skill in another folder", "NAME_DIFFERS", "skills/s/SKILL.md", 2, {"skills/s/SKILL.md": SKILL.format(name="other", more="")}, warning=True),
    Case("a skill that is spelt in small letters", "FILE_IGNORED", "skills/s/skill.md", 1, {"skills/s/skill.md": SKILL.format(name="s", more="")}, warning=True),
    Case("a role that does not exist", "ROLE_UNKNOWN", "roles/leader.md", 1, {"roles/leader.md": "Lead.\n"}),
    Case("a role without a text", "PROMPT_EMPTY", "roles/lead.md", 1, {"roles/lead.md": "---\na: 1\n---\n"}),
    Case("a phase without a signal", "FRONTMATTER_INVALID", "workflows/phases/build.md", 2, {"workflows/phases/build.md": "---\nid: build\nschema_version: v1\n---\n"}),
    Case("a signal in plain language", "EXPRESSION_INVALID", "workflows/phases/build.md", 3, {"workflows/phases/build.md": PHASE.format(signal="when the tests are green", more="")}),
    Case("a phase with an unknown persona", "PERSONA_UNKNOWN", "workflows/phases/build.md", 5, {"workflows/phases/build.md": PHASE.format(signal="done == true", more="agents_invoked: [critic]\n")}),
    Case("a cycle with an unknown phase", "PHASE_UNKNOWN", "workflows/cycles/ship.md", 3, {"workflows/cycles/ship.md": CYCLE.format(phases="build", entry="build", more="")}),
    Case("a cycle with a foreign entry", "PHASE_UNKNOWN", "workflows/cycles/ship.md", 4, {"workflows/cycles/ship.md": CYCLE.format(phases="build", entry="biuld", more=""), "workflows/phases/build.md": PHASE.format(signal="done == true", more="")}),
    Case("a cycle with an unknown policy", "POLICY_UNKNOWN", "workflows/cycles/ship.md", 6, {"workflows/cycles/ship.md": CYCLE.format(phases="build", entry="build", more="policies: [gate]\n"), "workflows/phases/build.md": PHASE.format(signal="done == true", more="")}),
    Case("a policy of an unknown kind", "FRONTMATTER_INVALID", "workflows/policies/p.md", 3, {"workflows/policies/p.md": "---\nid: p\nkind: vibes\nrules: []\nschema_version: v1\n---\n"}),
    Case("a policy rule that is no expression", "EXPRESSION_INVALID", "workflows/policies/p.md", 5, {"workflows/policies/p.md": "---\nid: p\nkind: loop-halt\nrules:\n  - {when: too many rounds, then: deny, reason: r}\nschema_version: v1\n---\n"}),
    Case("a persona without a name", "FRONTMATTER_INVALID", "workflows/personas/critic.md", 2, {"workflows/personas/critic.md": "---\ndescription: d\n---\n"}),
]
CASES = [*YAML, *ENVELOPE, *REFERENCES, *KINDS, *MEANING, *SECRETS, *MARKDOWN]


@pytest.mark.requirement("SH-1", "S13", "OS-L5", "OS-I4")
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name.replace(" ", "-"))
def test_broken_workspace_is_reported_with_code_file_and_line(case: Case) -> None:
    result = build(case.changes, profile=case.profile)
    assert findings(result) == [(case.code, case.file, case.line)]
    assert isinstance(result, Compiled) == case.warning


def test_there_are_enough_broken_workspaces() -> None:
    assert len(CASES) >= 60


def test_codes_that_no_broken_workspace_shows_are_proved_elsewhere() -> None:
    elsewhere = {"FILE_TOO_LARGE", "FILE_UNREADABLE", "FILE_NAME", "SYMLINK_LEAVES", "SYMLINK_FOLDER", "TOO_MANY_FILES", "SKILL_SKIPPED"}
    assert set(CODES) - {case.code for case in CASES} == elsewhere


def test_all_mistakes_are_reported_at_once_in_the_order_of_files_and_lines() -> None:
    result = build({A: document("Agent", "a", "model: mian\ntools: [ecko]"), T: TOOL.replace("builtin", "bultin"), M: MODEL})
    assert findings(result) == [
        ("MODEL_UNKNOWN", A, 6),
        ("TOOL_UNKNOWN", A, 7),
        ("NAME_DUPLICATE", "models/main.yaml", 4),
        ("NAME_DUPLICATE", T, 4),
    ]


def test_a_reference_to_a_document_with_mistakes_is_not_reported_again() -> None:
    result = build({"tools/echo.yaml": TOOL + "  colour: red\n"})
    assert findings(result) == [("FIELD_UNKNOWN", "tools/echo.yaml", 7)]
