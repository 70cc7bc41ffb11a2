"""For a kind of guardrail that your package offers: its `GuardrailKind` as an entry point of `holdfast.guardrails`."""

from app.policy.guardrails.contract import Found, Judge, Judgement, Match, Passed, Position, Scanner, Subject
from app.policy.guardrails.kind import GuardrailDeps, GuardrailKind, config_of
from app.policy.guardrails.patterns import BoundedPattern, PatternError

__all__ = [
    "BoundedPattern",
    "Found",
    "GuardrailDeps",
    "GuardrailKind",
    "Judge",
    "Judgement",
    "Match",
    "Passed",
    "PatternError",
    "Position",
    "Scanner",
    "Subject",
    "config_of",
]
