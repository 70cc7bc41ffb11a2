"""What is declared is enforced: every field has a reader, and what has none is an error when somebody writes it."""

import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

import pytest
from pydantic import BaseModel

import app
from app.core.resources import shipped
from app.policy.redaction import PERSONAL
from app.wiring import kinds
from app.wiring.kinds import kind_catalog
from app.workspace.catalog import Kinds
from app.workspace.compile import compile
from app.workspace.compiled import Compiled
from app.workspace.diagnostics import Diagnostic, Diagnostics
from app.workspace.files import read_folder
from app.workspace.served import EACH, UNSERVED
from app.workspace.specs import KINDS
from tests.workspace.building import AGENT, GOOD, RUNTIME, document, files
from tests.workspace.readers import READERS

APP = Path(app.__file__).parent


def _models_in(annotation: Any) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for argument in get_args(annotation):
        yield from _models_in(argument)


def _served_fields() -> Iterator[tuple[type[BaseModel], str]]:
    """Every field of every spec that a workspace may write; what is not served, and all below it, is left out."""
    whole = {(kind, part.path) for kind, parts in UNSERVED.fields.items() for part in parts if part.values is None}
    todo: list[tuple[str, tuple[Any, ...], type[BaseModel]]] = [
        (kind, (), spec)
        for kind, model in KINDS.items()
        if kind not in UNSERVED.kinds
        for spec in _models_in(model.model_fields["spec"].annotation)
    ]
    seen: set[type[BaseModel]] = set()
    while todo:
        kind, path, model = todo.pop()
        if model in seen:
            continue
        seen.add(model)
        for name, info in model.model_fields.items():
            below = (*path, info.alias or name)
            if (kind, below) not in whole:
                yield model, name
                todo += [(kind, below, inner) for inner in _models_in(info.annotation)]


def _compiled(changes: dict[str, str]) -> tuple[Diagnostic, ...]:
    result = compile(files(changes), kind_catalog())
    return result.diagnostics.items if isinstance(result, Compiled) else result.items


@pytest.mark.requirement("OS-I3")
def test_every_field_of_the_format_has_a_reader_or_is_not_served() -> None:
    fields = {f"{model.__name__}.{name}" for model, name in _served_fields()}
    assert fields - set(READERS) == set(), (
        "fields that no module carries out: register the reader, or list them as unserved"
    )
    assert set(READERS) - fields == set(), "readers of fields that are gone or not served"


@pytest.mark.requirement("OS-I3")
def test_every_reader_really_mentions_its_field() -> None:
    for model, name in _served_fields():
        module = READERS[f"{model.__name__}.{name}"]
        text = (APP / f"{module}.py").read_text()
        alias = model.model_fields[name].alias or name
        words = {rf"\.{name}\b", rf"[\"']{name}[\"']", rf"[\"']{alias}[\"']"}
        assert any(re.search(word, text) for word in words), f"{module} does not read {model.__name__}.{name}"


WRITTEN = {
    ("Runtime", "defaultWorkflow"): "defaultWorkflow: w",
    ("Runtime", "routes"): "routes: {r: {agent: helper}}",
    ("Runtime", "trust"): "trust: {publishers: [acme]}",
}
BASE = {
    "Runtime": "defaultAgent: helper",
    "Agent": "model: main\ntools: [echo]",
    "Tool": "kind: builtin\nentry: echo",
    "Hook": "kind: builtin\nentry: max_turns\nconfig: {turns: 3}",
}
FIELDS = [(kind, part) for kind, parts in UNSERVED.fields.items() for part in parts]


@pytest.mark.requirement("OS-I3")
@pytest.mark.parametrize(("kind", "part"), FIELDS, ids=lambda value: getattr(value, "path", (value,))[0])
def test_field_that_is_not_served_is_an_error_with_place_and_remedy(kind: str, part: Any) -> None:
    field = str(part.path[0])
    path = "runtime.yaml" if kind == "Runtime" else "x.yaml"
    spec = BASE[kind] + "\n" + WRITTEN[kind, field]
    found = [item for item in _compiled({path: document(kind, "x", spec)}) if item.code == "NOT_SERVED"]
    line = 5 + len(spec.splitlines())
    assert [(item.severity, item.file, item.line) for item in found] == [("error", path, line)]
    assert found[0].remedy == part.remedy
    wanted = ".".join(("spec", *(step for step in part.path if step != EACH))) + ("[1]" if EACH in part.path else "")
    assert found[0].path == wanted


