"""YAML values are those of the 1.2 core schema; frontmatter is found as people write it."""

from typing import Any

import pytest

from app.workspace.documents import MAX_PROBLEMS, MAX_VALUES, Locator, parse_yaml
from app.workspace.markdown import parse_markdown


@pytest.mark.requirement("S13")
@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("yes", "yes"), ("on", "on"), ("off", "off"), ("true", True), ("False", False), ("~", None),
        ("", None),
        ("null", None), ("12", 12), ("-3", -3), ("0o17", 15), ("0x1F", 31), ("017", 17), ("1_000", "1_000"),
        ("1.5", 1.5), ("1e3", 1000.0), ("1:30", "1:30"), ("2026-01-01", "2026-01-01"), ("'12'", "12"),
        ('"true"', "true"), ("0x", "0x"), (".5", 0.5), ("-", [None]), ("=", "="), ("<<", "<<"),
        ("9223372036854775807", 2**63 - 1),
    ],
)  # fmt: skip
def test_scalar_has_the_type_of_the_core_schema(text: str, value: Any) -> None:
    parsed = parse_yaml(f"a:\n  {text}\n".encode())
    assert not parsed.problems
    assert parsed.documents[0].value == {"a": value}
    assert type(parsed.documents[0].value["a"]) is type(value)


def test_keys_are_always_text() -> None:
    assert parse_yaml(b"on: 1\n404: x\nnull: y\n").documents[0].value == {"on": 1, "404": "x", "null": "y"}


def test_good_documents_before_a_mistake_are_kept() -> None:
    parsed = parse_yaml(b"a: 1\n---\nb: 2\nb: 3\n---\nc: 4\n---\n[\n")
    assert [document.value for document in parsed.documents] == [{"a": 1}, {"c": 4}]
    assert [problem.code for problem in parsed.problems] == ["YAML_DUPLICATE_KEY", "YAML_SYNTAX"]


@pytest.mark.parametrize("depth", [64, 65])
def test_depth_of_64_is_the_limit(depth: int) -> None:
    parsed = parse_yaml(b"[" * depth + b"]" * depth)
    assert [problem.code for problem in parsed.problems] == ([] if depth == 64 else ["YAML_TOO_DEEP"])


@pytest.mark.parametrize("text", [b"- " * 300_000 + b"x", b"[" * 900_000, b"{a: " * 200_000, b"? " * 300_000])
def test_endless_nesting_does_not_end_the_process(text: bytes) -> None:
    assert parse_yaml(text).problems[0].code in ("YAML_TOO_DEEP", "YAML_SYNTAX")


def test_place_of_something_missing_is_that_of_its_nearest_container() -> None:
    locator = Locator(b"a:\n  b:\n    - x\n    - y: 1\n")
    assert locator.find(0, ("a", "b", 1, "y")) == (4, 10)
    assert locator.find(0, ("a", "b", 7)) == (2, 3)
    assert locator.find(0, ("a", "zzz")) == (1, 1)
    assert locator.find(5, ("a",)) == (1, 1)


def test_frontmatter_and_body_are_parted() -> None:
    parsed = parse_markdown(b"---\r\nname: a\r\n---\r\n\r\nText --- here\n---\nmore\n")
    assert parsed.values == {"name": "a"}
    assert parsed.body == "Text --- here\n---\nmore"


def test_line_of_a_mistake_in_frontmatter_is_that_of_the_file() -> None:
    parsed = parse_markdown(b"---\nname: a\nname: b\n---\n")
    assert [(problem.code, problem.line) for problem in parsed.problems] == [("YAML_DUPLICATE_KEY", 3)]


def test_a_mistake_repeated_thousands_of_times_is_listed_a_hundred_times_and_counted() -> None:
    parsed = parse_yaml(b"a: 1\n" * 5_000)
    assert len(parsed.problems) == MAX_PROBLEMS + 1
    assert parsed.problems[-1].message == f"{4_999 - MAX_PROBLEMS} more problems of this document are not listed"
    assert {problem.path for problem in parsed.problems[:-1]} == {("a",)}


def test_a_file_with_very_many_values_is_refused_before_it_is_read() -> None:
    many = b"[" + b"1," * (MAX_VALUES + 1) + b"]"
    assert [problem.code for problem in parse_yaml(many).problems] == ["FILE_TOO_LARGE"]
    assert not parse_yaml(b"text: '" + b"a, " * (MAX_VALUES + 1) + b"'").problems
