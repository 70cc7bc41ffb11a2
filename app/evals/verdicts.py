"""Records verdicts about a run that has ended: each gate's once, whoever asked for it."""

from collections.abc import Sequence
from typing import Final

from app.core.clock import Clock
from app.events.ports import Answer, Condition, KeyUnused
from app.events.recorder import Recorder, Scope
from app.policy.gates import GateRule, Verdict
from app.views.judgement import GATE, RunJudgement

_ROUTE: Final = "gates"
_LIFETIME_MS: Final = 24 * 3600 * 1000
"""After that the stored verdict alone is looked at, before anything is judged."""


def recorded(rule: GateRule, judgements: Sequence[RunJudgement]) -> RunJudgement | None:
    """The newest verdict of this very gate: another threshold or evaluator is another gate."""
    found = [
        one
        for one in judgements
        if (one.source, one.name, one.mode, one.definition) == (GATE, rule.name, rule.mode, rule.digest)
    ]
    return found[-1] if found else None


async def record_verdicts(
    recorder: Recorder,
    scope: Scope,
    run_id: str,
    verdicts: Sequence[Verdict],
    clock: Clock,
    conditions: Sequence[Condition] = (),
) -> Answer:
    """As events of the thread that name the run. Refused if one of them is there already."""
    expires = clock.now_ms() + _LIFETIME_MS
    once = [
        KeyUnused(_ROUTE, f"{run_id}:{it.rule.mode}:{it.rule.name}:{it.rule.digest}", "", run_id, expires)
        for it in verdicts
    ]
    events = [verdict.event(run_id=run_id) for verdict in verdicts]
    return await recorder.record(scope, *events, conditions=[*once, *conditions])