DOCUMENTS = {
    "Workflow": "nodes: [{id: n, ref: tools.echo}]",
    "Schedule": "everySeconds: 60\nrun: {agent: helper}",
}


@pytest.mark.requirement("OS-I3")
@pytest.mark.parametrize("kind", UNSERVED.kinds)
def test_document_that_is_not_served_is_an_error_with_place_and_remedy(kind: str) -> None:
    (found,) = _compiled({"x.yaml": document(kind, "x", DOCUMENTS[kind])})
    assert (found.code, found.severity, found.file, found.line) == ("NOT_SERVED", "error", "x.yaml", 2)
    assert found.remedy == UNSERVED.kinds[kind]


def test_what_the_author_did_not_write_is_no_error() -> None:
    assert _compiled({}) == ()


def test_empty_lists_and_mappings_ask_for_nothing() -> None:
    runtime = RUNTIME + "  routes: {}\n  trust: {}\n"
    agent = AGENT + "  memory: []\n  gates: []\n  guardrails: {input: []}\n  edges: []\n"
    assert _compiled({"runtime.yaml": runtime, "agents/helper.yaml": agent}) == ()


@pytest.mark.requirement("SH-9")
@pytest.mark.parametrize(
    ("name", "extra"), [(kind.name, kind.extra) for kind in kinds.BACKENDS if kind.extra is not None]
)
def test_a_backend_without_its_extra_is_an_error_with_the_line_that_installs_it(name: str, extra: str) -> None:
    missing = Kinds([replace(kind, module="no_such_module") for kind in kinds.BACKENDS if kind.name == name])
    catalog = replace(kind_catalog(), backends=missing)
    result = compile(
        files({"agents/helper.yaml": document("Agent", "helper", f"backend: {name}\nmodel: main")}), catalog
    )
    assert isinstance(result, Diagnostics)
    (found,) = result.items
    assert (found.code, found.severity, found.line) == ("KIND_NOT_INSTALLED", "error", 6)
    assert found.remedy == f"run: pip install 'holdfast[{extra}]'"


@pytest.mark.requirement("HK-17", "OS-I3")
@pytest.mark.parametrize(
    ("name", "extra"), [(kind.name, kind.extra) for kind in kinds.GUARDRAILS if kind.extra is not None]
)
def test_a_guardrail_without_its_extra_is_an_error_with_the_line_that_installs_it(name: str, extra: str) -> None:
    missing = Kinds([replace(kind, module="no_such_module") for kind in kinds.GUARDRAILS if kind.name == name])
    rule = document("Guardrail", "rule", f"kind: {name}\naction: flag")
    result = compile(files({"rule.yaml": rule}), replace(kind_catalog(), guardrails=missing))
    assert isinstance(result, Diagnostics)
    (found,) = [item for item in result.items if item.code == "KIND_NOT_INSTALLED"]
    assert (found.severity, found.file) == ("error", "rule.yaml")
    assert found.remedy == f"run: pip install 'holdfast[{extra}]'"


def test_edges_of_an_agent_whose_backend_runs_no_graphs_are_an_error() -> None:
    spec = "model: main\ntools: [echo]\nedges: [{from: START, to: tools.echo}]"
    (found,) = _compiled({"a.yaml": document("Agent", "a", spec)})
    assert (found.code, found.line) == ("NOT_SERVED", 8)


def test_backend_that_an_embedding_program_brings_is_served() -> None:
    changes = {"a.yaml": document("Agent", "a", "backend: house\nconfig: {house: {any: thing}}")}
    assert isinstance(compile(files(changes), kind_catalog(["house"])), Compiled)


