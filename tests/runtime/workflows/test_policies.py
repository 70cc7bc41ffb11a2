"""The five kinds of policy, evaluated in order, default deny; and the bounds of a loop."""

from typing import Any

import pytest

from app.core.errors import Failure
from app.core.expressions import Expression, NumberExpression, VariableType, compile_expression, compile_number
from app.runtime.workflows.loop_bounds import LoopCheck, LoopState, check_loop, state_hash
from app.runtime.workflows.policy_rulings import gate_findings, permit, routed_for, rule
from app.runtime.workflows.review_aggregate import ReviewReport, aggregate
from app.workspace.compiled_cycles import CompiledPolicy, InvokedAgent, LoopBounds, PolicyRule
from app.workspace.cycle_policies import SUBJECTS
from app.workspace.unit_fields import STATE_NAMES
from tests.runtime.workflows.test_review_aggregate import finding

VALUES = {"mode": "headless", "generation": 1}


def policy(kind: Any, *rules: tuple[str, str] | tuple[str, str, tuple[str, ...]], default: Any = "deny") -> Any:
    names: dict[str, VariableType] = {**STATE_NAMES, **SUBJECTS[kind]}
    made = []
    for one in rules:
        when = compile_expression(one[0], names)
        assert isinstance(when, Expression), when
        made.append(PolicyRule(when, one[1], f"because {one[0]}", one[2] if len(one) == 3 else None))
    return CompiledPolicy("p", kind, tuple(made), default, "workflows/policies/p.md")


def found(*findings: dict[str, Any]) -> Any:
    given = [one | {"fingerprint": str(number)} for number, one in enumerate(findings)]
    return aggregate([ReviewReport("one", tuple(given))], ["one"])


@pytest.mark.requirement("OS-L8")
def test_the_first_rule_that_holds_decides() -> None:
    gate = policy("mode-dispatch", ("mode == 'autofix'", "deny"), ("true", "report"), ("true", "deny"))
    ruling = rule(gate, VALUES)
    assert not isinstance(ruling, Failure)
    assert (ruling.then, ruling.decision, ruling.reason) == ("report", "advisory", "because true")


@pytest.mark.requirement("OS-L8")
@pytest.mark.parametrize("default", ["allow", "advisory", "deny"])
def test_without_a_matching_rule_the_default_decides(default: str) -> None:
    ruling = rule(policy("mode-dispatch", ("mode == 'x'", "allow"), default=default), VALUES)
    assert not isinstance(ruling, Failure) and ruling.decision == default


@pytest.mark.requirement("OS-L8")
def test_a_rule_that_cannot_be_evaluated_is_a_failure_and_no_decision() -> None:
    ruling = rule(policy("loop-halt", ("grade.nothing > 1", "allow"), ("true", "allow")), VALUES | {"grade": None})
    assert isinstance(ruling, Failure) and ruling.code == "POLICY_FAILED"


@pytest.mark.requirement("OS-L8")
def test_confidence_gating_splits_actionable_from_suppressed() -> None:
    gate = policy(
        "confidence-gating",
        ("finding.severity == 'P0'", "actionable"),
        ("finding.confidence < 50", "suppress"),
        ("true", "actionable"),
    )
    given = found(finding(severity="P0", confidence=25), finding(confidence=25), finding(confidence=75))
    gated = gate_findings(gate, VALUES, given)
    assert not isinstance(gated, Failure)
    verdict, after = gated
    assert verdict.decision == "allow"
    assert [one["fingerprint"] for one in after["findings"]] == ["0", "2"]
    assert [one["fingerprint"] for one in after["suppressed"]] == ["1"]
    assert after["p0_unresolved"] == 1 and after["verdict"] == "deny"


@pytest.mark.requirement("OS-L8")
def test_a_finding_that_no_rule_decides_about_is_denied_and_not_suppressed() -> None:
    gated = gate_findings(policy("confidence-gating"), VALUES, found(finding(severity="P0")))
    assert not isinstance(gated, Failure)
    assert gated[0].decision == "deny" and gated[1]["p0_unresolved"] == 1 and gated[1]["suppressed"] == []


@pytest.mark.requirement("OS-L8")
def test_severity_routing_sends_each_finding_where_its_rule_says_and_never_further_than_its_class() -> None:
    gate = policy(
        "severity-routing",
        ("finding.severity == 'P3'", "advisory"),
        ("finding.severity == 'P2'", "apply"),
        ("finding.severity == 'P1'", "gated"),
        ("finding.severity == 'P0'", "manual"),
    )
    given = found(
        finding(severity="P0"),
        finding(severity="P1"),
        finding(severity="P2"),
        finding(severity="P2", autofix_class="manual"),
        finding(severity="P3"),
    )
    gated = gate_findings(gate, VALUES, given)
    assert not isinstance(gated, Failure)
    routes = [one["route"] for one in gated[1]["findings"]]
    assert routes == ["manual", "gated", "apply", "manual", "advisory"]


