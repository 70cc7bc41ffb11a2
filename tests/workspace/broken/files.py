"""Texts that are no YAML of ours, and documents that are no documents of ours."""

from tests.workspace.broken.case import (
    A,
    Case,
    R,
    T,
    agent,
    tool,
)
from tests.workspace.building import AGENT, RUNTIME, document

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
    Case(
        "no apiVersion", "API_VERSION", A, 1, {A: "kind: Agent\nmetadata: {name: a}\nspec: {model: main}\n"}
    ),
    Case("another apiVersion", "API_VERSION", A, 1, {A: AGENT.replace("holdfast/v1", "holdfast/v9")}),
    Case("no kind", "KIND_MISSING", A, 1, {A: "apiVersion: holdfast/v1\nmetadata: {name: a}\nspec: {}\n"}),
    Case("a misspelt kind", "KIND_UNKNOWN", A, 2, {A: document("Agnet", "a", "model: main")}),
    Case(
        "no metadata",
        "FIELD_MISSING",
        A,
        1,
        {A: "apiVersion: holdfast/v1\nkind: Agent\nspec: {model: main}\n"},
    ),
    Case(
        "no name",
        "FIELD_MISSING",
        A,
        3,
        {A: "apiVersion: holdfast/v1\nkind: Agent\nmetadata: {}\nspec: {model: main}\n"},
    ),
    Case("a name with a space", "VALUE_INVALID", A, 4, {A: document("Agent", "a b", "model: main")}),
    Case(
        "a tool name with a dot",
        "VALUE_INVALID",
        T,
        4,
        {T: document("Tool", "a.b", "kind: builtin\nentry: echo")},
    ),
    Case(
        "an unknown field at the top",
        "FIELD_UNKNOWN",
        A,
        7,
        {A: document("Agent", "a", "model: main") + "extra: 1\n"},
    ),
    Case("a misspelt field", "FIELD_UNKNOWN", A, 7, agent("model: main\ntoools: [echo]")),
    Case("a misspelt nested field", "FIELD_UNKNOWN", A, 8, agent("model: main\nlimits:\n  tokenz: 3")),
    Case("a text where a number belongs", "VALUE_INVALID", A, 7, agent("model: main\nmaxTurns: many")),
    Case("a number where a text belongs", "VALUE_INVALID", A, 6, agent("model: 3")),
    Case("a text where a list belongs", "VALUE_INVALID", A, 7, agent("model: main\ntools: echo")),
    Case("yes is text, not true", "VALUE_INVALID", A, 7, agent("model: main\nclientTools: yes")),
    Case("a number out of range", "VALUE_INVALID", A, 7, agent("model: main\nmaxTurns: 0")),
    Case(
        "a word that is not allowed",
        "VALUE_NOT_ALLOWED",
        T,
        7,
        tool("kind: builtin\neffect: readonyl\nentry: echo"),
    ),
    Case("model and modelPlan", "FIELD_CONFLICT", A, 5, agent("model: main\nmodelPlan: {primary: main}")),
    Case("two of a name", "NAME_DUPLICATE", "agents/helper.yaml", 4, {A: AGENT}),
    Case(
        "two Runtimes",
        "RUNTIME_DUPLICATE",
        "s.yaml",
        2,
        {"s.yaml": RUNTIME.replace("name: test", "name: two")},
    ),
    Case("no Runtime", "RUNTIME_MISSING", R, 1, {R: None}),
    Case(
        "no default agent",
        "DEFAULT_AGENT_MISSING",
        R,
        5,
        {R: RUNTIME.replace("  defaultAgent: helper\n", "")},
    ),
    Case(
        "an empty folder",
        "WORKSPACE_EMPTY",
        "",
        1,
        dict.fromkeys((R, "models/main.yaml", "agents/helper.yaml", "tools/echo.yaml")),
    ),
]
