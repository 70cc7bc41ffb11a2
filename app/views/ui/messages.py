"""The parts of messages, folded from UI events: text as it streams, reasoning, cards that refer to something else.

Pieces of one message are put together as they are; its completion replaces them and never adds to them.
"""

from typing import Any

from app.views.ui.fields import UiFields, present

Part = dict[str, Any]


class Messages:
    def __init__(self, parts: list[Part] | None = None) -> None:
        self._parts: list[Part] = parts or []
        self._at = {part["partId"]: part for part in self._parts}
        self._pieces: dict[str, list[str]] = {}
        """Text that came after a part's own, joined when somebody looks: one by one would copy the text each time."""

    @property
    def parts(self) -> list[Part]:
        for part_id, pieces in self._pieces.items():
            self._at[part_id]["text"] += "".join(pieces)
        self._pieces.clear()
        return self._parts

    def apply(self, event: UiFields) -> None:
        name = event.name
        if event.is_of("plan"):
            self._put(event, "plan", event.said("text", "delta") or event.text("detail") or event.title)
        elif name in ("model.delta", "model.completed", "model.failed"):
            self._model(event)
        elif event.is_of("reasoning") or event.kind == "note":
            self._reasoning(event)
        elif name in ("tool.result", "tool.failed"):
            self._card(event, "tool-preview", event.said("outputPreview", "errorPreview"))
        elif name == "artifact.changed" or event.kind == "draft":
            self._card(event, "artifact-card", artifactId=event.text("artifactId"))
        elif name == "evidence.changed" or event.kind == "evidence":
            self._card(event, "evidence-citation", evidenceId=event.text("evidenceId"))
        elif event.is_of("turn"):
            self._turn(event)
        elif is_diagnostic(event):
            self._card(event, "diagnostic-ref", event.text("detail"), diagnosticId=event.text("traceId") or event.id)

    def _turn(self, event: UiFields) -> None:
        """What was said to the agent, and an answer that is not one of its messages."""
        said = event.said("text")
        if said is not None and event.name == "turn.submitted":
            self._put(event, "text", said, role="user", state="final", key=f"{event.text('turnId')}:input")
        elif said is not None and event.name == "turn.completed":
            self._put(event, "text", said, role="assistant", state="final", key=f"{event.text('turnId')}:output")
        elif event.name == "turn.failed":
            self._card(event, "diagnostic-ref", event.text("detail"), diagnosticId=event.text("traceId") or event.id)

    def _model(self, event: UiFields) -> None:
        key = _key(event, "text")
        known = self._at.get(key)
        if event.name == "model.failed":
            if known is not None:
                known["state"], known["sourceEventId"] = "failed", event.id
            self._card(event, "diagnostic-ref", event.text("detail"), diagnosticId=event.text("traceId") or event.id)
            return
        text = event.said("text", "delta", "message", "content")
        if event.name == "model.delta":
            if text:
                self._put(event, "text", text, role="assistant", state="streaming", key=key, append=True)
        elif text or known is not None:
            # A completion that says no text leaves what was streamed.
            self._put(event, "text", text or "", role="assistant", state="final", key=key, append=text is None)

    def _reasoning(self, event: UiFields) -> None:
        append = event.name == "reasoning.delta"
        text = event.text("detail") or ("" if append else event.title)
        state = "streaming" if append else "final"
        if text:
            self._put(event, "reasoning", text, state=state, key=_key(event, "reasoning"), append=append)

    def _card(self, event: UiFields, type_: str, text: str | None = None, **ids: str | None) -> None:
        state = "failed" if event.status in ("failed", "blocked") else "available"
        part = present(
            type=type_,
            partId=f"{type_}:{event.id}",
            messageId=event.said("messageId"),
            text=text,
            state=state,
            toolCallId=event.text("toolCallId") if type_ == "tool-preview" else None,
            **ids,
        )
        self._add(part, event)

    def _put(
        self,
        event: UiFields,
        type_: str,
        text: str,
        *,
        role: str | None = None,
        state: str = "final",
        key: str | None = None,
        append: bool = False,
    ) -> None:
        part_id = key or _key(event, type_)
        known = self._at.get(part_id)
        if known is None:
            message = event.said("messageId")
            self._add(present(type=type_, partId=part_id, messageId=message, role=role, text=text, state=state), event)
            return
        if append:
            self._pieces.setdefault(part_id, []).append(text)
        else:
            self._pieces.pop(part_id, None)
            known["text"] = text
        known["state"], known["sourceEventId"] = state, event.id
        if refs := event.all_refs:
            known["refs"] = list(dict.fromkeys((*known["refs"], *refs)))

    def _add(self, part: Part, event: UiFields) -> None:
        part |= {"sourceEventId": event.id, "refs": event.all_refs}
        if event.created_at is not None:
            part["createdAt"] = event.created_at
        self._parts.append(part)
        self._at[part["partId"]] = part


def is_diagnostic(event: UiFields) -> bool:
    if event.name in ("runtime.error", "snapshot.updated") or event.text("owner") == "diagnostics":
        return True
    # An action that somebody has to take is no fault.
    return event.status in ("failed", "blocked") and not event.is_of("action")


def _key(event: UiFields, type_: str) -> str:
    """Which part a piece belongs to; one that names no message stands alone."""
    message = event.said("messageId")
    if message is None:
        return f"{type_}:{event.id}"
    return ":".join([type_, event.text("turnId") or "", event.text("taskId") or "", message])