@pytest.mark.parametrize(
    ("mode", "report", "approved", "routes"),
    [
        ("headless", False, None, ["apply", "manual"]),
        ("autofix", False, None, ["apply", "manual"]),
        ("report-only", False, None, ["manual", "manual"]),
        ("interactive", False, True, ["apply", "apply"]),
        ("interactive", False, False, ["apply", "manual"]),
        ("interactive", True, True, ["manual", "manual"]),
    ],
)
@pytest.mark.requirement("OS-L8")
def test_a_mode_says_what_becomes_of_routes(mode: str, report: bool, approved: bool | None, routes: list[str]) -> None:
    given = {"findings": [{"route": "apply"}, {"route": "gated"}]}
    after = routed_for(mode, given, report=report, approved=approved)
    assert [one["route"] for one in after["findings"]] == routes


@pytest.mark.requirement("OS-L8")
def test_role_permissions_restrict_who_is_asked_and_what_they_write() -> None:
    gate = policy(
        "role-permissions",
        ("agent.role == 'researcher'", "allow", ("docs/**",)),
        ("agent.id == 'critic'", "skip"),
        ("agent.kind == 'agent'", "allow"),
    )
    invoked = [
        InvokedAgent("scout", "persona", "researcher", "a"),
        InvokedAgent("critic", "persona", "reviewer", "a"),
        InvokedAgent("builder", "agent", "agent", "builder"),
    ]
    decided = permit([gate], VALUES, invoked)
    assert not isinstance(decided, Failure)
    verdicts, permissions = decided
    assert verdicts[0].decision == "advisory"
    assert [(one.agent.id, one.dispatched, one.paths) for one in permissions] == [
        ("scout", True, ("docs/**",)),
        ("critic", False, None),
        ("builder", True, None),
    ]
    second = policy("role-permissions", ("true", "allow", ("src/**", "docs/**")))
    narrowed = permit([gate, second], VALUES, invoked)
    assert not isinstance(narrowed, Failure) and narrowed[1][0].paths == ("docs/**",)


@pytest.mark.requirement("OS-L8")
def test_an_agent_that_no_rule_names_is_denied() -> None:
    decided = permit([policy("role-permissions")], VALUES, [InvokedAgent("x", "persona", "reviewer", "a")])
    assert not isinstance(decided, Failure)
    assert decided[0][0].decision == "deny" and not decided[1][0].dispatched


# -- loops ---------------------------------------------------------------------------------------------


def graded(most: int = 3) -> LoopBounds:
    grade = compile_number("100 - review_aggregate.p0_unresolved", STATE_NAMES)
    assert isinstance(grade, NumberExpression)
    return LoopBounds(most, grade)


def p0(number: int) -> dict[str, Any]:
    return {"review_aggregate": {"p0_unresolved": number}}


@pytest.mark.requirement("OS-M")
def test_a_loop_ends_at_its_last_generation() -> None:
    check = check_loop(LoopBounds(3), LoopState(), 4, "h", {})
    assert isinstance(check, LoopCheck) and check.breach is not None and check.breach.startswith("max_generations")
    within = check_loop(LoopBounds(3), LoopState(), 3, "h", {})
    assert isinstance(within, LoopCheck) and within.breach is None


@pytest.mark.requirement("OS-M")
def test_a_state_that_was_there_before_is_an_oscillation() -> None:
    check = check_loop(LoopBounds(9), LoopState(("a", "b")), 4, "a", {})
    assert isinstance(check, LoopCheck) and check.oscillation and "oscillation" in (check.breach or "")


@pytest.mark.requirement("OS-M")
def test_a_lower_grade_is_a_regression_and_an_equal_one_is_not() -> None:
    first = check_loop(graded(), LoopState(), 2, "a", p0(2))
    assert isinstance(first, LoopCheck) and first.breach is None and first.grade == 98
    equal = check_loop(graded(), first.state, 3, "b", p0(2))
    assert isinstance(equal, LoopCheck) and equal.breach is None
    worse = check_loop(graded(), first.state, 3, "b", p0(5))
    assert isinstance(worse, LoopCheck) and worse.breach == "grade regression: 95 after 98"


@pytest.mark.requirement("OS-M")
def test_a_grade_that_cannot_be_computed_is_a_failure() -> None:
    check = check_loop(graded(), LoopState(), 2, "a", {"review_aggregate": None})
    assert isinstance(check, Failure) and check.code == "POLICY_FAILED"


def test_the_state_hash_leaves_out_what_reviewers_vary() -> None:
    one, other = found(finding(id="a", description="x")), found(finding(id="b", description="y"))
    assert state_hash("p", {"p": 1}, one) == state_hash("p", {"p": 1}, other)
    assert state_hash("p", {"p": 1}, one) != state_hash("p", {"p": 2}, one)
    assert state_hash("p", {"p": 1}, one) != state_hash("q", {"p": 1}, one)
    assert state_hash("p", {}, one) != state_hash("p", {}, found(finding(severity="P1")))
