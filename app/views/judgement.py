"""A judgement of a run: a gate's verdict or somebody's feedback, one record for each event that says so."""

from typing import Any

from app.core.clock import iso
from app.core.value import mutable
from app.events.catalog import policy
from app.events.envelope import Event

GATE = "gate"
FEEDBACK = "feedback"


@mutable(slots=True)
class RunJudgement:
    id: str
    thread_id: str
    run_id: str = ""
    source: str = ""
    """`gate` or `feedback`."""
    name: str = ""
    """The gate, or the label of the feedback."""
    mode: str | None = None
    score: float | None = None
    min_score: float | None = None
    passed: bool | None = None
    error: str | None = None
    reason: str | None = None
    """Of a gate; of feedback, its comment."""
    definition: str | None = None
    attempt: int | None = None
    by: str = ""
    seq: int = 0
    at: int = 0

    def apply(self, event: Event) -> None:
        payload = event.payload
        self.run_id = event.run_id or payload.get("runId") or ""
        self.by, self.seq, self.at, self.score = event.actor, event.seq, event.at, payload.get("score")
        if event.type == policy.FeedbackRecorded.type:
            self.source, self.name, self.reason = FEEDBACK, payload.get("label") or "", _text(payload.get("comment"))
            return
        self.source, self.name, self.mode = GATE, payload["gate"], payload["mode"]
        self.min_score, self.passed = payload["minScore"], payload["passed"]
        self.error, self.reason = payload.get("error"), payload.get("reason")
        self.definition, self.attempt = payload.get("definition"), payload.get("attempt")


def _text(value: Any) -> str | None:
    """A long comment left its payload for a blob; its reference stands there instead."""
    return value if isinstance(value, str) else None


def verdict_json(judgement: RunJudgement) -> dict[str, Any]:
    """A gate's verdict as the API has it."""
    return {
        "runId": judgement.run_id,
        "gate": judgement.name,
        "mode": judgement.mode,
        "score": judgement.score,
        "minScore": judgement.min_score,
        "passed": judgement.passed,
        "error": judgement.error,
        "reason": judgement.reason,
        "seq": judgement.seq,
        "at": iso(judgement.at),
    }


def feedback_json(judgement: RunJudgement) -> dict[str, Any]:
    return {
        "runId": judgement.run_id,
        "score": judgement.score,
        "label": judgement.name or None,
        "comment": judgement.reason,
        "by": judgement.by,
        "seq": judgement.seq,
        "at": iso(judgement.at),
    }
