"""Where a cycle stands: a fold of the visits of its phases that have ended, in their order.

Everything follows from recorded values, so a run that is entered again arrives at the same state.
"""

from collections.abc import Mapping
from dataclasses import field, replace
from typing import Any, Literal

from app.core.json import JsonObject, present
from app.core.value import mutable, value
from app.runtime.workflows.loop_bounds import LoopState
from app.workspace.compiled_cycles import CompiledCycle, CompiledPhase
from app.workspace.unit_fields import CONTRACT_NAMES

AGGREGATE = "review_aggregate"


@value(frozen=True, slots=True)
class PhaseResult:
    """What one visit of a phase gave, and where the cycle goes from there."""

    phase: str
    output: Any = None
    answers: Mapping[str, Any] = field(default_factory=dict)
    aggregate: JsonObject | None = None
    """None where nobody reviewed: an older one stays in force."""
    to: str | None = None
    """The next phase; None at the end."""
    goes_back: bool = False
    """Whether the next phase begins another generation."""
    verdict: Literal["done", "halted"] | None = None
    reason: str | None = None
    state_hash: str | None = None
    grade: float | None = None
    artifact: JsonObject | None = None
    policies: Mapping[str, str] = field(default_factory=dict)
    """What each policy decided about the visit."""

    def document(self) -> JsonObject:
        """As it is recorded, as the output of the phase's node."""
        return present(
            {
                "output": self.output,
                "answers": dict(self.answers) or None,
                "reviewAggregate": self.aggregate,
                "to": self.to,
                "goesBack": self.goes_back or None,
                "verdict": self.verdict,
                "reason": self.reason,
                "stateHash": self.state_hash,
                "grade": self.grade,
                "artifact": self.artifact,
                "policies": dict(self.policies) or None,
            }
        )

    @classmethod
    def of(cls, phase: str, document: Mapping[str, Any]) -> "PhaseResult":
        return cls(
            phase,
            document.get("output"),
            document.get("answers") or {},
            document.get("reviewAggregate"),
            document.get("to"),
            bool(document.get("goesBack")),
            document.get("verdict"),
            document.get("reason"),
            document.get("stateHash"),
            document.get("grade"),
            document.get("artifact"),
            document.get("policies") or {},
        )


@mutable(slots=True)
class CycleState:
    cycle: CompiledCycle
    phases: Mapping[str, CompiledPhase]
    mode: str
    input: Any
    phase: str
    generation: int = 1
    visits: dict[str, int] = field(default_factory=dict)
    outputs: dict[str, Any] = field(default_factory=dict)
    """By phase: what its newest visit gave."""
    answers: Mapping[str, Any] = field(default_factory=dict)
    """Of the newest visit, by who answered."""
    contracts: dict[str, Any] = field(default_factory=dict)
    """The newest output of each published schema, without its version."""
    previous: Any = None
    """The output of the phase before; at the entry, the input."""
    loop: LoopState = field(default_factory=LoopState)
    visited: list[str] = field(default_factory=list)
    artifacts: list[JsonObject] = field(default_factory=list)

    @classmethod
    def begin(cls, cycle: CompiledCycle, phases: Mapping[str, CompiledPhase], mode: str, given: Any) -> "CycleState":
        return cls(cycle, phases, mode, given, cycle.entry, previous=given)

    def copy(self) -> "CycleState":
        """For a visit to change; its record decides what becomes of the state."""
        return replace(
            self,
            visits=dict(self.visits),
            outputs=dict(self.outputs),
            contracts=dict(self.contracts),
            visited=list(self.visited),
            artifacts=list(self.artifacts),
        )

    @property
    def aggregate(self) -> JsonObject | None:
        found: JsonObject | None = self.contracts.get(AGGREGATE)
        return found

    def gave(self, phase: str, output: Any, answers: Mapping[str, Any], found: JsonObject | None) -> None:
        """The outputs of a visit of the current phase: signals and policies are about them."""
        self.visits[phase] = self.visits.get(phase, 0) + 1
        self.visited.append(phase)
        self.outputs[phase], self.answers = output, answers
        schema = self.phases[phase].output_schema
        if schema is not None:
            self.contracts[schema.rpartition("_v")[0]] = output
        for agent in self.phases[phase].invoked:
            if agent.schema is not None and agent.id in answers:
                self.contracts[agent.schema.rpartition("_v")[0]] = answers[agent.id]
        if found is not None:
            self.contracts[AGGREGATE] = found

    def go_on(self, result: PhaseResult) -> None:
        """The cycle after a visit has ended."""
        hashes, grades = self.loop.hashes, self.loop.grades
        if result.state_hash is not None:
            hashes = (*hashes, result.state_hash)
        if result.grade is not None:
            grades = (*grades, result.grade)
        self.loop = LoopState(hashes, grades)
        if result.aggregate is not None:
            self.contracts[AGGREGATE] = result.aggregate
        if result.artifact is not None:
            self.artifacts.append(result.artifact)
        self.previous = result.output
        if result.to is not None:
            self.phase, self.generation = result.to, self.generation + int(result.goes_back)

    def apply(self, result: PhaseResult) -> None:
        """A visit that the log has."""
        self.gave(result.phase, result.output, result.answers, result.aggregate)
        self.go_on(result)

    def values(self) -> JsonObject:
        """The names that an expression may use. What is not there yet is null, and looking into it fails."""
        known: JsonObject = {name: self.outputs.get(name) for name in self.phases}
        return known | {
            "input": self.input,
            "mode": self.mode,
            "cycle": self.cycle.id,
            "phase": self.phase,
            "generation": self.generation,
            "visits": self.visits.get(self.phase, 0),
            "output": self.outputs.get(self.phase),
            "outputs": dict(self.answers),
            "phases": {
                name: {"output": self.outputs.get(name), "visits": self.visits.get(name, 0)}
                for name in self.cycle.phases
            },
            **{name: self.contracts.get(name) for name in CONTRACT_NAMES},
        }
