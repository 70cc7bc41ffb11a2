"""What an evaluator is: something that gives a run a score from 0 to 1, with a reason. Values and Protocols only.

Above stands `gates`, which compares the score with a threshold, and the evaluations over datasets. The kinds are in
`evals/kinds`. A model that an evaluator asks is passed in, because the call is recorded by whoever evaluates.
"""

import math
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import field
from typing import Any, Final, Protocol

from app.core.errors import Failure
from app.core.value import contract_value
from app.views.run_record import RunRecord

REASON_LENGTH: Final = 2000
"""Characters; a reason is for people."""


@contract_value(frozen=True, slots=True)
class Judgement:
    """One answer of a judging model: what was asked, and what it cost."""

    model: str
    seed: int
    score: float
    reason: str = ""
    request_hash: str | None = None
    usage: Mapping[str, Any] = field(default_factory=dict)


@contract_value(frozen=True, slots=True)
class Score:
    value: float
    reason: str = ""
    judgements: tuple[Judgement, ...] = ()


@contract_value(frozen=True, slots=True)
class JudgeQuestion:
    """`key` distinguishes the questions of one evaluation; an answer that is recorded under it is not asked again."""

    model: str
    instructions: str
    text: str
    seed: int
    key: str


@contract_value(frozen=True, slots=True)
class JudgeAnswer:
    text: str
    model: str
    request_hash: str | None = None
    usage: Mapping[str, Any] = field(default_factory=dict)


AskJudge = Callable[[JudgeQuestion], Awaitable[JudgeAnswer | Failure]]


class Evaluator(Protocol):
    async def score(self, record: RunRecord, ask: AskJudge) -> Score:
        """Whatever it raises means that there is no score."""
        ...


class NotEvaluated(Exception):
    """An evaluator that can give no score says why in words that may be shown."""


def valid(score: Score) -> Score | str:
    """The score within its bounds, or what is wrong with it."""
    value: Any = score.value
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return "the evaluator gave no number"
    if not 0 <= value <= 1:
        return "the evaluator gave a score outside of 0 to 1"
    return Score(float(value), str(score.reason)[:REASON_LENGTH], score.judgements)
