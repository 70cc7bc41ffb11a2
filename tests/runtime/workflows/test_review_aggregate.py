"""Fan-in: findings with one fingerprint merge by the conservative choice, whatever the order."""

from hashlib import sha256
from itertools import permutations
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app.core.errors import Failure
from app.core.schemas import SchemaRegistry
from app.runtime.workflows.review_aggregate import (
    AUTOFIX_CLASSES,
    MAX_FINDINGS,
    SEVERITIES,
    ReviewReport,
    aggregate,
    fingerprint,
    merge,
    read_report,
)

SCHEMAS = SchemaRegistry()
FINDING = SCHEMAS.validator("finding_v1")


def finding(**changes: Any) -> dict[str, Any]:
    base = {
        "id": "f1",
        "reviewer": "one",
        "severity": "P2",
        "autofix_class": "safe_auto",
        "confidence": 50,
        "title": "Leak",
        "schema_version": "v1",
    }
    return base | changes


optional = st.fixed_dictionaries(
    {},
    optional={
        "path": st.sampled_from(["a.py", "b.py"]),
        "line": st.integers(1, 3),
        "description": st.sampled_from(["x", "y"]),
        "evidence": st.lists(st.sampled_from(["e1", "e2"]), max_size=2),
        "pre_existing": st.booleans(),
        "fingerprint": st.sampled_from(["same", "other"]),
    },
)
required = st.fixed_dictionaries(
    {
        "id": st.sampled_from(["f1", "f2"]),
        "reviewer": st.sampled_from(["one", "two", "three"]),
        "severity": st.sampled_from(SEVERITIES),
        "autofix_class": st.sampled_from(AUTOFIX_CLASSES),
        "confidence": st.sampled_from([0, 25, 50, 75, 100]),
        "title": st.sampled_from(["Leak", "leak", "Race"]),
        "schema_version": st.just("v1"),
    }
)
findings = st.builds(lambda one, more: one | more, required, optional)
alike = findings.map(lambda one: one | {"fingerprint": "same"})
reports = st.lists(
    st.builds(
        ReviewReport,
        st.sampled_from(["one", "two", "three"]),
        st.lists(findings, max_size=4).map(tuple),
        st.sampled_from([None, "allow", "deny"]),
    ),
    max_size=4,
)


@pytest.mark.requirement("OS-M")
@given(alike, alike, alike)
def test_merging_is_a_join(a: dict[str, Any], b: dict[str, Any], c: dict[str, Any]) -> None:
    assert merge(a, b) == merge(b, a)
    assert merge(merge(a, b), c) == merge(a, merge(b, c))
    assert merge(merge(a, b), merge(a, b)) == merge(a, b)
    assert merge(merge(a, b), a) == merge(a, b)


@pytest.mark.requirement("OS-M")
@given(alike, alike)
def test_merging_never_relaxes(a: dict[str, Any], b: dict[str, Any]) -> None:
    merged = merge(a, b)
    for one in (a, b):
        assert SEVERITIES.index(merged["severity"]) <= SEVERITIES.index(one["severity"])
        assert AUTOFIX_CLASSES.index(merged["autofix_class"]) >= AUTOFIX_CLASSES.index(one["autofix_class"])
        assert merged["confidence"] >= one["confidence"]
    assert bool(merged.get("pre_existing")) == bool(a.get("pre_existing") and b.get("pre_existing"))


@pytest.mark.requirement("OS-M")
@given(reports)
def test_the_aggregate_is_valid_and_does_not_depend_on_the_order(given_reports: list[ReviewReport]) -> None:
    expected = ["one", "two"]
    first = aggregate(given_reports, expected)
    assert SCHEMAS.validate("review_aggregate_v1", first) == []
    assert all(aggregate(order, expected) == first for order in list(permutations(given_reports))[:6])
    assert aggregate([*given_reports, *given_reports], expected) == first
    denied = any(report.verdict == "deny" for report in given_reports)
    reported = {report.reviewer for report in given_reports}
    open_p0 = sum(one["severity"] == "P0" for one in first["findings"])
    assert first["p0_unresolved"] == open_p0
    assert (first["verdict"] == "deny") == (denied or bool(set(expected) - reported) or open_p0 > 0)


@pytest.mark.requirement("OS-M")
@pytest.mark.parametrize(("word", "severity"), [("critical", "P0"), ("major", "P1"), ("minor", "P2"), ("info", "P3")])
def test_severities_of_the_labs_are_p0_to_p3(word: str, severity: str) -> None:
    report = read_report("one", {"findings": [finding(severity=word)]}, FINDING)
    assert isinstance(report, ReviewReport) and report.findings[0]["severity"] == severity


@pytest.mark.requirement("OS-M")
def test_a_finding_without_a_fingerprint_has_the_hash_of_path_line_and_lower_case_title() -> None:
    one = finding(path="src/a.py", line=3, title="SQL Injection")
    assert fingerprint(one) == sha256(b"src/a.py\n3\nsql injection").hexdigest()
    assert fingerprint(finding(title="Leak")) == sha256(b"\n\nleak").hexdigest()
    assert fingerprint(finding(fingerprint="given")) == "given"


def test_a_reviewer_cannot_report_in_the_name_of_another() -> None:
    report = read_report("two", {"findings": [finding(reviewer="one")]}, FINDING)
    assert isinstance(report, ReviewReport) and report.findings[0]["reviewer"] == "two"


@pytest.mark.parametrize(
    "answer",
    [
        "prose",
        {},
        {"findings": "none"},
        {"findings": ["x"]},
        {"findings": [finding(confidence=60)]},
        {"findings": [finding(severity="P9")]},
        {"findings": [finding(severity=["P0"])]},
        {"findings": [finding(autofix_class="auto")]},
        {"findings": [{"title": "no more"}]},
        {"findings": [], "verdict": "maybe"},
        {"findings": [finding()] * (MAX_FINDINGS + 1)},
    ],
)
@pytest.mark.requirement("OS-M", "OS-F")
def test_an_answer_that_is_no_report_is_refused(answer: Any) -> None:
    report = read_report("one", answer, FINDING)
    assert isinstance(report, Failure) and report.code == "MALFORMED_AGENT_MESSAGE"
