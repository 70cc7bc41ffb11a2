"""The hooks at the ends of a run: its start, its prompt, its stop. Leaves to the policy room: who is asked.

Stop is asked here for backends that have no loop of their own to go on with; `native` asks between its turns.
"""

from app.backends.contract import StepFailed
from app.core.decisions import Deny, Transform
from app.core.errors import Failure
from app.core.json import JsonObject
from app.policy.contract import Point
from app.policy.points import prompt_input, prompt_subject
from app.runtime.run.steps.passage import Passage
from app.views.history import user_message


async def start_session(passage: Passage) -> None:
    fired = await passage.hooks.fire(Point.SESSION_START, prompt_subject(passage.given))
    if isinstance(fired.decision, Deny):
        raise StepFailed(Failure("SESSION_DENIED", fired.decision.reason))
    if isinstance(fired.decision, Transform):
        passage.policy = (fired.decision.changes["context"],)


async def submit_prompt(passage: Passage) -> None:
    fired = await passage.hooks.fire(Point.USER_PROMPT_SUBMIT, prompt_subject(passage.given))
    if isinstance(fired.decision, Deny):
        raise StepFailed(Failure("PROMPT_DENIED", fired.decision.reason))
    passage.given = prompt_input(fired.subject)
    if passage.brought:
        passage.history = [await _brought(passage, number, said) for number, said in enumerate(passage.history)]


async def _brought(passage: Passage, number: int, message: JsonObject) -> JsonObject:
    """What the user is said to have said before is a prompt too, as far as the model can tell."""
    if message["role"] != "user":
        return message
    subject = prompt_subject(message.get("parts") or message["content"])
    fired = await passage.hooks.fire(Point.USER_PROMPT_SUBMIT, subject, f"history-{number}")
    if isinstance(fired.decision, Deny):
        raise StepFailed(Failure("PROMPT_DENIED", fired.decision.reason))
    return user_message(prompt_input(fired.subject)) if isinstance(fired.decision, Transform) else message


async def ask_to_stop(passage: Passage) -> None:
    assert passage.output is not None
    if Point.STOP not in passage.hooks.asked:
        subject = {"turn": 1, "maxTurns": 1, "output": passage.output.text}
        await passage.hooks.fire(Point.STOP, subject, "end")
