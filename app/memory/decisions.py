"""What becomes of a candidate, by the policy of its memory: accepted, rejected, merged or sent to a person.

Decide, then act: values only. Leaves to `governance`: recording it.
"""

from typing import Any, Final, Literal

from app.core.errors import Failure
from app.core.value import value
from app.memory.contract import MemoryCandidate
from app.workspace.compiled import CompiledMemory

Ruling = Literal["accept", "reject", "merge", "ask"]

MAX_RECORD: Final = 4_000
"""Characters of a record."""


@value(frozen=True, slots=True)
class CandidateRuling:
    ruling: Ruling
    reason: str


def judged(candidate: MemoryCandidate, memory: CompiledMemory, namespace: str) -> CandidateRuling:
    """The first rule that holds. A rule that cannot be evaluated asks a person, and so does a policy without a rule
    that holds."""
    values: dict[str, Any] = {
        "source": candidate.source,
        "confidence": candidate.confidence,
        "kind": candidate.kind,
        "namespace": namespace,
    }
    for number, rule in enumerate(memory.rules, 1):
        holds = rule.when.evaluate(values)
        if isinstance(holds, Failure):
            return CandidateRuling("ask", f"rule {number} of the policy could not be evaluated")
        if holds:
            return CandidateRuling(rule.then, f"rule {number} of the policy")
    if memory.rules:
        return CandidateRuling("ask", "no rule of the policy holds")
    return _by_default(candidate, memory)


def _by_default(candidate: MemoryCandidate, memory: CompiledMemory) -> CandidateRuling:
    """What a user said is accepted, everything else asks. `auto` accepts also what the model said, but never what may
    come from a tool's output."""
    if candidate.source in ("user", "operator"):
        return CandidateRuling("accept", f"the {candidate.source} said it")
    if candidate.source == "tool":
        if candidate.kind == "working" and memory.spec.write == "auto":
            return CandidateRuling("accept", "the scratchpad of the run's own thread")
        return CandidateRuling("ask", "it may come from the output of a tool")
    if memory.spec.write == "auto" or candidate.kind == "working":
        return CandidateRuling("accept", "`write: auto`" if memory.spec.write == "auto" else "the thread's scratchpad")
    return CandidateRuling("ask", "a model said it")
