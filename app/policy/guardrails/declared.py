"""From a workspace's Guardrail documents to the rules of each agent and stage: each kind reads its own fields.

`build` is given the kinds by wiring and answers a rule book, or every reason why there is none.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from functools import cache
from typing import Final

from app.core.errors import Failure
from app.core.value import value
from app.policy.guardrails.contract import DEFAULT_MESSAGE, GuardrailRule, Stage, Subject
from app.policy.guardrails.inspection import Inspected, Inspection, Recall
from app.policy.guardrails.kind import GuardrailDeps, GuardrailKind
from app.policy.guardrails.patterns import PatternError
from app.workspace.catalog import Kinds
from app.workspace.compiled import CompiledWorkspace, Named
from app.workspace.specs.others import GuardrailSpec

STAGES: Final[tuple[Stage, ...]] = ("input", "output", "toolArguments", "toolResults")


@value(frozen=True, slots=True)
class AgentRules:
    """The rules of one agent, by stage."""

    stages: Mapping[Stage, Inspection]
    streamed: tuple[GuardrailRule, ...]
    """Those for the output, if all of them can follow a stream; else a message is held until it is complete."""
    holds_messages: bool

    def at(self, stage: Stage) -> Inspection | None:
        return self.stages.get(stage)

    async def inspect(self, subject: Subject, recall: Recall | None = None) -> Inspected:
        """What the rules of the subject's stage make of it. Nothing is recorded or performed: that is left to whoever
        asks, in a run or outside of one. Without `subject.ask_model` a rule of a model blocks."""
        inspection = self.at(subject.stage)
        return Inspected(subject.content) if inspection is None else await inspection.inspect(subject, recall)


@value(frozen=True, slots=True)
class RuleBook:
    agents: Mapping[str, AgentRules] = field(default_factory=dict)
    """Those that list a guardrail."""

    def of(self, agent: str | None) -> AgentRules | None:
        return self.agents.get(agent) if agent is not None else None

    @property
    def patience(self) -> float:
        """Seconds that the rules of one tool call may take in all."""
        asked = [rules.at(stage) for rules in self.agents.values() for stage in ("toolArguments", "toolResults")]
        return sum(max((one.patience for one in asked if one is not None), default=0.0) for _ in (0, 1))


def build(workspace: CompiledWorkspace, kinds: Kinds[GuardrailKind], deps: GuardrailDeps) -> RuleBook | list[Failure]:
    """All rules, or all failures: a workspace with a rule that cannot work is not served."""
    rules: dict[str, GuardrailRule] = {}
    failures: list[Failure] = []
    for declared in workspace.guardrails.values():
        made = make(declared, workspace, kinds, deps)
        if isinstance(made, Failure):
            failures.append(made)
        else:
            rules[declared.name] = made
    if failures:
        return failures
    inspection = cache(lambda names: Inspection([rules[name] for name in names]))
    stages = {name: agent.spec.guardrails.stages for name, agent in workspace.everyone_acting.items()}
    agents = {name: _of_agent(listed, rules, inspection) for name, listed in stages.items()}
    return RuleBook({name: found for name, found in agents.items() if found is not None})


def make(
    declared: Named[GuardrailSpec], workspace: CompiledWorkspace, kinds: Kinds[GuardrailKind], deps: GuardrailDeps
) -> GuardrailRule | Failure:
    spec = declared.spec
    kind = kinds.usable(spec.kind)
    if kind is None:
        return Failure("GUARDRAIL_INVALID", f"{declared.name}: there is no kind of guardrail {spec.kind!r} here")
    try:
        made = kind.make(declared, workspace, deps)
    except Exception as error:
        # A kind may come from another package; whatever it raises says that the rule cannot be used.
        reason = str(error) if isinstance(error, PatternError) else type(error).__name__
        return Failure("GUARDRAIL_INVALID", f"{declared.name}: cannot be made: {reason}")
    if isinstance(made, Failure):
        return made
    return GuardrailRule(
        declared.name,
        spec.kind,
        spec.action,
        spec.message or DEFAULT_MESSAGE,
        spec.reply,
        float(spec.timeout_seconds),
        scanners=made if isinstance(made, tuple) else (),
        judge=None if isinstance(made, tuple) else made,
        repeatable=kind.repeatable,
    )


def _of_agent(
    stages: Mapping[Stage, Sequence[str]],
    rules: Mapping[str, GuardrailRule],
    inspection: Callable[[tuple[str, ...]], Inspection],
) -> AgentRules | None:
    """`inspection` is the same for the same rules, wherever they are listed: making one takes long."""
    listed = {stage: tuple(names) for stage, names in stages.items() if names}
    if not listed:
        return None
    output = [rules[name] for name in listed.get("output", ())]
    holds = any(not rule.streams for rule in output)
    found = {stage: inspection(names) for stage, names in listed.items()}
    return AgentRules(found, () if holds else tuple(output), holds)
