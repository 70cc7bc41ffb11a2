"""Questions of a run as LangGraph's clients see them, and their answers as ours.

An approval has the shape of LangChain's review of actions, which its chat pages know; what a graph asked by itself is
its own value. Pure functions. Leaves to others: whether an answer is taken (`runtime.intake.interrupts`).
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

Payload = dict[str, Any]

APPROVING: Final = frozenset({"approve", "accept", "approved", "yes", "ok", "ignore_and_approve"})
DENYING: Final = frozenset({"deny", "reject", "denied", "no", "ignore"})
BREAKPOINT: Final = "breakpoint"
"""The id of the one question of a run that stops at a node; its value has the nodes that are next."""

OWN_QUESTION: Final = "answer"
"""The id of the one question that a graph's own `interrupt(value)` is."""
UPDATES: Final = "updates"
"""With the answer to either: what was set of the state meanwhile."""


class AnswerNotMapped(Exception):
    """The value of a resume that says nothing which this kind of question understands."""


def value_of(asked: Payload) -> Any:
    """What is asked, from the payload of the event that raised it."""
    kind = asked["kind"]
    if kind == "approval":
        name, described = asked.get("tool") or "", asked["title"]
        action = {"name": name, "args": asked.get("arguments") or {}, "description": described}
        review = {"action_name": name, "allowed_decisions": ["approve", "reject"]}
        return {"action_requests": [action], "review_configs": [review]}
    questions = asked.get("questions") or []
    if kind == "question" and len(questions) == 1 and "value" in questions[0]:
        return questions[0]["value"]
    if kind == "question":
        return {"title": asked["title"], "questions": questions}
    if kind == "external":
        return {
            "type": "tool_call",
            "id": asked.get("callId"),
            "name": asked.get("tool"),
            "args": asked.get("arguments"),
        }
    if kind == "recovery":
        call = {"id": asked.get("callId"), "name": asked.get("tool"), "args": asked.get("arguments")}
        return {"kind": kind, "title": asked["title"], "call": call, "allowed_decisions": ["retry", "use", "fail"]}
    return {"kind": kind, "title": asked["title"]}


def is_breakpoint(kind: str, questions: Sequence[Payload] | None) -> bool:
    """Whether nothing is asked: the run stops at a node because its client wanted it to."""
    return bool(_only_question(kind, questions) == BREAKPOINT)


def takes_updates(kind: str, questions: Sequence[Payload] | None) -> bool:
    """Whether the graph goes on with what its client set of the state meanwhile: it stopped at a node, or asked by
    itself with `interrupt(value)`."""
    return _only_question(kind, questions) in (BREAKPOINT, OWN_QUESTION)


def _only_question(kind: str, questions: Sequence[Payload] | None) -> Any:
    only = questions[0] if kind == "question" and questions and len(questions) == 1 else {}
    return only.get("id") if "value" in only else None


def shown_interrupts(asked: Mapping[str, Payload]) -> list[Payload]:
    """The questions that are open. A run that stops at a node asks nothing."""
    return [
        interrupt_object(name, payload)
        for name, payload in asked.items()
        if not is_breakpoint(payload["kind"], payload.get("questions"))
    ]


def interrupt_object(interrupt_id: str, asked: Payload) -> Payload:
    return {"value": value_of(asked), "id": interrupt_id}


def answer_of(kind: str, questions: list[Payload] | None, value: Any) -> Payload:
    """The value of a resume as an answer of ours; raises `AnswerNotMapped`."""
    match kind:
        case "approval":
            return _decision(value)
        case "question":
            return {"answers": _answers(questions or [], value)}
        case "external":
            if isinstance(value, dict) and value.keys() == {"error"} and isinstance(value["error"], str):
                return {"error": value["error"]}
            return {"output": value}
        case "paused":
            return {"decision": "resume"}
    if isinstance(value, dict) and "decision" in value:
        return value
    raise AnswerNotMapped(f"An interrupt of kind {kind} needs an object with a decision.")


def _decision(value: Any) -> Payload:
    if isinstance(value, dict) and isinstance(value.get("decisions"), list):
        value = value["decisions"]
    if isinstance(value, list):
        if len(value) != 1:
            raise AnswerNotMapped("An approval takes exactly one decision.")
        value = value[0]
    if isinstance(value, bool):
        return {"decision": "approve" if value else "deny"}
    reason: Any = None
    word = value
    if isinstance(value, dict):
        word = value.get("type", value.get("decision"))
        reason = value.get("message", value.get("reason", value.get("args")))
    if isinstance(word, str) and word.lower() in APPROVING | DENYING:
        made: Payload = {"decision": "approve" if word.lower() in APPROVING else "deny"}
        return made | {"reason": reason} if isinstance(reason, str) and reason else made
    raise AnswerNotMapped("An approval takes `approve` or `reject`; other decisions, such as edits, are not supported.")


def _answers(questions: list[Payload], value: Any) -> Payload:
    ids = [str(one.get("id") or one.get("key") or number) for number, one in enumerate(questions)]
    if len(ids) == 1 and "value" in questions[0]:
        return {ids[0]: value}  # the graph's own question: the value is what it gets
    if isinstance(value, dict):
        inner = value.get("answers")
        return inner if value.keys() == {"answers"} and isinstance(inner, dict) else value
    if len(ids) == 1:
        return {ids[0]: value}
    raise AnswerNotMapped("Several questions were asked: answer with an object that has each question's id.")
