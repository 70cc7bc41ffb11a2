"""What a run says when a budget is used up: how much of what, of whose budget, and what can be done about it."""

from typing import Final

from app.core.errors import Failure
from app.events.catalog.execution import BudgetExceeded

_UNITS: Final = {
    "tokens": ("tokens", "tokens"),
    "cost": ("US dollars", "costUsd"),
    "model_calls": ("model calls", "modelCalls"),
    "tool_calls": ("tool calls", "toolCalls"),
    "wall_time": ("seconds of work", "wallSeconds"),
}
"""By budget: its unit, and its name among the limits."""
_PER_DAY: Final = {"tokens": "tokensPerDay", "cost": "costUsdPerDay"}


def budget_failure(exceeded: BudgetExceeded) -> Failure:
    unit, name = _UNITS[exceeded.budget]
    used, limit = _number(exceeded.used), _number(exceeded.limit)
    whose = "tenant's daily" if exceeded.scope == "tenant" else f"{exceeded.scope}'s"
    left = "" if exceeded.used >= exceeded.limit else ", and what comes next may need more than is left"
    message = f"The {whose} budget is used up: {used} of {limit} {unit} used{left}. {_remedy(exceeded, name)}."
    detail = {
        "budget": exceeded.budget,
        "limit": exceeded.limit,
        "used": exceeded.used,
        "unit": unit,
        "scope": exceeded.scope,
    }
    return Failure("BUDGET_EXCEEDED", message, detail=detail)


def _remedy(exceeded: BudgetExceeded, name: str) -> str:
    if exceeded.scope == "tenant":
        daily = _PER_DAY.get(exceeded.budget, name)
        return f"The day ends at 00:00 UTC; `budgets.tenant.{daily}` of the Runtime document sets the limit."
    return (
        f"The limit is the lowest `{name}` of the request's and the agent's `limits` and the Runtime's `budgets.run`."
    )


def _number(value: float) -> str:
    """Without needless digits, with commas between thousands."""
    return f"{value:,.4f}".rstrip("0").rstrip(".")
