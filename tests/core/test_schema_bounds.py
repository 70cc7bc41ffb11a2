"""Foreign schemas are bounded before they are compiled, and what checking may cost is known before it is done."""

import resource
import time
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.core.errors import Failure
from app.core.schema_bounds import MAX_PATTERN_CHARACTERS, Bounds, bounds_of
from app.core.schemas import UNLISTED, SchemaInvalid, SchemaTooComplex, Validator

SECONDS = 2.0
MEGABYTES = 200


def chain(links: int, keyword: str = "anyOf", below: str | None = None) -> dict[str, Any]:
    """Each link refers to the next one twice."""

    def link(number: int) -> dict[str, Any]:
        following: dict[str, Any] = {"$ref": f"#/$defs/n{number + 1}"}
        return {keyword: [{"properties": {below: following}} if below else following] * 2}

    definitions = {f"n{number}": link(number) for number in range(links)}
    return {"$defs": {**definitions, f"n{links}": {"type": "integer"}}, "$ref": "#/$defs/n0"}


def nested(levels: int) -> dict[str, Any]:
    value: dict[str, Any] = {"op": "none"}
    for _ in range(levels):
        value = {"op": "none", "left": value, "right": {"op": "none"}}
    return value


def expression(operators: int) -> dict[str, Any]:
    """A recursive union, as query languages have it: honest, and exponential in the depth of a wrong value."""
    branch = {"left": {"$ref": "#/$defs/e"}, "right": {"$ref": "#/$defs/e"}}
    branches = [
        {"properties": {"op": {"const": f"op{number}"}, **branch}, "required": ["op"]} for number in range(operators)
    ]
    return {"$defs": {"e": {"anyOf": branches}}, "$ref": "#/$defs/e"}


@pytest.mark.parametrize("keyword", ["anyOf", "oneOf", "allOf"])
@pytest.mark.parametrize("below", [None, "a"])
def test_references_that_stand_for_millions_of_branches_are_refused(keyword: str, below: str | None) -> None:
    with pytest.raises(SchemaTooComplex) as refused:
        Validator({"type": "object", "properties": {"v": chain(24, keyword, below)}, **chain(24, keyword, below)})
    assert refused.value.code == "SCHEMA_TOO_COMPLEX"
    assert "10,000" in refused.value.failure.message


def unevaluated(levels: int) -> dict[str, Any]:
    schema: dict[str, Any] = {"properties": {"a": {}}}
    for _ in range(levels):
        schema = {"allOf": [schema], "unevaluatedProperties": False}
    return schema


def by_anchor(links: int) -> dict[str, Any]:
    links_by_name = {
        f"n{n}": {"$anchor": f"a{n}", "anyOf": [{"$ref": f"#a{n + 1}"}, {"$ref": f"#a{n + 1}"}]} for n in range(links)
    }
    return {"$defs": {**links_by_name, "last": {"$anchor": f"a{links}", "type": "null"}}, "$ref": "#a0"}


def by_id(links: int) -> dict[str, Any]:
    links_by_name = {
        f"n{n}": {"$id": f"https://x.example/{n}", "anyOf": [{"$ref": f"{n + 1}"}, {"$ref": f"/{n + 1}#"}]}
        for n in range(links)
    }
    last = {"$id": f"https://x.example/{links}", "type": "null"}
    return {"$defs": {**links_by_name, "last": last}, "$ref": "https://x.example/0"}


def dynamic(links: int) -> dict[str, Any]:
    links_by_name = {
        f"n{n}": {
            "$dynamicAnchor": f"a{n}",
            "anyOf": [{"$dynamicRef": f"#a{n + 1}"}, {"$dynamicRef": f"#a{n + 1}"}],
        }
        for n in range(links)
    }
    return {"$defs": {**links_by_name, "last": {"$dynamicAnchor": f"a{links}"}}, "$dynamicRef": "#a0"}


