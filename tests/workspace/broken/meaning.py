"""Schemas, expressions, templates, secrets and Markdown that mean nothing."""

from tests.workspace.broken.case import (
    CYCLE,
    OBJECT,
    PHASE,
    SKILL,
    A,
    Case,
    M,
    T,
    agent,
    model,
    tool,
)
from tests.workspace.building import document

MEANING = [
    Case(
        "a schema of an unknown type",
        "SCHEMA_INVALID",
        T,
        11,
        tool(
            "kind: builtin\nentry: echo\ninput:\n  type: object\n"
            "  properties:\n    x: {type: strin}\noutput: {}"
        ),
    ),
    Case(
        "an output schema that is wrong",
        "SCHEMA_INVALID",
        T,
        8,
        tool("kind: builtin\nentry: echo\noutput: {minLength: -1}"),
    ),
    Case(
        "a schema reference to the net",
        "SCHEMA_REMOTE_REF",
        T,
        8,
        tool("kind: builtin\nentry: echo\noutput: {$ref: 'http://example.com/s.json'}"),
    ),
    Case(
        "a schema reference to a file",
        "SCHEMA_REMOTE_REF",
        T,
        8,
        tool("kind: builtin\nentry: echo\noutput: {$ref: 'file:///etc/passwd'}"),
    ),
    Case(
        "a schema reference to nothing",
        "SCHEMA_INVALID",
        T,
        8,
        tool("kind: builtin\nentry: echo\noutput: {$ref: '#/$defs/x'}"),
    ),
    Case(
        "an input that is no object",
        "SCHEMA_NOT_OBJECT",
        T,
        8,
        tool("kind: builtin\nentry: echo\ninput: {type: string}\noutput: {}"),
    ),
    Case(
        "an input without an output",
        "OUTPUT_SCHEMA_MISSING",
        T,
        8,
        tool(f"kind: builtin\nentry: echo\ninput: {OBJECT}"),
        warning=True,
    ),
    Case(
        "http without an input", "FIELD_MISSING", T, 5, tool("kind: http\nhttp: {url: 'https://example.com'}")
    ),
    Case(
        "an approval rule that does not parse",
        "EXPRESSION_INVALID",
        T,
        8,
        tool("kind: builtin\nentry: echo\napproval: args.x >"),
    ),
    Case(
        "an approval rule that is no bool",
        "EXPRESSION_INVALID",
        T,
        8,
        tool("kind: builtin\nentry: echo\napproval: args.x"),
    ),
    Case(
        "a misspelt always", "EXPRESSION_INVALID", T, 8, tool("kind: builtin\nentry: echo\napproval: alway")
    ),
    Case(
        "a rule on an unknown variable",
        "EXPRESSION_INVALID",
        T,
        9,
        tool("kind: builtin\nentry: echo\nrules:\n  - {check: arg.x == 1, message: m}"),
    ),
    Case(
        "a template that is not closed",
        "TEMPLATE_INVALID",
        T,
        8,
        tool(f"kind: http\nhttp:\n  url: 'https://example.com/{{{{ args.x'\ninput: {OBJECT}\noutput: {{}}"),
    ),
    Case(
        "a template with an unknown root",
        "TEMPLATE_INVALID",
        T,
        8,
        tool(
            f"kind: http\nhttp:\n  url: 'https://example.com/{{{{ arg.x }}}}'\ninput: {OBJECT}\noutput: {{}}"
        ),
    ),
    Case(
        "a path argument that does not exist",
        "ARGUMENT_UNKNOWN",
        T,
        10,
        tool(f"kind: builtin\nentry: echo\ninput: {OBJECT}\noutput: {{}}\npaths: [y]"),
    ),
    Case(
        "an example that breaks the schema",
        "EXAMPLE_INVALID",
        T,
        10,
        tool(f"kind: builtin\nentry: echo\ninput: {OBJECT}\noutput: {{}}\nexamples: [{{x: 3}}]"),
    ),
    Case(
        "an unknown undo tool",
        "TOOL_UNKNOWN",
        T,
        9,
        tool("kind: builtin\nentry: echo\ncompensation:\n  tool: unecho"),
    ),
    Case(
        "an undo argument that does not exist",
        "ARGUMENT_UNKNOWN",
        T,
        9,
        {
            **tool("kind: builtin\nentry: echo\ncompensation:\n  arguments: {z: 1}\n  tool: u"),
            "u.yaml": document("Tool", "u", f"kind: builtin\nentry: echo\ninput: {OBJECT}\noutput: {{}}"),
        },
    ),
    Case(
        "an evaluator rule that is no bool",
        "EXPRESSION_INVALID",
        "e.yaml",
        7,
        {"e.yaml": document("Evaluator", "e", "kind: rule\nrule: output.size")},
    ),
]

