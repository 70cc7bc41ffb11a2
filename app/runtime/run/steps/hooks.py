"""The hooks at the ends of a run: its start, its prompt, its stop. Leaves to the policy room: who is asked.

Stop is asked here for backends that have no loop of their own to go on with; `native` asks between its turns.
"""

from app.backends.contract import StepFailed
from app.core.decisions import Deny, Transform
from app.core.errors import Failure
from app.core.json import JsonObject
from app.policy.contract import Point
from app.policy.points import prompt_input, prompt_subject
from app.runtime.run.steps.run_scope import RunScope
from app.views.history import user_message


async def start_session(run_scope: RunScope) -> None:
    fired = await run_scope.hooks.fire(Point.SESSION_START, prompt_subject(run_scope.given))
    if isinstance(fired.decision, Deny):
        raise StepFailed(Failure("SESSION_DENIED", fired.decision.reason))
    if isinstance(fired.decision, Transform):
        run_scope.policy = (fired.decision.changes["context"],)


async def submit_prompt(run_scope: RunScope) -> None:
    fired = await run_scope.hooks.fire(Point.USER_PROMPT_SUBMIT, prompt_subject(run_scope.given))
    if isinstance(fired.decision, Deny):
        raise StepFailed(Failure("PROMPT_DENIED", fired.decision.reason))
    run_scope.given = prompt_input(fired.subject)
    if run_scope.brought:
        run_scope.history = [await _brought(run_scope, number, said) for number, said in enumerate(run_scope.history)]


async def _brought(run_scope: RunScope, number: int, message: JsonObject) -> JsonObject:
    """A user message of the history is a prompt too: the model cannot distinguish it from the input."""
    if message["role"] != "user":
        return message
    subject = prompt_subject(message.get("parts") or message["content"])
    fired = await run_scope.hooks.fire(Point.USER_PROMPT_SUBMIT, subject, f"history-{number}")
    if isinstance(fired.decision, Deny):
        raise StepFailed(Failure("PROMPT_DENIED", fired.decision.reason))
    return user_message(prompt_input(fired.subject)) if isinstance(fired.decision, Transform) else message


async def ask_to_stop(run_scope: RunScope) -> None:
    assert run_scope.output is not None
    if Point.STOP not in run_scope.hooks.asked:
        subject = {"turn": 1, "maxTurns": 1, "output": run_scope.output.text}
        await run_scope.hooks.fire(Point.STOP, subject, "end")
