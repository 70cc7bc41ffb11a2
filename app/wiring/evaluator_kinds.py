"""The kinds of evaluators that ship."""

from typing import Final

from app.evals.kinds import (
    cel,
    contains,
    cost,
    equals,
    latency,
    model_judge,
    python,
    regex,
    schema,
    tool_called,
    trajectory,
)

EVALUATORS: Final = (
    equals.KIND,
    contains.KIND,
    regex.KIND,
    schema.KIND,
    cel.KIND,
    tool_called.KIND,
    trajectory.KIND,
    latency.KIND,
    cost.KIND,
    python.KIND,
    model_judge.KIND,
)
