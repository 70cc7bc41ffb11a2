"""A JSON Schema with a mistake is explained: the place in the file, what is expected there, and what was meant."""

import pytest

from app.workspace.compiled import Compiled
from tests.workspace.building import build, document


def found(schema: str) -> tuple[str, str, str, str | None, str | None]:
    spec = f"kind: builtin\nentry: echo\ninput: {{type: object, properties: {{n: {schema}}}}}\noutput: {{}}"
    result = build({"t.yaml": document("Tool", "t", spec)})
    (item,) = result.diagnostics if isinstance(result, Compiled) else result
    return item.code, item.path, item.message, item.expected, item.hint


TYPES = "one of: array, boolean, integer, null, number, object, string"


@pytest.mark.parametrize(
    ("given", "meant"),
    [("int", "integer"), ("str", "string"), ("float", "number"), ("dict", "object"), ("bool", "boolean"),
     ("List", "array"), ("strin", "string"), ("Integer", "integer")],
)  # fmt: skip
def test_unknown_type_names_the_types_and_the_one_that_was_meant(given: str, meant: str) -> None:
    where = "spec.input.properties.n.type"
    message = f"`{where}` is not a valid JSON Schema: there is no such type in JSON Schema"
    assert found(f"{{type: {given}}}") == ("SCHEMA_INVALID", where, message, TYPES, f'did you mean "{meant}"?')


def test_type_that_nothing_resembles_is_answered_with_the_types_alone() -> None:
    assert found("{type: spaceship}")[3:] == (TYPES, None)
    assert found("{type: 5}")[3:] == (TYPES, None)


@pytest.mark.parametrize(
    ("schema", "path", "reason"),
    [
        ("{type: [strin, 'null']}", "n.type[0]", "there is no such type in JSON Schema"),
        ("{required: x}", "n.required", "the value must be of the type array"),
        ("{required: [a, a]}", "n.required", "the list names something twice"),
        ("{minLength: -1}", "n.minLength", "the value must be at least 0"),
        ("{anyOf: []}", "n.anyOf", "the list is empty"),
        ("{items: [{type: string}]}", "n.items", "the value must be of the type object or boolean"),
        ("string", "n", "the value must be of the type object or boolean"),
        (
            "{items: {properties: {m: {type: str}}}}",
            "n.items.properties.m.type",
            "there is no such type in JSON Schema",
        ),
    ],
)
def test_other_mistakes_are_named_at_their_place(schema: str, path: str, reason: str) -> None:
    code, where, message, _, _ = found(schema)
    assert (code, where) == ("SCHEMA_INVALID", f"spec.input.properties.{path}")
    assert message.endswith(f"is not a valid JSON Schema: {reason}")


def test_mistake_that_only_the_validator_of_the_run_time_finds_is_named_too() -> None:
    code, where, message, expected, _ = found("{pattern: '('}")
    assert (code, expected) == ("SCHEMA_INVALID", "a JSON Schema")
    assert where == "spec.input.properties.n.pattern" and "is not a valid JSON Schema" in message


@pytest.mark.parametrize(
    ("schema", "path", "hint"),
    [
        ("{type: string, minlength: 3}", "n.minlength", "minLength"),
        ("{anyOf: [{tpye: string}]}", "n.anyOf[0].tpye", "type"),
        ("{type: array, item: {type: string}}", "n.item", "items"),
    ],
)
def test_misspelt_keyword_is_a_warning(schema: str, path: str, hint: str) -> None:
    code, where, _, _, said = found(schema)
    assert (code, where, said) == ("SCHEMA_KEYWORD_UNKNOWN", f"spec.input.properties.{path}", f'did you mean "{hint}"?')


@pytest.mark.parametrize(
    "schema",
    ["{x-order: 1}", "{example: 1}", "{nullable: true}", "{enum: [{tpye: 1}]}", "{properties: {tpye: {type: string}}}",
     "{default: {requird: 1}}", "{unit: cm}"],
)  # fmt: skip
def test_what_is_not_a_misspelling_is_left_alone(schema: str) -> None:
    spec = f"kind: builtin\nentry: echo\ninput: {{type: object, properties: {{n: {schema}}}}}\noutput: {{}}"
    result = build({"t.yaml": document("Tool", "t", spec)})
    assert isinstance(result, Compiled)
    assert result.diagnostics.as_text() == ""
