"""A gate is an evaluator with a threshold: it turns a score into a verdict, and whatever has no score does not pass.

Decides and records nothing: a blocking gate is asked by a run's step, a shadow gate after the run's end. Both ask
here, so their verdicts are the same. Leaves to others: what follows from a verdict.
"""

import asyncio
from collections.abc import Mapping, Sequence
from hashlib import sha256
from typing import Any, Final, Literal

from app.core import json
from app.core.clock import Clock
from app.core.json import JsonObject
from app.core.value import value
from app.events.catalog.policy import GateEvaluated
from app.policy.evaluator import REASON_LENGTH, AskJudge, Evaluator, NotEvaluated, Score, valid
from app.views.run_record import RunRecord
from app.workspace.specs.agent import Gate

FAILED: Final = "EVALUATOR_FAILED"
TIMED_OUT: Final = "EVALUATOR_TIMEOUT"
INVALID: Final = "EVALUATOR_INVALID"
"""Why a verdict has no score."""

_SHARES: Final = 2**64


@value(frozen=True, slots=True)
class ScoredBy:
    """A declared evaluator, ready to be asked. `digest` changes whenever its document or its code does."""

    name: str
    evaluator: Evaluator
    timeout_seconds: float
    digest: str


@value(frozen=True, slots=True)
class GateRule:
    """One gate of an agent."""

    spec: Gate
    scored_by: ScoredBy

    @property
    def name(self) -> str:
        return self.scored_by.name

    @property
    def mode(self) -> Literal["shadow", "blocking"]:
        return self.spec.mode

    @property
    def digest(self) -> str:
        """Of everything that can change the verdict."""
        return sha256(f"{self.scored_by.digest}:{self.spec.min_score}".encode()).hexdigest()

    def takes(self, run_id: str) -> bool:
        """Whether a run belongs to the sample; the same run always does or never."""
        if self.spec.sample >= 1:
            return True
        drawn = int.from_bytes(sha256(f"{self.name}:{run_id}".encode()).digest()[:8], "big")
        return drawn < self.spec.sample * _SHARES


@value(frozen=True, slots=True)
class AgentGates:
    blocking: tuple[GateRule, ...] = ()
    shadow: tuple[GateRule, ...] = ()

    def of(self, mode: str) -> tuple[GateRule, ...]:
        return self.blocking if mode == "blocking" else self.shadow


@value(frozen=True, slots=True)
class Evaluation:
    """What an evaluator made of a run: a score, or why there is none."""

    score: Score | None
    error: str | None = None
    reason: str = ""
    duration_ms: int = 0


@value(frozen=True, slots=True)
class Verdict:
    rule: GateRule
    evaluation: Evaluation

    @property
    def passed(self) -> bool:
        score = self.evaluation.score
        return score is not None and score.value >= self.rule.spec.min_score

    def event(
        self,
        run_id: str | None = None,
        attempt: int | None = None,
        subject: str | None = None,
        node: str | None = None,
    ) -> GateEvaluated:
        found, score = self.evaluation, self.evaluation.score
        return GateEvaluated(
            gate=self.rule.name,
            mode=self.rule.mode,
            score=None if score is None else score.value,
            min_score=self.rule.spec.min_score,
            passed=self.passed,
            error=found.error,
            reason=(score.reason if score is not None else found.reason) or None,
            definition=self.rule.digest,
            run_id=run_id,
            attempt=attempt,
            subject_hash=subject,
            node=node,
            duration_ms=found.duration_ms,
            judgements=[_judgement_json(one) for one in score.judgements] or None if score is not None else None,
        )


async def evaluate(scored_by: ScoredBy, record: RunRecord, ask: AskJudge, clock: Clock) -> Evaluation:
    """Never raises for what the evaluator does: a failure, a late answer or nonsense is an evaluation without score."""
    began = clock.monotonic()

    def ended(score: Score | None, error: str | None = None, reason: str = "") -> Evaluation:
        return Evaluation(score, error, reason[:REASON_LENGTH], round((clock.monotonic() - began) * 1000))

    try:
        async with asyncio.timeout(scored_by.timeout_seconds):
            score: object = await scored_by.evaluator.score(record, ask)
    except TimeoutError:
        return ended(None, TIMED_OUT, f"the evaluator gave no score within {scored_by.timeout_seconds:g} s")
    except NotEvaluated as error:
        return ended(None, FAILED, str(error))
    except Exception as error:
        # Its message may hold anything, a secret too; the type is enough to find the place.
        return ended(None, FAILED, f"the evaluator failed with {type(error).__name__}")
    if not isinstance(score, Score):
        return ended(None, INVALID, "the evaluator gave no score")
    checked = valid(score)
    return ended(None, INVALID, checked) if isinstance(checked, str) else ended(checked)


async def judge(rules: Sequence[GateRule], record: RunRecord, ask: AskJudge, clock: Clock) -> list[Verdict]:
    """The verdicts in the order of the rules; they are asked at the same time."""
    asked = [asyncio.ensure_future(evaluate(rule.scored_by, record, ask, clock)) for rule in rules]
    try:
        found = await asyncio.gather(*asked)
    finally:
        for one in asked:
            one.cancel()  # no effect on those that have ended; the rest ends with a run that lost its lease
    return [Verdict(rule, evaluation) for rule, evaluation in zip(rules, found, strict=True)]


def subject_hash(output: Any) -> str:
    """Which output was judged: a recorded verdict holds for that one and no other."""
    return sha256(json.canonical({"output": output})).hexdigest()


def pass_rate(verdicts: Sequence[Mapping[str, Any]]) -> float | None:
    """The share that passed; None when nothing was judged."""
    return sum(bool(one["passed"]) for one in verdicts) / len(verdicts) if verdicts else None


def _judgement_json(one: Any) -> JsonObject:
    made: JsonObject = {"model": one.model, "seed": one.seed, "score": one.score, "reason": one.reason[:REASON_LENGTH]}
    if one.request_hash is not None:
        made["requestHash"] = one.request_hash
    if one.usage:
        made["usage"] = dict(one.usage)
    return made