SECRETS = [
    Case(
        "a key written in the file",
        "SECRET_LITERAL",
        M,
        8,
        model("provider: openai\nmodel: x\napiKey: sk-abcdef"),
    ),
    Case(
        "a variable that is not listed",
        "ENV_NOT_LISTED",
        M,
        8,
        model("provider: openai\nmodel: x\napiKey: ${env:OTHER_KEY}"),
    ),
    Case(
        "a malformed reference",
        "ENV_MALFORMED",
        M,
        9,
        model("provider: openai\nmodel: x\nheaders:\n  X-Key: ${API_KEY}"),
    ),
    Case(
        "a reference where nobody reads it",
        "ENV_NOT_HERE",
        A,
        7,
        agent("model: main\ninstructions: use ${env:API_KEY} please"),
        warning=True,
    ),
    Case(
        "an unlisted variable in a profile",
        "ENV_NOT_LISTED",
        "p.yaml",
        7,
        {"p.yaml": document("Profile", "p", "models:\n  main: {provider: openai, apiKey: '${env:NOPE}'}")},
    ),
    Case(
        "an unlisted variable of an MCP server",
        "ENV_NOT_LISTED",
        "m.yaml",
        7,
        {"m.yaml": document("McpServer", "s", "command: [srv]\nenv: {TOKEN: '${env:TOKEN}'}")},
    ),
]

MARKDOWN = [
    Case(
        "a skill without frontmatter",
        "FRONTMATTER_MISSING",
        "skills/s/SKILL.md",
        1,
        {"skills/s/SKILL.md": "# hi\n"},
        warning=True,
    ),
    Case(
        "a skill whose frontmatter is open",
        "FRONTMATTER_OPEN",
        "skills/s/SKILL.md",
        1,
        {"skills/s/SKILL.md": "---\nname: s\n"},
        warning=True,
    ),
    Case(
        "a skill without a description",
        "SKILL_INVALID",
        "skills/s/SKILL.md",
        2,
        {"skills/s/SKILL.md": "---\nname: s\n---\n"},
        warning=True,
    ),
    Case(
        "a skill with bad triggers",
        "SKILL_INVALID",
        "skills/s/SKILL.md",
        5,
        {"skills/s/SKILL.md": SKILL.format(name="s", more="triggers:\n  - 3\n")},
        warning=True,
    ),
    Case(
        "a skill that allows an unknown tool",
        "SKILL_INVALID",
        "skills/s/SKILL.md",
        4,
        {"skills/s/SKILL.md": SKILL.format(name="s", more="allowed-tools: [ecko]\n")},
        warning=True,
    ),
    Case(
        "a skill in another folder",
        "NAME_DIFFERS",
        "skills/s/SKILL.md",
        2,
        {"skills/s/SKILL.md": SKILL.format(name="other", more="")},
        warning=True,
    ),
    Case(
        "a skill that is spelt in small letters",
        "FILE_IGNORED",
        "skills/s/skill.md",
        1,
        {"skills/s/skill.md": SKILL.format(name="s", more="")},
        warning=True,
    ),
    Case("a role that does not exist", "ROLE_UNKNOWN", "roles/leader.md", 1, {"roles/leader.md": "Lead.\n"}),
    Case("a role without a text", "PROMPT_EMPTY", "roles/lead.md", 1, {"roles/lead.md": "---\na: 1\n---\n"}),
    Case(
        "a phase without a signal",
        "FRONTMATTER_INVALID",
        "workflows/phases/build.md",
        2,
        {"workflows/phases/build.md": "---\nid: build\nschema_version: v1\n---\n"},
    ),
    Case(
        "a signal in plain language",
        "EXPRESSION_INVALID",
        "workflows/phases/build.md",
        3,
        {"workflows/phases/build.md": PHASE.format(signal="when the tests are green", more="")},
    ),
    Case(
        "a phase with an unknown persona",
        "PERSONA_UNKNOWN",
        "workflows/phases/build.md",
        5,
        {"workflows/phases/build.md": PHASE.format(signal="done == true", more="agents_invoked: [critic]\n")},
    ),
    Case(
        "a cycle with an unknown phase",
        "PHASE_UNKNOWN",
        "workflows/cycles/ship.md",
        3,
        {"workflows/cycles/ship.md": CYCLE.format(phases="build", entry="build", more="")},
    ),
    Case(
        "a cycle with a foreign entry",
        "PHASE_UNKNOWN",
        "workflows/cycles/ship.md",
        4,
        {
            "workflows/cycles/ship.md": CYCLE.format(phases="build", entry="biuld", more=""),
            "workflows/phases/build.md": PHASE.format(signal="done == true", more=""),
        },
    ),
    Case(
        "a cycle with an unknown policy",
        "POLICY_UNKNOWN",
        "workflows/cycles/ship.md",
        6,
        {
            "workflows/cycles/ship.md": CYCLE.format(
                phases="build", entry="build", more="policies: [gate]\n"
            ),
            "workflows/phases/build.md": PHASE.format(signal="done == true", more=""),
        },
    ),
    Case(
        "a policy of an unknown kind",
        "FRONTMATTER_INVALID",
        "workflows/policies/p.md",
        3,
        {"workflows/policies/p.md": "---\nid: p\nkind: vibes\nrules: []\nschema_version: v1\n---\n"},
    ),
    Case(
        "a policy rule that is no expression",
        "EXPRESSION_INVALID",
        "workflows/policies/p.md",
        5,
        {
            "workflows/policies/p.md": "---\nid: p\nkind: loop-halt\nrules:\n"
            "  - {when: too many rounds, then: deny, reason: r}\nschema_version: v1\n---\n"
        },
    ),
    Case(
        "a persona without a name",
        "FRONTMATTER_INVALID",
        "workflows/personas/critic.md",
        2,
        {"workflows/personas/critic.md": "---\ndescription: d\n---\n"},
    ),
]
