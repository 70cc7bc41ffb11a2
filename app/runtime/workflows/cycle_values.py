"""Evaluates the expressions of a cycle over its values: signals, conditions, rules and grades."""

import re
from collections.abc import Mapping
from typing import Any, Final

from app.core.errors import Failure
from app.core.expressions import Expression, NumberExpression

_WORD: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def used(expression: Expression | NumberExpression, values: Mapping[str, Any]) -> dict[str, Any]:
    """Of the values only those whose names occur: an expression pays for what it may look at."""
    named = set(_WORD.findall(expression.source))
    return {name: values[name] for name in expression.variables & named if name in values}


def lacks(expression: Expression, values: Mapping[str, Any]) -> bool:
    """Whether it names an output that no phase has given yet: a condition of the cycle waits for it."""
    return any(value is None for value in used(expression, values).values())


def holds(expression: Expression, values: Mapping[str, Any], what: str) -> bool | Failure:
    """A signal's answer. One that cannot be evaluated is a failure, never a no or a yes."""
    answer = expression.evaluate(used(expression, values))
    if isinstance(answer, Failure):
        return Failure("SIGNAL_FAILED", f"{what} cannot be evaluated: {answer.message}")
    return answer
