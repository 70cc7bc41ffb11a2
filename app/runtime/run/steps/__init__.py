"""The steps of a run, in order. Each is one function of the run_scope; a `StepFailed` ends the run with its failure.

A step that acts looks first at what the log already says of it, because a resumed run walks the list again.
"""

from collections.abc import Awaitable, Callable
from typing import Final

from app.runtime.run.steps.backend import run_backend
from app.runtime.run.steps.evidence import check_evidence
from app.runtime.run.steps.gates import pass_gates
from app.runtime.run.steps.guardrails import guard_input, guard_output
from app.runtime.run.steps.hooks import ask_to_stop, start_session, submit_prompt
from app.runtime.run.steps.memory import learn, recall, recall_before_finalize
from app.runtime.run.steps.ports import NoGates, NoMemory
from app.runtime.run.steps.run_scope import RunScope, RunServices
from app.runtime.run.steps.skill import choose_skill

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

_IDLE: Final[dict[Step, Callable[[RunServices], bool]]] = {
    recall: lambda services: isinstance(services.memory, NoMemory),
    recall_before_finalize: lambda services: isinstance(services.memory, NoMemory),
    learn: lambda services: isinstance(services.memory, NoMemory),
    pass_gates: lambda services: isinstance(services.gates, NoGates),
}
"""When a step has nothing to do, whatever the run: its capability is not there."""


def steps_for(services: RunServices) -> tuple[Step, ...]:
    return tuple(step for step in STEPS if step not in _IDLE or not _IDLE[step](services))


__all__ = ["STEPS", "RunScope", "RunServices", "Step", "steps_for"]
