"""Judgement of what a phase of spec-driven work delivers, by an evaluator of the workspace.

The verdict is recorded before it has an effect, and a run that is entered again takes it from the log. Whatever has no
score does not pass. Leaves to the policy room: scores and thresholds; to the phase: what follows from the verdict.
"""

from collections.abc import Mapping
from typing import Any

from app.core.errors import Failure
from app.events.catalog.policy import GateEvaluated
from app.events.ports import StoreError
from app.policy.evaluator import JudgeAnswer, JudgeQuestion, NotEvaluated
from app.policy.gates import FAILED, Evaluation, GateRule, ScoredBy, Verdict, evaluate, subject_hash
from app.runtime.run.run_log import CutOff, Superseded
from app.runtime.run.run_records import read_record
from app.runtime.run.steps.run_scope import RunScope
from app.workspace.specs.agent import Gate


async def judge_artifact(run_scope: RunScope, phase: str, gate: Gate, text: str) -> Mapping[str, Any]:
    log, subject = run_scope.log, subject_hash(text)
    for known in log.memo.verdicts:
        if (known["node"], known["gate"], known.get("subjectHash")) == (phase, gate.evaluator, subject):
            return known
    await log.begin_step()
    rule = GateRule(gate, _scored_by(run_scope, gate.evaluator))
    try:
        found = await _evaluate(run_scope, phase, rule.scored_by, text)
    except CutOff as cut:
        raise cut.cause from cut
    appended = await log.record(Verdict(rule, found).event(subject=subject, node=phase))
    return next(event.payload for event in appended.events if event.type == GateEvaluated.type)


def _scored_by(run_scope: RunScope, name: str) -> ScoredBy:
    return run_scope.services.gates.evaluators(run_scope.workspace).get(name) or ScoredBy(name, _Unknown(), 1.0, "")


class _Unknown:
    """Stands for an evaluator that the server does not know."""

    async def score(self, record: Any, ask: Any) -> Any:
        raise NotEvaluated("there is no such evaluator here")


async def _evaluate(run_scope: RunScope, phase: str, scored_by: ScoredBy, text: str) -> Evaluation:
    services, log, run = run_scope.services, run_scope.log, run_scope.run
    try:
        record = await read_record(services.reader, log.scope.tenant, run, now_ms=services.clock.now_ms())
    except NotEvaluated as error:
        return Evaluation(None, FAILED, str(error))
    record.output, record.status = text, "completed"

    async def ask(question: JudgeQuestion) -> JudgeAnswer | Failure:
        assert run_scope.models is not None
        try:
            return await run_scope.models.judge(question, f"{question.key}:{phase}")
        except (StoreError, Superseded) as error:
            raise CutOff(error) from error  # a lost lease is not the evaluator's answer

    return await evaluate(scored_by, record, ask, services.clock)