@pytest.mark.parametrize(
    ("path", "text", "where"),
    [
        (
            "a.yaml",
            document("Agent", "a", "model: main\nconfig: {native: {verbose: true}}"),
            "spec.config.native.verbose",
        ),
        ("m.yaml", document("Model", "m", "provider: openai\nmodel: x\nconfig: {bdy: {}}"), "spec.config.bdy"),
        ("t.yaml", document("Tool", "t", "kind: builtin\nentry: echo\nconfig: {loud: 1}"), "spec.config.loud"),
        ("p.yaml", document("Profile", "p", "models: {main: {config: {x: 1}}}"), "spec.models.main.config.x"),
        ("y.yaml", document("Memory", "y", "config: {maxRecord: 1}"), "spec.config.maxRecord"),
    ],
    ids=["backend", "provider", "tool", "profile", "memory"],
)
def test_config_that_nobody_reads_is_not_served(path: str, text: str, where: str) -> None:
    (found,) = _compiled({path: text})
    assert (found.code, found.path) == ("NOT_SERVED", where)


@pytest.mark.parametrize(
    ("spec", "code"),
    [
        ("redaction: {kinds: [pii]}", "VALUE_NOT_ALLOWED"),
        ("redaction: {traceFields: [inpt]}", "VALUE_NOT_ALLOWED"),
        ("progress: {narration: {provider: llm}}", "VALUE_NOT_ALLOWED"),
    ],
)
def test_runtime_value_that_would_have_no_effect_is_refused(spec: str, code: str) -> None:
    (found,) = _compiled({"runtime.yaml": document("Runtime", "r", f"defaultAgent: helper\n{spec}")})
    assert found.code == code


def test_kinds_of_redaction_that_compile_are_those_that_redact() -> None:
    assert kind_catalog().redaction_kinds == {"secret", *PERSONAL}


@pytest.mark.parametrize(
    ("kind", "spec"),
    [
        ("Tool", "kind: mcp\nentry: x\nmcp: {server: s}"),
        ("Tool", "kind: http\nhttp: {url: 'https://a.example', json: {x: 1}}\ninput: {type: object}\noutput: {}"),
        ("Tool", "kind: http\nhttp: {url: 'https://a.example', text: hi}\ninput: {type: object}\noutput: {}"),
        ("McpServer", "command: [srv]\nheaders: {A: b}"),
        ("McpServer", "url: https://a.example\nenv: {A: b}"),
        ("Hook", "on: [Stop]\nkind: command\ncommand: [x]\nentry: y"),
        ("Hook", "on: [Stop]\nkind: builtin\nentry: max_turns\nenv: {A: b}"),
        ("Agent", "model: main\ncontextPolicy: {summaryModel: main}"),
        ("Agent", "model: main\ncontextPolicy: {strategy: all, maxMessages: 3}"),
    ],
)
def test_field_that_its_kind_does_not_read_is_a_conflict(kind: str, spec: str) -> None:
    found = _compiled({"x.yaml": document(kind, "x", spec)})
    assert {item.code for item in found if item.severity == "error"} == {"FIELD_CONFLICT"}


SHIPPED = (
    "demo",
    "openai",
    "local",
    "plan-work-review",
    "judged",
    "guarded",
    "brainstorm-cycle",
    "spec-driven",
    "release-notes",
    "supervised",
)


@pytest.mark.parametrize("name", SHIPPED)
def test_shipped_workspace_declares_only_what_is_served(name: str) -> None:
    result = compile(read_folder(shipped("workspaces") / name), kind_catalog())
    assert isinstance(result, Compiled), result.as_text()


def test_run_of_an_older_version_keeps_its_workspace() -> None:
    """What was accepted without effect stays so for runs that began with it."""
    changes = {"runtime.yaml": RUNTIME + "  trust: {publishers: [acme]}\n"}
    assert not isinstance(compile(files(changes), kind_catalog()), Compiled)
    kept = compile(files(changes), kind_catalog(), stored=True)
    assert isinstance(kept, Compiled)
    assert [item.severity for item in kept.diagnostics] == ["warning"]


TOOL = document("Tool", "t", "kind: builtin\nentry: echo\ninput: {type: object, properties: {text: {type: string}}}")


@pytest.mark.parametrize("strict", [True, False])
def test_strict_workspace_refuses_a_tool_without_an_output_schema(strict: bool) -> None:
    runtime = RUNTIME + f"  strict: {str(strict).lower()}\n"
    (found,) = _compiled({"runtime.yaml": runtime, "t.yaml": TOOL})
    assert (found.code, found.severity) == ("OUTPUT_SCHEMA_MISSING", "error" if strict else "warning")


def test_good_workspace_of_these_tests_is_served() -> None:
    assert isinstance(compile(files(dict(GOOD)), kind_catalog()), Compiled)
