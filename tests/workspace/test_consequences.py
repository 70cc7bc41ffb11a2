"""A file that cannot be read is reported first, and not again wherever something refers to what it holds."""

import pytest

from app.wiring.kinds import kind_catalog
from app.workspace.codes import CODES
from app.workspace.compile import compile
from app.workspace.compiled import Compiled
from tests.workspace.building import AGENT, GOOD, RUNTIME, build, document, files, findings

BROKEN = "  bad: [unclosed\n"


@pytest.mark.parametrize("path", sorted(GOOD))
def test_syntax_error_is_reported_alone(path: str) -> None:
    (found,) = findings(build({path: GOOD[path] + BROKEN}))
    assert found[:2] == ("YAML_SYNTAX", path)


def test_syntax_error_comes_before_mistakes_of_other_files() -> None:
    result = build({"tools/zzz.yaml": "a: [", "agents/a.yaml": document("Agent", "a", "model: mian")})
    assert [code for code, _, _ in findings(result)] == ["YAML_SYNTAX", "MODEL_UNKNOWN"]


def test_names_that_a_broken_file_does_not_mention_are_still_missing() -> None:
    result = build(
        {"tools/echo.yaml": GOOD["tools/echo.yaml"] + BROKEN, "agents/helper.yaml": AGENT + "  skills: [x]\n"}
    )
    assert [code for code, _, _ in findings(result)] == ["YAML_SYNTAX", "SKILL_UNKNOWN"]


def test_document_of_a_misspelt_kind_is_reported_alone() -> None:
    (found,) = findings(build({"tools/echo.yaml": GOOD["tools/echo.yaml"].replace("Tool", "Tol")}))
    assert found[0] == "KIND_UNKNOWN"


def test_python_file_that_does_not_parse_is_reported_once() -> None:
    tool = document("Tool", "t", "kind: python\nentry: work:run")
    result = build({"t.yaml": tool, "work.py": "def run(:\n"})
    assert findings(result) == [("PYTHON_SYNTAX", "work.py", 1)]


# -- hints -------------------------------------------------------------------------------------------------


def test_no_remedy_says_nothing() -> None:
    empty = {"Add it.", "Correct it.", "Keep one.", "Use a known one.", "Use another.", "Write it."}
    assert [code for code, text in CODES.items() if text.remedy in empty] == []


@pytest.mark.parametrize(
    ("provider", "words"),
    [
        ("azure", ("provider: openai", "openai.azure.com/openai/v1", "deployment")),
        ("groq", ("provider: openai", "api.groq.com")),
        ("claude", ("provider: anthropic",)),
    ],
)
def test_provider_without_a_kind_says_what_to_write(provider: str, words: tuple[str, ...]) -> None:
    result = compile(files({"m.yaml": document("Model", "m", f"provider: {provider}\nmodel: x")}), kind_catalog())
    assert not isinstance(result, Compiled)
    (found,) = result
    assert found.code == "PROVIDER_UNKNOWN" and all(word in found.remedy for word in words)


def test_missing_model_names_those_that_there_are() -> None:
    result = build({"a.yaml": document("Agent", "a", "tools: [echo]")})
    assert not isinstance(result, Compiled)
    assert "main" in result.items[0].remedy


def test_missing_default_agent_names_the_agents() -> None:
    runtime = RUNTIME.replace("  defaultAgent: helper\n", "")
    result = build({"runtime.yaml": runtime, "a.yaml": document("Agent", "a", "model: main")})
    assert not isinstance(result, Compiled)
    assert "a, helper" in result.items[0].remedy


def test_single_agent_needs_no_default() -> None:
    result = build({"runtime.yaml": RUNTIME.replace("  defaultAgent: helper\n", "")})
    assert isinstance(result, Compiled) and result.workspace.default_agent == "helper"


def test_misspelt_argument_of_an_approval_is_answered_with_the_nearest() -> None:
    schema = "input: {type: object, properties: {amount: {type: number}}}\noutput: {}"
    result = build(
        {"t.yaml": document("Tool", "t", f"kind: builtin\nentry: echo\n{schema}\napproval: args.amout > 50")}
    )
    assert not isinstance(result, Compiled)
    assert result.items[0].remedy == 'did you mean "args.amount"?'


@pytest.mark.parametrize(
    "rule",
    [
        "args.nested.inner == 1",
        'args["amount"] > 1',
        "has(args.amount) && args.amount > 1",
        "args.list.exists(x, x.anything == 1)",
        "args.free.anything == 1",
        "'args.nothing' == 'x'",
        "args.size() > 0",
        "args.referred.deep == 1",
    ],
)
def test_arguments_that_may_be_there_are_not_reported(rule: str) -> None:
    schema = (
        "input: {type: object, properties: {amount: {type: number}, list: {type: array}, free: {type: object}, "
        "nested: {type: object, properties: {inner: {}}}, referred: {$ref: '#/$defs/d'}}, "
        "$defs: {d: {properties: {deep: {}}}}}\noutput: {}"
    )
    text = document("Tool", "t", f"kind: builtin\nentry: echo\n{schema}\napproval: |\n  {rule}")
    assert findings(build({"t.yaml": text})) == []


@pytest.mark.parametrize("rule", ["args.nested.iner == 1", "args.referred.depp == 1", 'args["amout"] > 1'])
def test_misspelt_argument_is_found_below_and_behind_references(rule: str) -> None:
    schema = (
        "input: {type: object, properties: {amount: {}, nested: {type: object, properties: {inner: {}}}, "
        "referred: {$ref: '#/$defs/d'}}, $defs: {d: {properties: {deep: {}}}}}\noutput: {}"
    )
    text = document("Tool", "t", f"kind: builtin\nentry: echo\n{schema}\napproval: |\n  {rule}")
    assert [code for code, _, _ in findings(build({"t.yaml": text}))] == ["ARGUMENT_UNKNOWN"]


def test_signature_of_a_function_stands_for_a_missing_schema() -> None:
    tool = document("Tool", "t", "kind: python\nentry: work:pay\napproval: args.amout > 50")
    result = build({"t.yaml": tool, "work.py": "def pay(amount: float, ctx=None): ...\n"})
    assert [code for code, _, _ in findings(result)] == ["ARGUMENT_UNKNOWN"]


@pytest.mark.parametrize(
    "source",
    [
        "def run(x: str, ctx): ...\n",
        "def run(**arguments): ...\n",
        "import functools\n@functools.wraps(print)\ndef run(): ...\n",
        "from other import run\n",
        "async def run(*, x: str = 'a', y=None): ...\n",
    ],
)
def test_function_that_fits_its_schema_is_not_reported(source: str) -> None:
    schema = "{type: object, properties: {x: {type: string}}, required: [x]}"
    spec = f"kind: python\nentry: work:run\ninput: {schema}\noutput: {{}}"
    assert findings(build({"t.yaml": document("Tool", "t", spec), "work.py": source})) == []
