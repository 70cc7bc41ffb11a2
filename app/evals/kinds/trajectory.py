"""Scores how far the tool calls of a run are the expected ones: in order, exactly, or as a set.

sequence   the share of expected calls that were made in this order; other calls in between do not count
exact      the same calls in the same order and no others; each missing or further call lowers the score
set        the share of expected calls that were made, in any order
"""

from collections.abc import Sequence
from typing import Annotated, Any, Final, Literal

from pydantic import Discriminator, Field, Tag

from app.evals.kind import EvaluatorDeps, EvaluatorKind, read_config
from app.evals.texts import includes
from app.policy.evaluator import AskJudge, NotEvaluated, Score
from app.views.run_record import CalledTool, RunRecord
from app.workspace.compiled import CompiledWorkspace, Named
from app.workspace.specs.base import JsonMap, Spec, Text
from app.workspace.specs.others import EvaluatorSpec

MAX_CALLS: Final = 1000
"""Comparing takes the product of both lengths."""


class ExpectedCall(Spec):
    tool: Text
    arguments: JsonMap = Field(default_factory=dict)


def _form(value: object) -> str:
    return "call" if isinstance(value, ExpectedCall | dict) else "name"


CallEntry = Annotated[Annotated[Text, Tag("name")] | Annotated[ExpectedCall, Tag("call")], Discriminator(_form)]


class TrajectoryConfig(Spec):
    calls: tuple[CallEntry, ...] = Field((), max_length=MAX_CALLS)
    """Without them: the list that the dataset's case expects."""
    match: Literal["sequence", "exact", "set"] = "sequence"


class TrajectoryEvaluator:
    def __init__(self, config: TrajectoryConfig) -> None:
        self._config = config
        self._calls = [_expected(entry) for entry in config.calls]

    async def score(self, record: RunRecord, ask: AskJudge) -> Score:
        wanted = self._calls or _of_case(record.expected)
        made = record.tool_calls
        if len(made) > MAX_CALLS:
            raise NotEvaluated(f"the run made more than {MAX_CALLS} calls")
        if self._config.match == "set":
            found = _any_order(wanted, made)
            return Score(found / len(wanted), f"{found} of {len(wanted)} expected calls were made")
        found = _in_order(wanted, made)
        reason = f"{found} of {len(wanted)} expected calls were made in order; {len(made)} calls in total"
        if self._config.match == "exact":
            return Score(2 * found / (len(wanted) + len(made)), reason)
        return Score(found / len(wanted), reason)


def _expected(entry: str | ExpectedCall) -> ExpectedCall:
    return ExpectedCall(tool=entry) if isinstance(entry, str) else entry


def _of_case(expected: Any) -> list[ExpectedCall]:
    calls = expected.get("calls") if isinstance(expected, dict) else expected
    if not isinstance(calls, list) or not 0 < len(calls) <= MAX_CALLS:
        raise NotEvaluated("there are no expected calls: neither `config.calls` nor a list of the case")
    return [_expected(call if isinstance(call, str) else ExpectedCall.model_validate(call)) for call in calls]


def _fits(wanted: ExpectedCall, made: CalledTool) -> bool:
    return wanted.tool == made.name and includes(made.arguments or {}, dict(wanted.arguments))


def _in_order(wanted: Sequence[ExpectedCall], made: Sequence[CalledTool]) -> int:
    """The length of the longest common subsequence."""
    row = [0] * (len(made) + 1)
    for one in wanted:
        before = 0
        for number, call in enumerate(made, 1):
            above = row[number]
            row[number] = before + 1 if _fits(one, call) else max(above, row[number - 1])
            before = above
    return row[-1]


def _any_order(wanted: Sequence[ExpectedCall], made: Sequence[CalledTool]) -> int:
    """Each call stands for one expected call at most; the pickiest choose first."""
    left = list(made)
    found = 0
    for one in sorted(wanted, key=lambda call: -len(call.arguments)):
        fitting = next((number for number, call in enumerate(left) if _fits(one, call)), None)
        if fitting is not None:
            del left[fitting]
            found += 1
    return found


def make(declared: Named[EvaluatorSpec], workspace: CompiledWorkspace, deps: EvaluatorDeps) -> TrajectoryEvaluator:
    return TrajectoryEvaluator(read_config(TrajectoryConfig, declared))


KIND: Final = EvaluatorKind(name="trajectory", make=make, config=TrajectoryConfig)
