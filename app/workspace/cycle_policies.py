"""Compiles the policies of `workflows/policies`: rules with their expressions, default deny.

What `then` may say depends on the kind of policy; anything else is a mistake of the file.
"""

from collections.abc import Iterator, Mapping
from typing import Final

from app.core.expressions import VariableType
from app.workspace.compiled_cycles import OUTCOMES, CompiledPolicy, PolicyRule
from app.workspace.names import did_you_mean
from app.workspace.unit_fields import MAX_RULES, UnitCheck

SUBJECTS: Final[Mapping[str, Mapping[str, VariableType]]] = {
    "confidence-gating": {"finding": "any"},
    "severity-routing": {"finding": "any"},
    "role-permissions": {"agent": "any"},
    "mode-dispatch": {},
    "loop-halt": {
        "next_generation": "int",
        "max_generations": "int",
        "oscillation": "bool",
        "regression": "bool",
        "grade": "any",
        "previous_grade": "any",
    },
}
"""What a rule may look at besides the state of the cycle: one finding, one agent, or how the loop stands."""

_RULE_FIELDS: Final = ("when", "then", "reason", "paths")
_MAX_PATHS: Final = 100


def compile_policy(check: UnitCheck) -> CompiledPolicy:
    values = check.unit.values
    check.fields()
    return CompiledPolicy(
        id=check.unit.id,
        kind=values["kind"],
        rules=tuple(_rules(check)),
        default=values.get("default", "deny"),
        file=check.unit.place.source.file,
    )


def _rules(check: UnitCheck) -> Iterator[PolicyRule]:
    kind = check.unit.values["kind"]
    outcomes = OUTCOMES[kind]
    for number, rule in enumerate(check.at_most("rules", MAX_RULES)):
        path = ("rules", number)
        for field in rule:
            if field not in _RULE_FIELDS:
                hint = did_you_mean(check.report.suggest.nearest(field, _RULE_FIELDS)) or ""
                check.error("FIELD_UNKNOWN", (*path, field), "a rule has no such field", hint=hint)
        if rule["then"] not in outcomes:
            expected = f"one of: {', '.join(sorted(outcomes))}"
            hint = did_you_mean(check.report.suggest.nearest(rule["then"], outcomes)) or ""
            message = f"a policy of the kind {kind} cannot decide this"
            check.error("VALUE_NOT_ALLOWED", (*path, "then"), message, expected=expected, hint=hint)
        if not rule["reason"].strip():
            check.error("VALUE_INVALID", (*path, "reason"), "the reason is empty", expected="a text for people")
        when = check.expression((*path, "when"), rule["when"], SUBJECTS[kind])
        paths = _paths(check, number)
        if when is not None:
            yield PolicyRule(when, rule["then"], rule["reason"], paths)


def _paths(check: UnitCheck, number: int) -> tuple[str, ...] | None:
    """Patterns of files; they belong to role-permissions alone."""
    rule, path = check.unit.values["rules"][number], ("rules", number, "paths")
    if "paths" not in rule:
        return None
    given = rule["paths"]
    if check.unit.values["kind"] != "role-permissions":
        check.error("FIELD_CONFLICT", path, "`paths` belongs to policies of the kind role-permissions")
    elif not isinstance(given, list) or len(given) > _MAX_PATHS or not all(_is_pattern(one) for one in given):
        expected = 'a list of patterns beneath the folder of the file tools, such as ["docs/**"]'
        check.error("VALUE_INVALID", path, "the paths are not patterns of files", expected=expected)
    else:
        return tuple(given)
    return None


def _is_pattern(given: object) -> bool:
    return (
        isinstance(given, str)
        and 0 < len(given) <= 500
        and not given.startswith(("/", "~"))
        and ".." not in given.split("/")
        and "\\" not in given
    )
