"""Interrupts as the pending requests of the published contract: approvals, tool input, tool calls, and their answers.

One shape for the stream and for REST. Leaves to others: who may answer, and that the first answer wins.
"""

from typing import Any, Final

from app.core.clock import iso
from app.views.interrupt import Interrupt

REQUESTED: Final = {
    "approval": "approval",
    "question": "tool_user_input_requested",
    "external": "tool_call_requested",
}
RESOLVED: Final = {
    "approval": "approval_resolved",
    "question": "tool_user_input_resolved",
    "external": "tool_call_resolved",
}
_METHODS: Final = {
    "approval": "item/commandExecution/requestApproval",
    "question": "item/tool/requestUserInput",
    "external": "item/tool/call",
    "recovery": "item/tool/requestRecovery",
    "paused": "turn/requestResume",
}

CANCELLED: Final = "cancelled by the client"
"""The reason of a denial, or the answer's mark, by which a cancel is distinguished from a plain no."""


def method_of(asked: Interrupt) -> str:
    if asked.kind == "approval" and asked.changes_files:
        return "item/fileChange/requestApproval"
    return _METHODS[asked.kind]


def pending(asked: Interrupt) -> dict[str, Any]:
    """The request as a client lists it. Arguments that a person should see are in `details`."""
    common = {
        "method": method_of(asked),
        "threadId": asked.thread_id,
        "turnId": asked.run_id,
        "itemId": asked.call_id or asked.id,
        "summary": asked.title,
        "createdAt": iso(asked.created_at),
        "status": "pending",
    }
    details = {"tool": asked.tool, "arguments": asked.arguments, "expiresAt": asked.expires_at}
    if asked.kind == "question":
        return {"requestId": asked.id, **common, "details": details, "questions": _questions(asked)}
    if asked.kind == "external":
        call = {"callId": asked.call_id, "tool": asked.tool, "arguments": asked.arguments}
        return {"requestId": asked.id, **common, "details": details, **call}
    name = "approvalId" if asked.kind == "approval" else "requestId"
    return {name: asked.id, **common, "details": details | {"argumentHash": asked.argument_hash}}


def _questions(asked: Interrupt) -> list[dict[str, Any]]:
    given = asked.questions if isinstance(asked.questions, list) else []
    return [
        {
            "id": str(question.get("id", number)),
            "header": question.get("header") or asked.title,
            "question": question.get("question") or question.get("text") or question.get("title") or asked.title,
            "options": _options(question.get("options")),
            "isOther": bool(question.get("isOther", False)),
            "isSecret": bool(question.get("isSecret", False)),
        }
        for number, question in enumerate(given)
    ]


def _options(options: Any) -> list[dict[str, str]] | None:
    if not isinstance(options, list):
        return None
    return [
        {"label": str(option.get("label", "")), "description": str(option.get("description", ""))}
        if isinstance(option, dict)
        else {"label": str(option), "description": ""}
        for option in options
    ]


def resolved(interrupt_id: str, kind: str, answer: dict[str, Any] | None) -> dict[str, Any]:
    """How a request ended; without an answer it expired."""
    name = "approvalId" if kind == "approval" else "requestId"
    if answer is None:
        more = {"success": False} if kind == "external" else {}
        return {name: interrupt_id, "status": "expired", **more}
    if kind == "approval":
        scope = answer.get("scope") or "turn"
        return {name: interrupt_id, "status": "resolved", "decision": decision_of(answer), "scope": scope}
    if kind == "question":
        decision = answer.get("decision") or ("cancel" if answer.get("answers") == {} else "accept")
        return {name: interrupt_id, "status": "resolved", "decision": decision}
    return {name: interrupt_id, "status": "resolved", "success": "error" not in answer}


def decision_of(answer: dict[str, Any]) -> str:
    if answer.get("decision") == "approve":
        return "accept"
    return "cancel" if answer.get("reason") == CANCELLED else "decline"
