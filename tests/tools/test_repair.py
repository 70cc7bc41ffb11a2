"""Deterministic repair: lossless, or none at all."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.core import json
from app.tools.contract import RepairSwitches, ToolDefinition, ToolRequest
from app.tools.guard import Guard
from app.tools.jsontext import read
from app.tools.names import one_edit_away, same_but_spelling
from app.tools.repair import repair_arguments, repair_name, repair_text


def guard(properties: dict[str, Any], required: list[str] | None = None, **fields: Any) -> Guard:
    schema = {"type": "object", "properties": properties, "required": required or list(properties)}
    return Guard(ToolDefinition("t", input=schema, **fields))


values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(codec="utf-8", exclude_characters="\x00"), max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("abc'\" ", max_size=3), inner, max_size=3),
    max_leaves=8,
)  # fmt: skip
documents = st.dictionaries(st.sampled_from(["a", "b", "it's", "c d"]), values, max_size=3)


@pytest.mark.requirement("SH-12")
@settings(max_examples=150, deadline=None)
@given(documents, st.data())
def test_text_that_was_cut_anywhere_is_read_as_it_was_meant_or_not_at_all(value: Any, data: Any) -> None:
    text = json.dumps(value).decode()
    cut = text[: data.draw(st.integers(0, len(text)))]
    open_schema = Guard(ToolDefinition("t", input={"type": "object", "additionalProperties": True}))
    repaired = repair_text(open_schema, ToolRequest("c", "t", None, cut))
    assert repaired is None or repaired.arguments == value


@pytest.mark.requirement("SH-12")
@settings(max_examples=150, deadline=None)
@given(documents)
def test_pythons_spelling_of_a_document_is_read_as_it_was_meant_or_not_at_all(value: Any) -> None:
    for text in (repr(value), json.dumps(value).decode().replace('"', "'"), f"```\n{json.dumps(value).decode()}\n```"):
        reading = read(text, complete=True)
        assert reading is None or reading.value == value or json.loads_strict(text.encode()) is not None


@pytest.mark.requirement("SH-12")
@settings(max_examples=150, deadline=None)
@given(st.text(max_size=40))
def test_no_text_breaks_the_reader(text: str) -> None:
    read(text)
    read("{" + text)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ('```json\n{"a": 1}\n```', {"a": 1}),
        ('{"a": [1, 2,], }', {"a": [1, 2]}),
        ("{'a': 'x', 'b': None, 'c': True}", {"a": "x", "b": None, "c": True}),
        ("{a: 1}", {"a": 1}),
        ('"{\\"a\\": 1}"', {"a": 1}),
        ('{"a": "one\ntwo"}', {"a": "one\ntwo"}),
        ('{"a": {"b": "c"', {"a": {"b": "c"}}),
        ('{"a": "\\ud83d\\ude00",}', {"a": "😀"}),
    ],
)
def test_almost_json_with_one_reading_is_read(text: str, value: Any) -> None:
    reading = read(text)
    assert reading is not None
    assert reading.value == value


@pytest.mark.parametrize(
    "text",
    [
        "", "no json", '{"a": 1} {"b": 2}', '{"a": 1, "a": 2,}', '{"a": 12', '{"a": "x', '{"a":', '{"a": 1,',
        "{'a': 'it's'}", "{'a': 'it\\'s'}", '{"a": NaN}', '{"a": 0x10}', '{"a": 01}', '{"a" 1}', "[1]", '{"a": 1]',
        "Here you are: {'a': 1}", '{"a": 1e999,}', '{"a": ' + "[" * 200, "{'a': 99999999999999999999999}",
        '{"a": "\\ud800",}',
    ],
)  # fmt: skip
def test_text_with_no_reading_or_two_is_not_read(text: str) -> None:
    assert read(text) is None


def test_a_missing_close_is_repaired_only_when_nothing_can_have_been_lost() -> None:
    wide = guard({"a": {"type": "string"}, "b": {"type": "string"}}, ["a"])
    call = ToolRequest("c", "t", None, '{"a": "x"')
    assert repair_text(wide, call) is None  # b may have been cut off
    assert repair_text(wide, ToolRequest("c", "t", None, '{"a": "x", "b": "y"')) is not None
    complete = repair_text(wide, ToolRequest("c", "t", None, '{"a": "x"', complete=True))
    assert complete is not None
    assert complete.arguments == {"a": "x"}


@pytest.mark.requirement("SH-12")
@pytest.mark.parametrize(
    ("schema", "given", "meant"),
    [
        ({"type": "integer"}, "3", 3),
        ({"type": "integer"}, " -7 ", -7),
        ({"type": "number"}, "1.5", 1.5),
        ({"type": "boolean"}, "True", True),
        ({"type": ["integer", "null"]}, "null", None),
        ({"type": "array", "items": {"type": "integer"}}, "[1, 2]", [1, 2]),
        ({"type": "array", "items": {"type": "integer"}}, '["1"]', [1]),
        ({"enum": ["Kelvin", "Celsius"]}, "KELVIN", "Kelvin"),
        ({"enum": [1, 2]}, "2", 2),
        ({"anyOf": [{"type": "integer"}, {"type": "null"}]}, "4", 4),
    ],
)
def test_a_value_with_one_reading_gets_it(schema: dict[str, Any], given: Any, meant: Any) -> None:
    repaired = repair_arguments(guard({"v": schema}), {"v": given})
    assert repaired is not None
    assert repaired.arguments == {"v": meant}
    assert repaired.repairs[0].before == given


@pytest.mark.requirement("SH-12")
@pytest.mark.parametrize(
    ("schema", "given"),
    [
        ({"type": "integer"}, "three"),
        ({"type": "integer"}, "3 days"),
        ({"type": "integer"}, "007"),
        ({"type": "integer"}, "3.5"),
        ({"type": "integer"}, "99999999999999999999"),
        ({"type": "integer", "maximum": 5}, "6"),
        ({"type": "number"}, "0.12345678901234567890123"),
        ({"type": "number"}, "1e999"),
        ({"type": "boolean"}, "yes"),
        ({"type": "boolean"}, 1),
        ({"type": "string"}, 3),
        ({"type": "array", "items": {"type": "string"}}, "a"),
        ({"enum": ["On", "ON"]}, "on"),
        ({"enum": ["asc", "desc"]}, "ascending"),
        ({"anyOf": [{"type": "boolean"}, {"enum": ["TRUE"]}]}, "true"),
        ({"type": "string", "format": "path"}, "/etc/passwd"),
        ({"type": "string", "format": "date"}, "tomorrow"),
    ],
)
def test_a_value_with_no_reading_or_two_is_left_alone(schema: dict[str, Any], given: Any) -> None:
    assert repair_arguments(guard({"v": schema}), {"v": given}) is None


def test_a_required_argument_in_another_spelling_is_renamed_and_an_optional_one_is_not() -> None:
    both = guard({"user_id": {"type": "string"}, "limit": {"type": "integer"}}, ["user_id"])
    repaired = repair_arguments(both, {"userId": "u"})
    assert repaired is not None
    assert repaired.arguments == {"user_id": "u"}
    assert repair_arguments(both, {"user_id": "u", "Limit": 3}) is None
    assert repair_arguments(both, {"userId": "u", "USERID": "v"}) is None


def test_in_a_union_the_fewest_changes_win_and_a_tie_is_refused() -> None:
    variants = {
        "oneOf": [
            {"properties": {"kind": {"const": "A"}, "n": {"type": "integer"}}, "required": ["kind", "n"]},
            {"properties": {"kind": {"const": "B"}, "n": {"type": ["string", "integer"]}}, "required": ["kind"]},
        ]
    }
    repaired = repair_arguments(guard({"v": variants}), {"v": {"kind": "b", "n": "3"}})
    assert repaired is not None
    assert repaired.arguments == {"v": {"kind": "B", "n": "3"}}


def test_each_repair_can_be_switched_off() -> None:
    off = guard({"v": {"type": "integer"}}, repair=RepairSwitches(types=False))
    assert repair_arguments(off, {"v": "3"}) is None
    off = guard({"v": {"enum": ["A"]}}, repair=RepairSwitches(enums=False))
    assert repair_arguments(off, {"v": "a"}) is None
    off = guard({"v": {"enum": ["A"]}}, repair=RepairSwitches(json=False))
    assert repair_text(off, ToolRequest("c", "t", None, '{"v": "A",}')) is None


def test_names_differ_by_spelling_or_by_one_letter_but_never_by_a_digit() -> None:
    assert same_but_spelling("GetUser", ["get_user", "get_users"]) == ["get_user"]
    assert one_edit_away("get_usr", ["get_user", "set_usr"]) == ["get_user", "set_usr"]
    assert one_edit_away("serach", ["search"]) == ["search"]
    assert one_edit_away("search_v1", ["search_v2"]) == []
    assert one_edit_away("get", ["set"]) == []
    assert repair_name("get_usr", {"get_user": "readonly", "set_usr": "readonly"}, ["get_user"]) is None
