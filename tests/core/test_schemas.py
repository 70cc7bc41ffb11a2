"""The registry and the validators, held against the jsonschema package as an oracle."""

from pathlib import Path
from typing import Any

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.core import json
from app.core.schemas import Issue, SchemaInvalid, SchemaNotFound, SchemaRegistry, Validator, json_pointer

KEYS = st.sampled_from(["a", "b", "long"])
INSTANCES = st.recursive(
    st.none() | st.booleans() | st.integers(-3, 9) | st.sampled_from([0.5, 2.0]) | st.sampled_from(["", "a", "xyz"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=3),
    max_leaves=6,
)
LEAF_SCHEMAS = st.one_of(
    st.sampled_from(["string", "integer", "number", "boolean", "null", "object", "array"]).map(lambda t: {"type": t}),
    st.lists(INSTANCES, min_size=1, max_size=3).map(lambda values: {"enum": values}),
    INSTANCES.map(lambda value: {"const": value}),
    st.builds(lambda low, high: {"minimum": low, "maximum": high}, st.integers(-3, 3), st.integers(3, 9)),
    st.builds(lambda low, high: {"minLength": low, "maxItems": high}, st.integers(0, 3), st.integers(0, 3)),
    st.just({"pattern": "^a"}),
    st.just({"uniqueItems": True}),
    st.just({"multipleOf": 2}),
)


def _branches(inner: st.SearchStrategy[dict[str, Any]]) -> st.SearchStrategy[dict[str, Any]]:
    return st.one_of(
        st.builds(
            lambda properties, required, closed: {
                "type": "object",
                "properties": properties,
                "required": required,
                "additionalProperties": not closed,
            },
            st.dictionaries(KEYS, inner, max_size=2),
            st.lists(KEYS, unique=True, max_size=2),
            st.booleans(),
        ),
        inner.map(lambda schema: {"type": "array", "items": schema}),
        st.lists(inner, min_size=1, max_size=2).map(lambda schemas: {"anyOf": schemas}),
        st.lists(inner, min_size=1, max_size=2).map(lambda schemas: {"oneOf": schemas}),
        inner.map(lambda schema: {"not": schema}),
    )


SCHEMAS = st.recursive(LEAF_SCHEMAS, _branches, max_leaves=4)


@given(SCHEMAS, INSTANCES)
def test_verdicts_agree_with_the_oracle(schema: dict[str, Any], instance: Any) -> None:
    expected = jsonschema.Draft202012Validator(schema).is_valid(instance)
    validator = Validator(schema)
    assert validator.accepts(instance) is expected
    assert (validator.issues(instance) == []) is expected


REVEALING = {
    "properties": {
        "integer": {"type": "integer"},
        "enum": {"enum": ["x", "y"]},
        "const": {"const": 1},
        "pattern": {"pattern": "^q"},
        "format": {"format": "date-time"},
        "length": {"minLength": 50},
        "any": {"anyOf": [{"type": "integer"}, {"type": "null"}]},
        "one": {"oneOf": [{"type": "integer"}, {"type": "null"}]},
        "not": {"not": {"type": "string"}},
        "never": False,
        "list": {"uniqueItems": True, "contains": {"const": 3}, "maxItems": 1},
        "closed": {"type": "object", "additionalProperties": False},
        "partly": {"properties": {"a": {}}, "additionalProperties": False},
        "unevaluated": {"unevaluatedProperties": False},
        "names": {"propertyNames": {"maxLength": 2}},
        "map": {"additionalProperties": {"type": "integer"}},
        "matched": {"patternProperties": {"^hunter": {"required": ["z"]}}},
        "dependent": {"dependentRequired": {"hunter2": ["z"]}},
    }
}


@pytest.mark.requirement("S10", "G21")
def test_issues_contain_neither_submitted_values_nor_submitted_keys() -> None:
    secret = "hunter2"
    text = ["integer", "enum", "const", "pattern", "format", "length", "any", "one", "not", "never"]
    keyed = ["closed", "partly", "unevaluated", "names", "map", "matched", "dependent"]
    value: dict[str, Any] = dict.fromkeys(text, secret) | {name: {secret: {}} for name in keyed}
    value["list"] = [secret, secret]
    issues = Validator(REVEALING).issues(value)
    assert {issue.path.split("/")[1] for issue in issues} == set(REVEALING["properties"])
    assert secret not in str(issues)


def test_issues_for_the_author_of_a_value_name_its_keys() -> None:
    validator = Validator({"properties": {"a": {}}, "additionalProperties": False})
    (issue,) = validator.issues({"colour": 1}, show_keys=True)
    assert "colour" in issue.message
    assert Validator({"additionalProperties": {"type": "null"}}).issues({"a/b": 1}, show_keys=True)[0].path == "/a~1b"


def test_issue_names_the_place_and_what_was_expected() -> None:
    validator = Validator({"properties": {"steps": {"items": {"properties": {"id": {"type": "string"}}}}}})
    assert validator.issues({"steps": [{"id": "s1"}, {"id": 7}]}) == [
        Issue("/steps/1/id", 'value is not of type "string"')
    ]


def test_number_of_issues_is_bounded() -> None:
    assert len(Validator({"items": {"type": "null"}}).issues([1] * 1000)) == 20


@pytest.mark.parametrize("uri", ["http://127.0.0.1:9/schema.json", "file:///etc/hostname", "urn:other_v1"])
def test_schema_that_refers_outside_itself_is_refused_and_nothing_is_fetched(uri: str) -> None:
    with pytest.raises(SchemaInvalid) as caught:
        Validator({"$ref": uri})
    assert "refers only to itself" in str(caught.value.__cause__)


@pytest.mark.parametrize(
    ("schema", "path"),
    [
        ({"type": "strin"}, ("type",)),
        ({"properties": {"a": {"pattern": "("}}}, ("properties", "a", "pattern")),
        ({"minimum": "low"}, ("minimum",)),
        ({"properties": []}, ("properties",)),
        ({"const": object()}, ()),
    ],
)
def test_document_that_is_no_schema_is_refused_with_its_place(
    schema: dict[str, Any], path: tuple[str | int, ...]
) -> None:
    with pytest.raises(SchemaInvalid) as caught:
        Validator(schema)
    assert caught.value.code == "SCHEMA_INVALID"
    assert caught.value.path == path


def test_regular_expression_that_backtracks_without_end_answers_at_once() -> None:
    assert not Validator({"pattern": "^(a+)+$"}).accepts("a" * 10_000 + "b")


@pytest.mark.requirement("OS-I3", "OS-F")
def test_unknown_schema_id_fails_closed() -> None:
    with pytest.raises(SchemaNotFound) as caught:
        SchemaRegistry().validate("plan_v9", {})
    assert caught.value.code == "SCHEMA_NOT_FOUND"


def test_registry_serves_the_files_of_its_folders(tmp_path: Path) -> None:
    for folder in ("contracts", "events", "workspace"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / f"{folder}_v1.json").write_bytes(json.dumps({"type": "null"}))
    registry = SchemaRegistry(tmp_path)
    assert registry.ids() == ["contracts_v1", "events_v1"]
    assert registry.validate("events_v1", None) == []
    assert registry.validate("contracts_v1", 1) == [Issue("", 'value is not of type "null"')]


def test_every_shipped_schema_is_valid_and_compiles() -> None:
    registry = SchemaRegistry()
    for schema_id in registry.ids():
        jsonschema.Draft202012Validator.check_schema(registry.document(schema_id))
        assert registry.validator(schema_id) is registry.validator(schema_id)


def test_pointer_escapes_slash_and_tilde() -> None:
    assert json_pointer(["a/b", 0, "~"]) == "/a~1b/0/~0"
