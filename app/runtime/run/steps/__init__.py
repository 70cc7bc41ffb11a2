"""The steps of a run, in order. Each is one function of the run_scope; a `StepFailed` ends the run with its failure.

A step that acts looks first at what the log already says of it, because a resumed run walks the list again.
"""

from collections.abc import Awaitable, Callable
from typing import Final

from app.policy.contract import Point
from app.runtime.run.steps.backend import run_backend
from app.runtime.run.steps.evidence import check_evidence
from app.runtime.run.steps.gates import pass_gates
from app.runtime.run.steps.guardrails import guard_input, guard_output
from app.runtime.run.steps.hooks import ask_to_stop, start_session, submit_prompt
from app.runtime.run.steps.memory import learn, recall, recall_before_finalize
from app.runtime.run.steps.ports import NoGates, NoMemory
from app.runtime.run.steps.run_scope import RunScope, RunServices
from app.runtime.run.steps.skill import choose_skill
from app.runtime.run.toolsets import Toolset
from app.workspace.compiled import CompiledAgent

Step = Callable[[RunScope], Awaitable[None]]

STEPS: Final[tuple[Step, ...]] = (
    start_session,
    submit_prompt,
    guard_input,
    choose_skill,
    recall,
    run_backend,
    recall_before_finalize,
    check_evidence,
    guard_output,
    pass_gates,
    learn,
    ask_to_stop,
)

Idle = Callable[[RunServices, Toolset, CompiledAgent], bool]


def _without_memory(services: RunServices, toolset: Toolset, agent: CompiledAgent) -> bool:
    return not agent.spec.memory or isinstance(services.memory, NoMemory)


def _without_rules(services: RunServices, toolset: Toolset, agent: CompiledAgent) -> bool:
    return toolset.guardrails.of(agent.name) is None


def _without_hooks(point: Point) -> Idle:
    return lambda services, toolset, agent: not toolset.hooks.any_at(point)


_IDLE: Final[dict[Step, Idle]] = {
    start_session: _without_hooks(Point.SESSION_START),
    submit_prompt: _without_hooks(Point.USER_PROMPT_SUBMIT),
    guard_input: _without_rules,
    recall: _without_memory,
    recall_before_finalize: _without_memory,
    check_evidence: lambda services, toolset, agent: not agent.spec.evidence,
    guard_output: _without_rules,
    pass_gates: lambda services, toolset, agent: not agent.spec.gates or isinstance(services.gates, NoGates),
    learn: _without_memory,
    ask_to_stop: _without_hooks(Point.STOP),
}
"""When a step has nothing to do, whatever the run: nobody in the workspace wants it for the agent."""


def steps_for(services: RunServices, toolset: Toolset, agent: CompiledAgent) -> tuple[Step, ...]:
    """The steps of an agent's runs that may have something to do."""
    return tuple(step for step in STEPS if step not in _IDLE or not _IDLE[step](services, toolset, agent))


__all__ = ["STEPS", "RunScope", "RunServices", "Step", "steps_for"]
