"""What can be asked about judgements of runs. The store implements it."""

from collections.abc import Sequence
from typing import Any, Protocol

from app.core.clock import iso
from app.core.value import value
from app.views.judgement import RunJudgement


@value(frozen=True, slots=True)
class DueEvaluation:
    """A run that its shadow gates are to judge, and how often that was begun."""

    tenant: str
    run_id: str
    thread_id: str
    tries: int


@value(frozen=True, slots=True)
class GateRate:
    """How often outputs of an agent passed one of its gates."""

    agent: str | None
    gate: str
    mode: str
    evaluated: int
    passed: int
    errors: int
    """Verdicts without a score, which count as not passed."""
    mean_score: float | None
    first_at: int
    last_at: int

    def to_json(self) -> dict[str, Any]:
        return {
            "agent": self.agent,
            "gate": self.gate,
            "mode": self.mode,
            "evaluated": self.evaluated,
            "passed": self.passed,
            "errors": self.errors,
            "passRate": self.passed / self.evaluated,
            "meanScore": self.mean_score,
            "firstAt": iso(self.first_at),
            "lastAt": iso(self.last_at),
        }


class DueEvaluations(Protocol):
    async def take(self, limit: int, seconds: float) -> list[DueEvaluation]: ...

    async def drop(self, tenant: str, run_id: str) -> None: ...


class Judgements(Protocol):
    async def of_runs(self, tenant: str, run_ids: Sequence[str]) -> list[RunJudgement]:
        """By run, oldest first."""
        ...

    async def rates(self, tenant: str, since: int, agent: str | None) -> list[GateRate]:
        """Of verdicts since then, by agent, gate and mode."""
        ...
