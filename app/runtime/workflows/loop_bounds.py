"""When a loop of a cycle has to end: too many generations, a state that was there before, or a lower grade. Pure.

A generation begins when the cycle goes back to a phase that it has been through, or stays in one.
"""

from collections.abc import Mapping, Sequence
from dataclasses import field
from hashlib import sha256
from typing import Any

from app.core import json
from app.core.errors import Failure
from app.core.json import JsonObject
from app.core.value import value
from app.runtime.workflows.cycle_values import used
from app.runtime.workflows.review_aggregate import fingerprint
from app.workspace.compiled_cycles import LoopBounds


@value(frozen=True, slots=True)
class LoopState:
    """What the generations so far left behind."""

    hashes: Sequence[str] = ()
    grades: Sequence[float] = ()


@value(frozen=True, slots=True)
class LoopCheck:
    """How the loop stands when a generation has ended and `generation` would begin."""

    generation: int
    max_generations: int
    oscillation: bool
    regression: bool
    grade: float | None
    previous_grade: float | None
    state: LoopState = field(default_factory=LoopState)

    @property
    def breach(self) -> str | None:
        """Which bound the next generation would break."""
        if self.generation > self.max_generations:
            return f"max_generations: the limit is {self.max_generations}"
        if self.oscillation:
            return "oscillation: the cycle is in a state that it has been in before"
        if self.regression:
            return f"grade regression: {self.grade:g} after {self.previous_grade:g}"
        return None

    @property
    def values(self) -> JsonObject:
        """What a loop-halt policy may look at besides the state of the cycle."""
        return {
            "next_generation": self.generation,
            "max_generations": self.max_generations,
            "oscillation": self.oscillation,
            "regression": self.regression,
            "grade": self.grade,
            "previous_grade": self.previous_grade,
        }


def state_hash(phase: str, outputs: Mapping[str, Any], found: Mapping[str, Any]) -> str:
    """Where the cycle would go on and with what. Ids and wordings of findings do not count: reviewers vary them."""
    findings = sorted([fingerprint(it), it["severity"], it["autofix_class"]] for it in found.get("findings", ()))
    return sha256(json.canonical({"phase": phase, "outputs": outputs, "findings": findings})).hexdigest()


def check_loop(
    bounds: LoopBounds, before: LoopState, generation: int, state: str, values: Mapping[str, Any]
) -> LoopCheck | Failure:
    """`generation` is the one that would begin. A grade that cannot be computed is a failure, never a good grade."""
    grade, previous = None, before.grades[-1] if before.grades else None
    if bounds.grade is not None:
        found = bounds.grade.evaluate(used(bounds.grade, values))
        if isinstance(found, Failure):
            return Failure("POLICY_FAILED", f"The grade of the loop cannot be computed: {found.message}")
        grade = found
    after = LoopState((*before.hashes, state), before.grades if grade is None else (*before.grades, grade))
    return LoopCheck(
        generation=generation,
        max_generations=bounds.max_generations,
        oscillation=state in before.hashes,
        regression=grade is not None and previous is not None and grade < previous,
        grade=grade,
        previous_grade=previous,
        state=after,
    )
