"""Closing a schema: what it must refuse, and above all what it must not."""

from typing import Any

import jsonschema_rs
import pytest

from app.tools.closed_schema import close, opened

A = {"type": "object", "properties": {"a": {"type": "integer"}}}
B = {"type": "object", "properties": {"b": {"type": "integer"}}}
MAP = {"type": "object"}
NULL = {"type": "null"}


def accepts(schema: dict[str, Any], value: Any) -> bool:
    return jsonschema_rs.Draft202012Validator(close(schema), offline=True).is_valid(value)


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        (A, {"a": 1}),
        ({"type": "object"}, {"anything": 1}),
        ({"type": "object", "additionalProperties": {"type": "integer"}}, {"x": 1}),
        ({**A, "additionalProperties": True}, {"a": 1, "x": 1}),
        ({**A, "patternProperties": {"^x-": {}}}, {"a": 1, "x-y": 1}),
        ({"allOf": [A, B]}, {"a": 1, "b": 2}),
        ({**A, "allOf": [B]}, {"a": 1, "b": 2}),
        ({"anyOf": [A, B]}, {"a": 1, "b": 2}),
        ({"anyOf": [A, {"type": "object"}]}, {"x": 1}),
        ({"anyOf": [A, {"type": "object", "additionalProperties": {"type": "string"}}]}, {"x": "y"}),
        ({"anyOf": [A, {"type": "string"}]}, "text"),
        ({**A, "anyOf": [{"required": ["a"]}, {"required": ["b"]}]}, {"a": 1}),
        ({**A, "if": {"required": ["a"]}, "then": {"properties": {"c": {}}}}, {"a": 1, "c": 2}),
        ({"$defs": {"A": A}, "allOf": [{"$ref": "#/$defs/A"}], "properties": {"c": {}}}, {"a": 1, "c": 2}),
        ({"$defs": {"M": {"anyOf": [A, MAP]}}, "properties": {"m": {"$ref": "#/$defs/M"}}}, {"m": {"q": 1}}),
        ({"properties": {"p": {"not": A}}}, {"p": "text"}),
        ({"$defs": {"N": {"properties": {"n": {"$ref": "#/$defs/N"}}}}, "$ref": "#/$defs/N"}, {"n": {"n": {}}}),
    ],
)  # fmt: skip
def test_what_the_schema_says_stays_accepted(schema: dict[str, Any], value: Any) -> None:
    assert jsonschema_rs.Draft202012Validator(schema).is_valid(value), "the case itself is wrong"
    assert accepts(schema, value)


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        (A, {"x": 1}),
        ({"properties": {"o": A}}, {"o": {"x": 1}}),
        ({"properties": {"o": {"type": "array", "items": A}}}, {"o": [{"x": 1}]}),
        ({"type": "object", "additionalProperties": A}, {"key": {"x": 1}}),
        ({"allOf": [A, B]}, {"x": 1}),
        ({"anyOf": [A, B]}, {"x": 1}),
        ({"$defs": {"A": A}, "properties": {"o": {"$ref": "#/$defs/A"}}}, {"o": {"x": 1}}),
        ({"$defs": {"U": {"oneOf": [A, NULL]}}, "properties": {"o": {"$ref": "#/$defs/U"}}}, {"o": {"x": 1}}),
        ({"$defs": {"N": {"properties": {"n": {"$ref": "#/$defs/N"}}}}, "$ref": "#/$defs/N"}, {"n": {"n": {"x": 1}}}),
        ({"properties": {"t": {"prefixItems": [A]}}}, {"t": [{"x": 1}]}),
    ],
)  # fmt: skip
def test_what_is_not_declared_is_refused_at_every_level(schema: dict[str, Any], value: Any) -> None:
    assert not accepts(schema, value)


def test_a_schema_that_refers_to_itself_in_many_ways_costs_no_more_than_its_size() -> None:
    many = [{"$ref": "#/$defs/N"} for _ in range(30)]
    node = {"anyOf": [*many, {"type": "integer"}], "allOf": [{"anyOf": many}, {"oneOf": many}]}
    nasty = {"type": "object", "properties": {"n": {"$ref": "#/$defs/N"}}, "$defs": {"N": node}}
    close(nasty)
    assert len(opened(nasty["$defs"], nasty)) == 1
    assert len(opened(node, nasty)) <= 100