@pytest.mark.parametrize(
    "schema",
    [
        by_anchor(24),
        by_id(24),
        dynamic(24),
        unevaluated(20),
        {"enum": ["x" * 300_000]},
        {"anyOf": [{"type": "null"}] * 1_001},
        {"properties": {f"p{n}": {"pattern": f"^{n}"} for n in range(101)}},
        {"pattern": "a" * 1_001},
        {"properties": {f"p{n}": {"$ref": "#/$defs/x"} for n in range(1_001)}, "$defs": {"x": {}}},
        {"properties": {f"p{n}": {} for n in range(5_001)}},
        {"allOf": [{"pattern": f"(?=a){n}"} for n in range(20)]},
        {"$defs": {"a": {"anyOf": [{"$ref": "#/$defs/a"}, {"type": "null"}]}}, "$ref": "#/$defs/a"},
        {"$ref": "#"},
    ],
    ids=lambda schema: next(iter(schema)),
)
def test_schema_beyond_a_limit_is_refused(schema: dict[str, Any]) -> None:
    with pytest.raises(SchemaTooComplex):
        Validator(schema)


def test_deep_schema_is_refused() -> None:
    schema: dict[str, Any] = {}
    for _ in range(60):
        schema = {"properties": {"a": schema}}
    with pytest.raises(SchemaInvalid):
        Validator(schema)


def test_ordinary_schemas_are_not_measured() -> None:
    tree = {"$defs": {"n": {"properties": {"next": {"$ref": "#/$defs/n"}}}}, "$ref": "#/$defs/n"}
    wide = {"properties": {f"p{n}": {"type": "string", "enum": ["a", "b"]} for n in range(500)}}
    for schema in (tree, wide, {"items": {"anyOf": [{"type": "string"}, {"type": "null"}]}}):
        bounds = bounds_of(schema)
        assert isinstance(bounds, Bounds) and bounds.plain


def test_recursive_union_is_accepted_and_checks_values_of_ordinary_depth() -> None:
    validator = Validator(expression(5))
    good = {"op": "op4", "left": {"op": "op1", "left": {"op": "op0"}, "right": {"op": "op2"}}, "right": {"op": "op3"}}
    assert validator.accepts(good)
    assert not validator.accepts(nested(3))


COSTLY: list[tuple[dict[str, Any], Any]] = [
    (chain(11), "x"),
    (chain(11, "oneOf"), "x"),
    (chain(11, "allOf"), "x"),
    (chain(12, "anyOf", "left"), {"left": nested(11)}),
    (expression(5), nested(8)),
    (expression(20), nested(30)),
    ({"items": {"type": "null"}}, [1] * 200_000),
    ({"items": {"anyOf": [{"type": "null"}, {"type": "string"}]}}, [1] * 200_000),
    ({"items": {"enum": [f"v{n}" for n in range(10_000)]}}, ["x"] * 50_000),
    ({"items": {"enum": [{"v": n} for n in range(2_000)]}}, [{"v": -1}] * 20_000),
    ({"required": [f"n{n}" for n in range(2_000)]}, {"x": [0] * 200_000}),
    ({"items": {"required": [f"n{n}" for n in range(500)]}}, [{}] * 50_000),
    ({"allOf": [{"type": "array"}] * 50}, {"x": [0] * 200_000}),
    ({"propertyNames": {"maxLength": 1}}, {f"k{n}": n for n in range(100_000)}),
    ({"additionalProperties": False}, {f"k{n}": n for n in range(100_000)}),
    ({"patternProperties": {f"a{n}": {"type": "null"} for n in range(100)}}, {f"k{n}": 1 for n in range(100_000)}),
    ({"items": {"pattern": "^(a*)*\\1$b"}}, ["a" * 200 + "c"] * 20_000),
    ({"pattern": "^(\\w+\\s?)*$"}, "a " * 2_000_000 + "!"),
    ({"uniqueItems": True}, [{"a": n} for n in range(50_000)] + [{"a": 1}]),
    (unevaluated(7), {"a": 1, "b": 2}),
    ({"if": {"items": {"type": "integer"}}, "then": {"items": {"type": "null"}}}, [1] * 100_000),
    ({"contains": {"anyOf": [{"const": n} for n in range(500)]}}, [-1] * 50_000),
]


