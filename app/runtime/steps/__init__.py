"""The steps of a run, in order. Each is one function of the passage; a `StepFailed` ends the run with its failure.

A step that acts looks first at what the log already says of it, because a resumed run walks the list again.
"""

from collections.abc import Awaitable, Callable
from typing import Final

from app.runtime.steps.backend import run_backend
from app.runtime.steps.evidence import check_evidence
from app.runtime.steps.gates import pass_gates
from app.runtime.steps.guardrails import guard_input, guard_output
from app.runtime.steps.hooks import ask_to_stop, start_session, submit_prompt
from app.runtime.steps.memory import learn, recall
from app.runtime.steps.passage import Passage, Services
from app.runtime.steps.skill import choose_skill

Step = Callable[[Passage], Awaitable[None]]

STEPS: Final[tuple[Step, ...]] = (
    start_session,
    submit_prompt,
    guard_input,
    choose_skill,
    recall,
    run_backend,
    check_evidence,
    guard_output,
    pass_gates,
    learn,
    ask_to_stop,
)

__all__ = ["STEPS", "Passage", "Services", "Step"]
