"""Fan-in: what several reviewers found becomes one review_aggregate_v1. Pure functions.

Findings with one fingerprint are one finding. Merging takes the conservative side of every difference, so the order
of the reviewers does not matter and a repeated report changes nothing: the merge is a join.
"""

from collections.abc import Iterable, Mapping, Sequence
from hashlib import sha256
from typing import Any, Final

from app.core.errors import Failure
from app.core.json import JsonObject
from app.core.schemas import Validator
from app.core.value import value

SEVERITIES: Final = ("P0", "P1", "P2", "P3")
"""The worst first."""
AUTOFIX_CLASSES: Final = ("safe_auto", "gated_auto", "manual", "advisory")
"""From what may be done without asking to what is only said."""
WORDS: Final[Mapping[str, str]] = {"critical": "P0", "major": "P1", "minor": "P2", "info": "P3"}
MAX_FINDINGS: Final = 500
"""Of one reviewer; more is a malfunction, and the next request would have to carry them."""

_VERDICTS: Final = {"allow": "allow", "pass": "allow", "deny": "deny", "fail": "deny"}
_TEXTS: Final = ("title", "id", "description", "suggestion", "path")


@value(frozen=True, slots=True)
class ReviewReport:
    """One reviewer's answer: valid findings, and its verdict if it gave one."""

    reviewer: str
    findings: tuple[JsonObject, ...]
    verdict: str | None = None


def read_report(reviewer: str, answer: Any, finding: Validator) -> ReviewReport | Failure:
    """A reviewer's JSON as a report. The reviewer is who was asked, whatever the answer says."""
    if not isinstance(answer, Mapping) or not isinstance(answer.get("findings"), list):
        return _malformed(reviewer, "its answer has no list `findings`")
    given, verdict = answer["findings"], answer.get("verdict")
    if len(given) > MAX_FINDINGS:
        return _malformed(reviewer, f"it reports {len(given)} findings; the limit is {MAX_FINDINGS}")
    if verdict is not None and verdict not in _VERDICTS:
        return _malformed(reviewer, "its `verdict` is neither allow nor deny")
    findings = []
    for number, one in enumerate(given):
        if not isinstance(one, dict):
            return _malformed(reviewer, f"findings/{number} is not an object")
        severity = one.get("severity")
        named = WORDS.get(severity, severity) if isinstance(severity, str) else severity
        full = one | {"reviewer": reviewer, "severity": named}
        issues = finding.issues(full)
        if issues:
            where = f"findings/{number}{issues[0].path}"
            return _malformed(reviewer, f"{where}: {issues[0].message}")
        findings.append(full)
    return ReviewReport(reviewer, tuple(findings), None if verdict is None else _VERDICTS[verdict])


def _malformed(reviewer: str, what: str) -> Failure:
    return Failure("MALFORMED_AGENT_MESSAGE", f"The reviewer {reviewer!r} did not report as agreed: {what}")


def fingerprint(finding: Mapping[str, Any]) -> str:
    """The finding's own, or the SHA-256 of path, line and lower-case title, each on a line of its own."""
    given = finding.get("fingerprint")
    if given:
        return str(given)
    parts = (finding.get("path") or "", finding.get("line") or "", str(finding["title"]).lower())
    return sha256("\n".join(map(str, parts)).encode()).hexdigest()


def merge(one: JsonObject, other: JsonObject) -> JsonObject:
    """Two findings about the same thing: the more severe, the less automatic, the more certain, and new if either
    says so. The texts are one reviewer's, so that they belong together."""
    said = min(one, other, key=_said)
    reviewers = sorted({*_reviewers(one), *_reviewers(other)})
    merged: JsonObject = {name: said[name] for name in (*_TEXTS, "line") if name in said}
    merged |= {
        "reviewer": reviewers[0],
        "reviewers": reviewers,
        "severity": min(one["severity"], other["severity"], key=SEVERITIES.index),
        "autofix_class": max(one["autofix_class"], other["autofix_class"], key=AUTOFIX_CLASSES.index),
        "confidence": max(one["confidence"], other["confidence"]),
        "fingerprint": fingerprint(one),
        "schema_version": "v1",
    }
    evidence = sorted({*one.get("evidence", ()), *other.get("evidence", ())})
    if evidence:
        merged["evidence"] = evidence
    if one.get("pre_existing") is True and other.get("pre_existing") is True:
        merged["pre_existing"] = True
    return merged


def aggregate(reports: Iterable[ReviewReport], expected: Sequence[str]) -> JsonObject:
    """A review_aggregate_v1. Whoever was expected and did not report makes the verdict a denial."""
    merged: dict[str, JsonObject] = {}
    reported: set[str] = set()
    denied = False
    for report in reports:
        reported.add(report.reviewer)
        denied = denied or report.verdict == "deny"
        for finding in report.findings:
            key = fingerprint(finding)
            # Merged with itself, a finding has the form of a merged one.
            merged[key] = merge(merged.get(key, finding), finding)
    ordered = sorted(merged.values(), key=lambda it: (it["severity"], it["fingerprint"]))
    found = {
        "findings": [it for it in ordered if not it.get("pre_existing")],
        "suppressed": [],
        "pre_existing": [it for it in ordered if it.get("pre_existing")],
        "coverage": {"expected": sorted(expected), "reported": sorted(reported)},
        "verdict": "deny" if denied or set(expected) - reported else "allow",
        "schema_version": "v1",
    }
    return judged(found)


def judged(found: JsonObject) -> JsonObject:
    """The aggregate with its count of open P0 findings; with one, its verdict is a denial."""
    unresolved = sum(it["severity"] == "P0" for it in found["findings"])
    return found | {"p0_unresolved": unresolved, "verdict": "deny" if unresolved else found["verdict"]}


def _reviewers(finding: Mapping[str, Any]) -> Sequence[str]:
    named: Sequence[str] = finding.get("reviewers") or (finding["reviewer"],)
    return named


def _said(finding: Mapping[str, Any]) -> tuple[str, ...]:
    return (*(str(finding.get(name, "")) for name in _TEXTS), str(finding.get("line", "")))
