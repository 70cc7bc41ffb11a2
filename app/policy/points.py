"""What may be asked and changed at each point: the schema of a change, what it makes of the subject, and what
is decided when nobody is asked.

    point              subject                                        a transform may put in place
    SessionStart       prompt                                         context
    UserPromptSubmit   prompt, and input when that is not plain text  prompt, or input
    PreToolUse         tool, callId, arguments                        arguments
    PostToolUse        tool, callId, arguments, ok, output, error     output
    SkillStart         skill, trigger, allowedTools, prompt           allowedTools, fewer of them
    Stop               turn, maxTurns, output                         message
    PreCompact         strategy, messages, tokens                     instructions
    WorkflowStart      workflow, input, and of a cycle: cycle, mode   input
    PhaseAdvance       cycle, phases, fromPhase, toPhase, generation, toPhase, another phase of the cycle
                       mode, output
    WorkflowComplete   workflow, verdict, reason, output              nothing

Subjects are JSON: a command gets them on stdin. Leaves to others: who is asked, and acting on the answer.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final

from app.core import json
from app.core.decisions import ALLOW, Decision, Deny
from app.core.json import JsonObject
from app.core.value import value
from app.policy.contract import Point

Advance = Callable[[JsonObject, JsonObject], JsonObject]
Normal = Callable[[JsonObject, JsonObject], JsonObject]
Objection = Callable[[JsonObject, JsonObject], str | None]


def _replace(subject: JsonObject, changes: JsonObject) -> JsonObject:
    return subject | changes


def _as_given(subject: JsonObject, changes: JsonObject) -> JsonObject:
    return changes


def _no_objection(subject: JsonObject, changes: JsonObject) -> str | None:
    return None


@value(frozen=True, slots=True)
class Rules:
    schema: str | None
    """What a transform's output must be; None where nothing can be changed."""
    default: Decision = ALLOW
    advance: Advance = _replace
    normal: Normal = _as_given
    """A change as it is recorded, so that whoever reads it there needs no subject to make sense of it."""
    objection: Objection = _no_objection
    """What is wrong with a change that its schema cannot see."""


# -- prompts ---------------------------------------------------------------------------------------


def prompt_subject(given: Any) -> JsonObject:
    """An input as UserPromptSubmit shows it: its text, and the whole of it when it is more than text."""
    return {"prompt": given} if isinstance(given, str) else {"prompt": text_of(given), "input": given}


def prompt_input(subject: Mapping[str, Any]) -> Any:
    """The way back: the input that a subject stands for."""
    return subject.get("input", subject["prompt"])


def text_of(given: Any) -> str:
    if isinstance(given, str):
        return given
    if _is_parts(given):
        return "\n".join(part["text"] for part in given if _is_text(part))
    return json.dumps(given).decode()


def _change_prompt(subject: JsonObject, changes: JsonObject) -> JsonObject:
    given: Any = subject.get("input")
    if "input" in changes:
        changed = changes["input"]
    else:
        changed = _with_text(given, changes["prompt"]) if _is_parts(given) else changes["prompt"]
    rest = {name: value for name, value in subject.items() if name not in ("prompt", "input")}
    return rest | prompt_subject(changed)


def _whole_input(subject: JsonObject, changes: JsonObject) -> JsonObject:
    """The prompt when all there is is text, else the input as a whole."""
    after = _change_prompt(subject, changes)
    return {"input": after["input"]} if "input" in after else {"prompt": after["prompt"]}


def _with_text(parts: list[Any], text: str) -> list[Any]:
    """The first text part says it all, the other ones go; pictures and files keep their places."""
    first = next((number for number, part in enumerate(parts) if _is_text(part)), None)
    if first is None:
        return [{"type": "text", "text": text}, *parts]
    kept = [(number, part) for number, part in enumerate(parts) if number == first or not _is_text(part)]
    return [part | {"text": text} if number == first else part for number, part in kept]


def _is_parts(given: Any) -> bool:
    return isinstance(given, list) and all(isinstance(part, dict) and "type" in part for part in given)


def _is_text(part: Any) -> bool:
    return part["type"] == "text" and isinstance(part.get("text"), str)


# -- skills ----------------------------------------------------------------------------------------


def _only_narrows(subject: JsonObject, changes: JsonObject) -> str | None:
    added = set(changes["allowedTools"]) - set(subject.get("allowedTools", ()))
    return "a hook can take tools away and add none" if added else None


# -- workflows -------------------------------------------------------------------------------------


def _known_phase(subject: JsonObject, changes: JsonObject) -> str | None:
    known = changes["toPhase"] in subject.get("phases", ())
    return None if known else "the cycle has no such phase"


_DONE: Final = Deny("the loop has its result")

RULES: Final[Mapping[Point, Rules]] = {
    Point.SESSION_START: Rules("hook_session_start_output_v1"),
    Point.USER_PROMPT_SUBMIT: Rules("hook_user_prompt_submit_output_v1", advance=_change_prompt, normal=_whole_input),
    Point.PRE_TOOL_USE: Rules("hook_pre_tool_use_output_v1"),
    Point.POST_TOOL_USE: Rules("hook_post_tool_use_output_v1"),
    Point.SKILL_START: Rules("hook_skill_start_output_v1", objection=_only_narrows),
    # Stop asks whether the loop may go on, and by itself it does not.
    Point.STOP: Rules("hook_stop_output_v1", default=_DONE),
    Point.PRE_COMPACT: Rules("hook_pre_compact_output_v1"),
    Point.WORKFLOW_START: Rules("hook_workflow_start_output_v1"),
    Point.PHASE_ADVANCE: Rules("hook_phase_advance_output_v1", objection=_known_phase),
    Point.WORKFLOW_COMPLETE: Rules(None),
}
