"""Cycles as the rest of the program knows them: frozen values with their expressions compiled.

A cycle is a sequence of phases; a phase asks personas, agents or roles and says when it has advanced; a policy decides
about what they found. Everything here came from Markdown files of `workflows/`. Leaves to `cycles`: how they are made
and checked; to `runtime/workflows`: running them.
"""

from collections.abc import Mapping
from dataclasses import field
from types import MappingProxyType
from typing import Any, Final, Literal

from app.core.expressions import Expression, NumberExpression
from app.core.schemas import Validator
from app.core.value import value
from app.workspace.templates import Template

PolicyKind = Literal["confidence-gating", "severity-routing", "role-permissions", "mode-dispatch", "loop-halt"]
PolicyDecision = Literal["allow", "deny", "advisory"]

OUTCOMES: Final[Mapping[str, Mapping[str, PolicyDecision]]] = MappingProxyType(
    {
        "confidence-gating": MappingProxyType(
            {"allow": "allow", "actionable": "allow", "suppress": "allow", "advisory": "advisory", "deny": "deny"}
        ),
        "severity-routing": MappingProxyType(
            {
                "allow": "allow",
                "apply": "allow",
                "gated": "allow",
                "manual": "allow",
                "advisory": "advisory",
                "deny": "deny",
            }
        ),
        "role-permissions": MappingProxyType(
            {"allow": "allow", "advisory": "advisory", "skip": "advisory", "deny": "deny"}
        ),
        "mode-dispatch": MappingProxyType(
            {"allow": "allow", "ask": "allow", "report": "advisory", "advisory": "advisory", "deny": "deny"}
        ),
        "loop-halt": MappingProxyType({"allow": "allow", "advisory": "advisory", "halt": "deny", "deny": "deny"}),
    }
)
"""What `then` may say in a policy of each kind, and the decision it stands for."""


@value(frozen=True, slots=True)
class PolicyRule:
    when: Expression
    then: str
    reason: str
    paths: tuple[str, ...] | None = None
    """Of role-permissions: the files that the agent may write, as patterns. None leaves that to its tools."""


@value(frozen=True, slots=True)
class CompiledPolicy:
    """The first rule whose `when` is true decides; if none is, `default` does."""

    id: str
    kind: PolicyKind
    rules: tuple[PolicyRule, ...]
    default: PolicyDecision
    file: str


@value(frozen=True, slots=True)
class CompiledPersona:
    """A specialist: an agent with instructions of its own and no more tools than it names."""

    id: str
    role: str
    """The folder beneath `personas/`, such as reviewer or researcher; empty for a file without one."""
    description: str
    agent: str
    """The Agent that it runs as."""
    instructions: str
    allowed_tools: frozenset[str]
    file: str


@value(frozen=True, slots=True)
class InvokedAgent:
    """One of a phase's `agents_invoked`."""

    id: str
    kind: Literal["persona", "agent", "role"]
    role: str
    agent: str
    """The Agent whose run it is."""
    instructions: str | None = None
    """What is added to the agent's own."""
    tools: frozenset[str] | None = None
    """The most it may use; None for an agent, which has its own."""
    schema: str | None = None
    """Of a role: the published schema of what it hands over."""

    @property
    def reviews(self) -> bool:
        """Whether its answer is findings rather than a deliverable."""
        return self.kind == "persona" and self.role.endswith("reviewer")


@value(frozen=True, slots=True)
class ArtifactTemplate:
    """The form of a deliverable: its name, its schema and its text."""

    id: str
    naming: Template
    schema: str | None
    """The id of a published schema; None where the template holds its own."""
    validator: Validator
    frontmatter: Mapping[str, Any]
    """Each value a Template, or a literal."""
    body: Template
    file: str


@value(frozen=True, slots=True)
class CompiledPhase:
    id: str
    advance: Expression
    halt: Expression | None
    invoked: tuple[InvokedAgent, ...]
    input_schema: str | None
    output_schema: str | None
    policies: tuple[str, ...]
    artifact: str | None
    instructions: str
    file: str


@value(frozen=True, slots=True)
class LoopBounds:
    max_generations: int
    grade: NumberExpression | None = None


@value(frozen=True, slots=True)
class CompiledCycle:
    id: str
    description: str
    phases: tuple[str, ...]
    entry: str
    done: Expression | None
    """None: done when the last phase has advanced."""
    abort: Expression | None
    bounds: LoopBounds
    policies: tuple[str, ...]
    instructions: str
    file: str

    def after(self, phase: str) -> str | None:
        """The phase that follows in the sequence; None after the last."""
        at = self.phases.index(phase) + 1
        return self.phases[at] if at < len(self.phases) else None


@value(frozen=True, slots=True)
class WorkflowUnits:
    """Everything that the files of `workflows/` declare, by id. An id that is not here does not exist."""

    cycles: Mapping[str, CompiledCycle] = field(default_factory=dict)
    phases: Mapping[str, CompiledPhase] = field(default_factory=dict)
    policies: Mapping[str, CompiledPolicy] = field(default_factory=dict)
    personas: Mapping[str, CompiledPersona] = field(default_factory=dict)
    artifacts: Mapping[str, ArtifactTemplate] = field(default_factory=dict)
