"""What is said about a run after its end: feedback of people and programs, verdicts of gates on request, pass rates.

The facts are events of the run's thread that name the run; the run itself stays as it is.
"""

from collections.abc import Sequence
from typing import Any, Final

from app.core.clock import Clock
from app.core.errors import Failure
from app.core.principal import Principal
from app.core.value import value
from app.evals.declared import Gates
from app.evals.judges import Judges
from app.evals.verdicts import record_verdicts, recorded
from app.events.catalog.policy import FeedbackRecorded
from app.events.ports import KeyUnused, Refused
from app.events.recorder import Recorder, Scope
from app.policy.evaluator import NotEvaluated
from app.policy.gates import FAILED, Evaluation, GateRule, Verdict, judge
from app.runtime.run.run_records import read_record
from app.views.judgement import FEEDBACK, RunJudgement, feedback_json, verdict_json
from app.views.judgement_ports import GateRate, Judgements
from app.views.ports import Reader
from app.views.run import Run
from app.workspace.compiled import CompiledWorkspace

KEY_LIFETIME_MS: Final = 24 * 3600 * 1000
_FEEDBACK_ROUTE: Final = "feedback"
_SEEN: Final = "IDEMPOTENCY_KEY_SEEN"


@value(frozen=True, slots=True)
class Feedback:
    score: float
    label: str | None = None
    comment: str | None = None
    key: str | None = None
    """An Idempotency-Key: the same one is recorded once."""
    body_hash: str = ""


class RunJudgements:
    def __init__(
        self, recorder: Recorder, reader: Reader, judgements: Judgements, gates: Gates, judges: Judges, clock: Clock
    ) -> None:
        self._recorder, self._reader, self._judgements = recorder, reader, judgements
        self._gates, self._judges, self._clock = gates, judges, clock

    # -- feedback ------------------------------------------------------------------------------------

    async def give(self, who: Principal, run: Run, feedback: Feedback) -> dict[str, Any] | Failure:
        if not run.terminal:
            return Failure("RUN_NOT_ENDED", "Feedback is given to a run that has ended.")
        payload = FeedbackRecorded(run_id=run.id, score=feedback.score, label=feedback.label, comment=feedback.comment)
        expires = self._clock.now_ms() + KEY_LIFETIME_MS
        once = (
            [KeyUnused(_FEEDBACK_ROUTE, f"{run.id}:{feedback.key}", feedback.body_hash, run.id, expires)]
            if feedback.key is not None
            else []
        )
        scope = Scope(who.tenant, run.thread_id, actor=who.actor)
        answer = await self._recorder.record(scope, payload, conditions=once)
        if isinstance(answer, Refused) and answer.failure.code != _SEEN:
            return answer.failure
        given = [one for one in await self.feedback(who.tenant, run) if one["by"] == who.actor]
        return given[-1]

    async def feedback(self, tenant: str, run: Run) -> list[dict[str, Any]]:
        """Oldest first."""
        found = await self._judgements.of_runs(tenant, [run.id])
        return [feedback_json(one) for one in found if one.source == FEEDBACK]

    # -- gates ---------------------------------------------------------------------------------------

    async def judge(
        self, who: Principal, run: Run, mode: str, workspace: CompiledWorkspace
    ) -> list[dict[str, Any]] | Failure:
        """The verdicts of the agent's gates with that mode, as the workspace has them now.

        One that is recorded is answered as it is; the others are judged now and recorded once.
        """
        if run.status != "completed":
            return Failure("RUN_NOT_ENDED", "Only a run that has completed has an answer to judge.")
        agent = workspace.acting(run.agent, run.workflow)
        if agent is None:
            return Failure("AGENT_NOT_FOUND", "The workspace no longer has the run's agent.")
        rules = self._gates.of(workspace, agent).of(mode)
        known = await self._judgements.of_runs(who.tenant, [run.id])
        missing = [rule for rule in rules if recorded(rule, known) is None]
        if missing:
            verdicts = await self._verdicts(who.tenant, run, missing, workspace)
            scope = Scope(who.tenant, run.thread_id, actor=who.actor)
            for verdict in verdicts:
                answer = await record_verdicts(self._recorder, scope, run.id, [verdict], self._clock)
                if isinstance(answer, Refused) and not answer.failure.code.startswith("IDEMPOTENCY_KEY"):
                    return answer.failure
            known = await self._judgements.of_runs(who.tenant, [run.id])
        found: list[RunJudgement | None] = [recorded(rule, known) for rule in rules]
        return [verdict_json(one) for one in found if one is not None]

    async def _verdicts(
        self, tenant: str, run: Run, rules: Sequence[GateRule], workspace: CompiledWorkspace
    ) -> list[Verdict]:
        try:
            record = await read_record(self._reader, tenant, run)
        except NotEvaluated as error:
            return [Verdict(rule, Evaluation(None, FAILED, str(error))) for rule in rules]
        return await judge(rules, record, self._judges.of(tenant, workspace), self._clock)

    async def rates(self, tenant: str, since: int, agent: str | None) -> list[GateRate]:
        return await self._judgements.rates(tenant, since, agent)
