"""The interrupt, folded from its events: open until it is answered or expires, once."""

from typing import Any

from app.core.clock import iso
from app.core.value import mutable
from app.events.catalog import interrupt as facts
from app.events.envelope import Event


@mutable(slots=True)
class Interrupt:
    id: str
    thread_id: str
    run_id: str | None = None
    kind: str = ""
    status: str = "open"
    title: str = ""
    expires_at: str = ""
    tool: str | None = None
    call_id: str | None = None
    arguments: Any = None
    argument_hash: str | None = None
    schema_hash: str | None = None
    approver: str | None = None
    submitted_by: str | None = None
    questions: list[dict[str, Any]] | None = None
    artifacts: list[str] | None = None
    answer: dict[str, Any] | None = None
    answered_by: str | None = None
    created_at: int = 0
    changes_files: bool = False
    """Of an approval: the tool writes files that its arguments name."""

    def apply(self, event: Event) -> None:
        payload = event.payload
        match event.type:
            case facts.InterruptRaised.type:
                self.run_id, self.created_at = event.run_id, event.at
                self.kind, self.title, self.expires_at = payload["kind"], payload["title"], payload["expiresAt"]
                self.tool, self.call_id = payload.get("tool"), payload.get("callId")
                self.arguments, self.argument_hash = payload.get("arguments"), payload.get("argumentHash")
                self.schema_hash, self.approver = payload.get("schemaHash"), payload.get("approver")
                self.submitted_by = payload.get("submittedBy")
                self.questions, self.artifacts = payload.get("questions"), payload.get("artifacts")
                self.changes_files = payload.get("changesFiles", False)
            case facts.InterruptResolved.type:
                self.status, self.answer = "resolved", payload["answer"]
                self.answered_by = payload["answeredBy"]
            case facts.InterruptExpired.type:
                self.status = "expired"


def interrupt_json(interrupt: Interrupt) -> dict[str, Any]:
    return {
        "id": interrupt.id,
        "threadId": interrupt.thread_id,
        "runId": interrupt.run_id,
        "kind": interrupt.kind,
        "status": interrupt.status,
        "title": interrupt.title,
        "tool": interrupt.tool,
        "callId": interrupt.call_id,
        "arguments": interrupt.arguments,
        "argumentHash": interrupt.argument_hash,
        "approver": interrupt.approver,
        "questions": interrupt.questions,
        "expiresAt": interrupt.expires_at,
        "answer": interrupt.answer,
        "answeredBy": interrupt.answered_by,
        "createdAt": iso(interrupt.created_at),
    }
