"""For a kind of guardrail that your package offers: its `GuardrailKind` as an entry point of `holdfast.guardrails`."""

from app.policy.guardrails.contract import Found, Judge, Judgement, Match, Passed, Position, Scanner, Subject
from app.policy.guardrails.kind import GuardrailDeps, GuardrailKind, config_of
from app.policy.guardrails.patterns import BoundedPattern, PatternError
from app.workspace.compiled import CompiledWorkspace, Named
from app.workspace.specs.others import GuardrailSpec

__all__ = [
    "BoundedPattern",
    "CompiledWorkspace",
    "Found",
    "GuardrailDeps",
    "GuardrailKind",
    "GuardrailSpec",
    "Judge",
    "Judgement",
    "Match",
    "Named",
    "Passed",
    "PatternError",
    "Position",
    "Scanner",
    "Subject",
    "config_of",
]
