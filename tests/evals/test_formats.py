"""Datasets as files: what is written is read again, and the real pydantic-evals reads our YAML."""

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from app.core.errors import Failure
from app.evals.cases import Case, cases_of, to_lines
from app.evals.formats import read_jsonl, read_yaml, write_yaml
from tests.examples import examples

TEXT = st.text(st.characters(exclude_categories=["Cs", "Cc"]) | st.sampled_from("\n\t"), max_size=30)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.floats(allow_nan=False, allow_infinity=False) | TEXT,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXT.filter(bool), inner, max_size=3),
    max_leaves=8,
)
CASES = st.lists(
    st.builds(
        Case,
        st.uuids().map(str),
        TEXT.filter(bool) | st.dictionaries(TEXT.filter(bool), JSON, max_size=3),
        JSON,
        JSON,
        st.dictionaries(st.text("abcdef", min_size=1, max_size=5), JSON, max_size=3),
        st.none() | st.fixed_dictionaries({"runId": st.just("run_1"), "seq": st.integers(1, 99)}),
    ),
    min_size=1,
    max_size=5,
    unique_by=lambda case: case.id,
)


@settings(max_examples=examples(120), deadline=None)
@given(CASES)
def test_jsonl_is_read_as_it_was_written(cases: list[Case]) -> None:
    assert read_jsonl(to_lines(cases)) == cases


@settings(max_examples=examples(120), deadline=None)
@given(CASES)
def test_yaml_is_read_as_it_was_written(cases: list[Case]) -> None:
    assert read_yaml(write_yaml("d", cases)) == cases


@pytest.mark.requirement("HK-20")
def test_pydantic_evals_reads_our_yaml_and_we_read_theirs(tmp_path: Path) -> None:
    import pydantic_evals

    cases = [
        Case("greeting", "hello: 'world' # not a comment", "hi", metadata={"team": "a"}),
        Case(
            "object", {"order": 7, "yes": True}, {"ok": True}, source={"runId": "run_1", "seq": 9, "digest": "0" * 64}
        ),
        Case("no", "null", None, "an output"),
    ]
    file = tmp_path / "talks.yaml"
    file.write_bytes(write_yaml("talks", cases))
    loaded = pydantic_evals.Dataset[Any, Any, Any].from_file(file)
    assert [(case.name, case.inputs, case.expected_output) for case in loaded.cases] == [
        (case.id, case.input, case.expected) for case in cases
    ]
    assert loaded.cases[0].metadata == {"team": "a"}
    assert (loaded.cases[1].metadata or {})["holdfast"]["source"]["runId"] == "run_1"
    theirs = tmp_path / "theirs.yaml"
    loaded.to_file(theirs)
    assert read_yaml(theirs.read_bytes()) == cases


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"cases: 7",
        b"cases: [{inputs: a, name: x}, {inputs: b, name: x}]",
        b"cases: [{inputs: a, other: 1}]",
        b"cases: [{inputs: [.nan]}]",
        b"cases: [{inputs: {a: !!binary aGk=}}]",
        b"a: &x [1]\ncases: [*x]",
        b"cases: " + b"[" * 10_000,
        b"!!python/object/apply:os.system ['true']",
        b"\xff\xfe\x00",
        b"cases: [{}]",
    ],
)
def test_yaml_that_cannot_be_a_dataset_is_refused(data: bytes) -> None:
    assert isinstance(read_yaml(data), Failure)


@pytest.mark.parametrize(
    "data",
    [b"", b"{", b"[]", b'{"input": 1}', b'{"input": "a", "id": ""}', b'{"input": "a", "metadata": 1}',
     b'{"input": "a", "id": "x"}\n{"input": "a", "id": "x"}', b'{"input": "' + b"x" * 300_000 + b'"}',
     b'{"input": "a", "input": "b"}', b"\xff"],
)  # fmt: skip
def test_lines_that_cannot_be_a_dataset_are_refused(data: bytes) -> None:
    assert isinstance(read_jsonl(data), Failure)


def test_cases_are_named_by_their_number_when_they_have_no_id() -> None:
    made = cases_of([{"input": "a"}, {"input": "b"}])
    assert isinstance(made, list) and [case.id for case in made] == ["case-1", "case-2"]
