"""A budget that is used up says how much of what, of whose, and where the limit is set."""

import pytest

from app.events.catalog.execution import BudgetExceeded
from app.runtime.run.budget_messages import budget_failure


@pytest.mark.parametrize(
    ("exceeded", "said"),
    [
        (
            {"budget": "tokens", "scope": "run", "limit": 1000, "used": 1250},
            ["run's budget", "1,250 of 1,000 tokens", "`tokens`", "`limits`", "`budgets.run`"],
        ),
        (
            {"budget": "cost", "scope": "run", "limit": 0.5, "used": 0.4312},
            ["0.4312 of 0.5 US dollars", "may need more than is left", "`costUsd`"],
        ),
        (
            {"budget": "tokens", "scope": "tenant", "limit": 5_000_000, "used": 5_000_000},
            ["tenant's daily budget", "5,000,000 of 5,000,000 tokens", "00:00 UTC", "`budgets.tenant.tokensPerDay`"],
        ),
        ({"budget": "model_calls", "scope": "run", "limit": 3, "used": 3}, ["3 of 3 model calls", "`modelCalls`"]),
        ({"budget": "tool_calls", "scope": "run", "limit": 1, "used": 2}, ["2 of 1 tool calls", "`toolCalls`"]),
        (
            {"budget": "wall_time", "scope": "run", "limit": 2.0, "used": 2.0},
            ["2 of 2 seconds of work", "`wallSeconds`"],
        ),
    ],
)
def test_a_used_up_budget_says_how_much_of_what(exceeded: dict[str, object], said: list[str]) -> None:
    failure = budget_failure(BudgetExceeded.model_validate(exceeded))
    assert [words for words in said if words not in failure.message] == []
    assert failure.detail["unit"] in failure.message