@pytest.mark.parametrize(("schema", "value"), COSTLY, ids=[str(number) for number in range(len(COSTLY))])
def test_hostile_pair_of_schema_and_value_costs_little(schema: dict[str, Any], value: Any) -> None:
    """Bounds are counts, not times; the time and the memory here are those no such count may come near."""
    validator = Validator(schema)
    before, started = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.process_time()
    issues = validator.issues(value)
    assert time.process_time() - started < SECONDS
    assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < MEGABYTES * 1024
    assert 1 <= len(issues) <= 20


def test_what_cannot_be_listed_is_still_refused() -> None:
    issues = Validator({"items": {"type": "null"}}).issues([1] * 100_000)
    assert [issue.message for issue in issues] == [UNLISTED]


NAMES = st.sampled_from(["a", "b", "c", "d"])
REFERENCES = NAMES.map(lambda name: {"$ref": f"#/$defs/{name}"})


def _grown(inner: st.SearchStrategy[dict[str, Any]]) -> st.SearchStrategy[dict[str, Any]]:
    several = st.lists(inner, min_size=1, max_size=6)
    return st.one_of(
        several.map(lambda schemas: {"anyOf": schemas}),
        several.map(lambda schemas: {"oneOf": schemas}),
        several.map(lambda schemas: {"allOf": schemas, "unevaluatedProperties": False}),
        st.dictionaries(NAMES, inner, max_size=4).map(lambda properties: {"properties": properties}),
        inner.map(lambda schema: {"items": schema}),
        inner.map(lambda schema: {"not": schema}),
        st.tuples(inner, inner, inner).map(lambda three: dict(zip(("if", "then", "else"), three, strict=True))),
        inner.map(lambda schema: {"patternProperties": {"^[ab]": schema}, "additionalProperties": schema}),
    )


GROWN = st.recursive(REFERENCES | st.just({"type": "null"}) | st.just({"enum": [1, 2]}), _grown, max_leaves=12)
DOCUMENTS = st.fixed_dictionaries({"a": GROWN, "b": GROWN, "c": GROWN, "d": GROWN}).map(
    lambda definitions: {"$defs": definitions, "$ref": "#/$defs/a"}
)
VALUES = st.recursive(
    st.integers(0, 3) | st.none(),
    lambda inner: st.lists(inner, max_size=6) | st.dictionaries(NAMES, inner, max_size=4),
    max_leaves=40,
)


@given(DOCUMENTS, VALUES)
@settings(max_examples=150, deadline=None)
def test_whatever_is_accepted_is_checked_at_little_cost(document: dict[str, Any], value: Any) -> None:
    if isinstance(bounds_of(document), Failure):
        return
    validator, started = Validator(document), time.process_time()
    validator.issues(value)
    assert time.process_time() - started < SECONDS


@pytest.mark.requirement("S25")
@pytest.mark.parametrize("pattern", [r"(?=(a+))\1b", r"(?=a+c)b", r"(a+)\1b"])
def test_a_pattern_that_looks_back_or_around_is_not_tried_on_a_long_text(pattern: str) -> None:
    """Its cost is the square of the text's length: 50,000 characters took seconds."""
    validator = Validator({"type": "object", "properties": {"t": {"type": "string", "pattern": pattern}}})
    began = time.process_time()
    assert not validator.accepts({"t": "a" * 50_000})
    assert validator.issues({"t": "a" * 50_000})
    assert time.process_time() - began < 1
    assert Validator({"type": "string", "pattern": r"^(?=.*\d).{8,}$"}).accepts("password1")


def test_a_schema_that_a_reference_finds_in_a_list_of_values_has_its_limits() -> None:
    hidden = {"enum": [{"pattern": "a" * (MAX_PATTERN_CHARACTERS + 1)}], "allOf": [{"$ref": "#/enum/0"}]}
    assert isinstance(bounds_of(hidden), Failure)
    assert not isinstance(bounds_of({"enum": [{"pattern": "a" * (MAX_PATTERN_CHARACTERS + 1)}]}), Failure)
    named = {"properties": {"enum": {"pattern": "a" * (MAX_PATTERN_CHARACTERS + 1)}}}
    assert isinstance(bounds_of(named), Failure), "a property may have any name"
