"""Policies of cycles, evaluated: the first rule that holds decides, else the default, which denies if omitted.

Pure functions. A rule that cannot be evaluated aborts the cycle: nobody knows what it would have said. Leaves to the
cycle: what a denial does and recording it.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from app.core.errors import Failure
from app.core.json import JsonObject
from app.core.value import value
from app.runtime.workflows.cycle_values import used
from app.runtime.workflows.review_aggregate import AUTOFIX_CLASSES, judged
from app.workspace.compiled_cycles import OUTCOMES, CompiledPolicy, InvokedAgent, PolicyDecision

ROUTES: Final = ("apply", "gated", "manual", "advisory")
"""Where severity-routing sends a finding, in the order of the autofix classes."""
_ORDER: Final[tuple[PolicyDecision, ...]] = ("allow", "advisory", "deny")
_REASONS: Final = 5  # different reasons of one decision that are worth reading


@value(frozen=True, slots=True)
class Ruling:
    """What one policy says about one thing: a finding, an agent, the mode or the loop."""

    then: str
    decision: PolicyDecision
    reason: str
    paths: tuple[str, ...] | None = None


@value(frozen=True, slots=True)
class PolicyVerdict:
    """What one policy says about a phase: the strictest of its rulings."""

    policy: CompiledPolicy
    decision: PolicyDecision
    reason: str


def rule(policy: CompiledPolicy, values: Mapping[str, Any]) -> Ruling | Failure:
    for number, one in enumerate(policy.rules):
        answer = one.when.evaluate(used(one.when, values))
        if isinstance(answer, Failure):
            message = f"Rule {number + 1} of the policy {policy.id!r} cannot be evaluated: {answer.message}"
            return Failure("POLICY_FAILED", message)
        if answer:
            return Ruling(one.then, OUTCOMES[policy.kind][one.then], one.reason, one.paths)
    return Ruling(policy.default, policy.default, f"no rule applies; the default is {policy.default}")


def strictest(policy: CompiledPolicy, rulings: Iterable[Ruling], nothing: str) -> PolicyVerdict:
    """One decision about all of them; `nothing` is the reason when there is nothing to decide about."""
    given = list(rulings)
    if not given:
        return PolicyVerdict(policy, "allow", nothing)
    decision = max((one.decision for one in given), key=_ORDER.index)
    reasons = list(dict.fromkeys(one.reason for one in given if one.decision == decision))
    more = f" (and {len(reasons) - _REASONS} more)" if len(reasons) > _REASONS else ""
    return PolicyVerdict(policy, decision, "; ".join(reasons[:_REASONS]) + more)


# -- findings ------------------------------------------------------------------------------------------


def gate_findings(
    policy: CompiledPolicy, values: Mapping[str, Any], found: JsonObject
) -> tuple[PolicyVerdict, JsonObject] | Failure:
    """confidence-gating and severity-routing: the decision, and the aggregate that it leaves."""
    rulings = []
    for finding in found["findings"]:
        ruling = rule(policy, {**values, "finding": finding})
        if isinstance(ruling, Failure):
            return ruling
        rulings.append(ruling)
    verdict = strictest(policy, rulings, "there are no findings")
    pairs = list(zip(found["findings"], rulings, strict=True))
    if policy.kind == "confidence-gating":
        return verdict, _split(found, pairs)
    return verdict, found | {"findings": [finding | {"route": route(finding, one)} for finding, one in pairs]}


def _split(found: JsonObject, pairs: Sequence[tuple[JsonObject, Ruling]]) -> JsonObject:
    """Only a rule that says so suppresses a finding; one that nobody decided about stays and is acted on."""
    kept = [_advised(finding, one) for finding, one in pairs if one.then != "suppress"]
    left_out = [finding for finding, one in pairs if one.then == "suppress"]
    return judged(found | {"findings": kept, "suppressed": [*found["suppressed"], *left_out]})


def _advised(finding: JsonObject, ruling: Ruling) -> JsonObject:
    return finding | {"autofix_class": "advisory"} if ruling.then == "advisory" else finding


def route(finding: Mapping[str, Any], ruling: Ruling) -> str:
    """The stricter of what the policy says and what the finding's class allows; a denied one is for a person."""
    own = ROUTES[AUTOFIX_CLASSES.index(finding["autofix_class"])]
    said = {"allow": "apply", "deny": "manual"}.get(ruling.then, ruling.then)
    return max(own, said, key=ROUTES.index)


def routed_for(mode: str, found: JsonObject, *, report: bool, approved: bool | None = None) -> JsonObject:
    """What a mode makes of the routes: a report changes nothing, and only a person opens a gate."""

    def of(finding: JsonObject) -> JsonObject:
        where = finding.get("route")
        if where == "apply" and (report or mode == "report-only"):
            where = "manual"
        elif where == "gated":
            where = "apply" if approved and not report else "manual"
        return finding if where is None else finding | {"route": where}

    return found | {"findings": [of(finding) for finding in found["findings"]]}


# -- agents --------------------------------------------------------------------------------------------


@value(frozen=True, slots=True)
class Permission:
    """Whether an agent is asked, and which files it may write. None: what its tools allow."""

    agent: InvokedAgent
    dispatched: bool
    paths: tuple[str, ...] | None


def permit(
    policies: Sequence[CompiledPolicy], values: Mapping[str, Any], invoked: Sequence[InvokedAgent]
) -> tuple[list[PolicyVerdict], list[Permission]] | Failure:
    """role-permissions: who may be asked. Several policies narrow each other."""
    verdicts: list[PolicyVerdict] = []
    dispatched = {agent.id: True for agent in invoked}
    patterns: dict[str, tuple[tuple[str, ...], ...]] = {agent.id: () for agent in invoked}
    for policy in policies:
        rulings = []
        for agent in invoked:
            about = {"id": agent.id, "kind": agent.kind, "role": agent.role, "agent": agent.agent}
            ruling = rule(policy, {**values, "agent": about})
            if isinstance(ruling, Failure):
                return ruling
            rulings.append(ruling)
            dispatched[agent.id] &= ruling.then not in ("skip", "deny")
            if ruling.paths is not None:
                patterns[agent.id] += (ruling.paths,)
        verdicts.append(strictest(policy, rulings, "nobody is asked"))
    permissions = [Permission(agent, dispatched[agent.id], _common(patterns[agent.id])) for agent in invoked]
    return verdicts, permissions


def _common(patterns: tuple[tuple[str, ...], ...]) -> tuple[str, ...] | None:
    """Of several lists only what each of them names; a pattern is not taken apart, so this may only narrow."""
    if not patterns:
        return None
    return tuple(one for one in patterns[0] if all(one in others for others in patterns[1:]))
