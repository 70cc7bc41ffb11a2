"""One stretch of a run as AG-UI events: from its start or an answer, to its end or the next question.

A pure fold: the same events give the same frames. A stretch ends with RUN_FINISHED or RUN_ERROR; a run that pauses
goes on in another stretch, which its client calls another run. Leaves to others: ids of the client, and the wire.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from app.core import json
from app.core.json import JsonObject
from app.events.catalog import adapter, artifact, interrupt, model, request, tool
from app.events.envelope import Event
from app.protocols.dialects.agui_state import AguiState

PROTOCOL: Final = "1.0"
_APPROVAL: Final[JsonObject] = {
    "type": "object",
    "properties": {"decision": {"enum": ["approve", "deny"]}, "reason": {"type": "string"}},
    "required": ["decision"],
}
_REASONS: Final = {
    "approval": "tool_call",
    "question": "input_required",
    "external": "tool_call",
    "recovery": "holdfast:recovery",
    "paused": "holdfast:paused",
}
"""Why a run pauses, in the protocol's words; ours have a prefix."""


class AguiReading:
    """Feed it the run's events after the stretch's first position; `take` gives what they made."""

    def __init__(
        self, thread_id: str, run_id: str, client_tools: Iterable[str] = (), state: AguiState | None = None
    ) -> None:
        self._thread_id, self._run_id, self._state = thread_id, run_id, state
        self._client_tools = frozenset(client_tools)
        self._made: list[JsonObject] = []
        self._inner: set[str] = set()
        """Messages that are no part of the conversation."""
        self._text: str | None = None
        self._reasoning: str | None = None
        self._pending: set[str] = set()
        """Calls of the client's tools that have been made and not raised yet."""
        self._raised: list[str] = []
        self._client_calls: set[str] = set()
        self._usage: dict[str, list[int]] = {}
        self.ended = False

    def begin(self, parent_run_id: str | None = None) -> None:
        started: JsonObject = {"threadId": self._thread_id, "runId": self._run_id, "protocolVersion": PROTOCOL}
        self._add("RUN_STARTED", started | ({} if parent_run_id is None else {"parentRunId": parent_run_id}))

    def feed(self, event: Event) -> None:
        self.feed_state(event)
        if not self.ended and (handle := _HANDLERS.get(event.type)) is not None:
            handle(self, event, event.payload)

    def feed_state(self, event: Event) -> None:
        """For an event of another run of the thread, or of none: it is no part of the conversation."""
        if not self.ended and self._state is not None:
            self._made += self._state.feed(event)

    def take(self) -> bytes:
        made, self._made = self._made, []
        return b"".join(b"data: %b\n\n" % json.dumps(one) for one in made)

    def fail(self, code: str, message: str) -> None:
        """An end that is not in the log."""
        self._close_texts()
        self._close_steps()
        self._add("RUN_ERROR", {"message": message, "code": code})
        self.ended = True

    # -- what is said --------------------------------------------------------------------------------

    def _signal(self, _event: Event, payload: JsonObject) -> None:
        signal = payload["event"]
        message_id = signal.get("messageId", "")
        if message_id in self._inner or not signal.get("text"):
            return
        if signal["phase"] == adapter.OUTPUT_DELTA:
            self._say(message_id, signal["text"])
        elif signal["phase"] == adapter.REASONING_DELTA:
            self._think(message_id, signal["text"])

    def _say(self, message_id: str, text: str) -> None:
        if self._text != message_id:
            self._close_texts()
            self._text = message_id
            self._add("TEXT_MESSAGE_START", {"messageId": message_id, "role": "assistant"})
        self._add("TEXT_MESSAGE_CONTENT", {"messageId": message_id, "delta": text})

    def _think(self, message_id: str, text: str) -> None:
        thought = f"{message_id}-reasoning"
        if self._reasoning != thought:
            self._close_texts()
            self._reasoning = thought
            self._add("REASONING_START", {"messageId": thought})
            self._add("REASONING_MESSAGE_START", {"messageId": thought, "role": "reasoning"})
        self._add("REASONING_MESSAGE_CONTENT", {"messageId": thought, "delta": text})

    def _close_texts(self) -> None:
        if self._reasoning is not None:
            self._add("REASONING_MESSAGE_END", {"messageId": self._reasoning})
            self._add("REASONING_END", {"messageId": self._reasoning})
            self._reasoning = None
        if self._text is not None:
            self._add("TEXT_MESSAGE_END", {"messageId": self._text})
            self._text = None

    def _requested(self, _event: Event, payload: JsonObject) -> None:
        if payload.get("role") is not None:
            self._inner.add(payload["messageId"])

    def _answered(self, _event: Event, payload: JsonObject) -> None:
        self._count(payload["model"], payload["usage"])
        message_id = payload["messageId"]
        if message_id in self._inner or payload.get("role") is not None:
            return
        text = payload["text"] if isinstance(payload["text"], str) else ""
        if text and self._text != message_id:
            self._say(message_id, text)  # the provider did not stream
        self._close_texts()
        for call in payload["toolCalls"]:
            arguments = call.get("args")
            written = call.get("rawArgs") or json.dumps({} if arguments is None else arguments).decode()
            ids = {"toolCallId": call["id"]}
            self._add("TOOL_CALL_START", {**ids, "toolCallName": call["name"], "parentMessageId": message_id})
            self._add("TOOL_CALL_ARGS", {**ids, "delta": written})
            self._add("TOOL_CALL_END", ids)
            if call["name"] in self._client_tools:
                self._pending.add(call["id"])
                self._client_calls.add(call["id"])

    def _broke(self, _event: Event, payload: JsonObject) -> None:
        """What was said of a message that was cut off stays; another message takes its place."""
        if payload.get("usage"):
            self._count(payload.get("model") or "", payload["usage"])
        if payload["abandoned"]:
            self._close_texts()

    def _claimed(self, _event: Event, _payload: JsonObject) -> None:
        self._close_texts()

    # -- what is done --------------------------------------------------------------------------------

    def _resulted(self, event: Event, payload: JsonObject) -> None:
        call_id = payload["callId"]
        if payload["tool"] in self._client_tools:
            # The client has its own result; one that was refused before it got there is sent like any other.
            if call_id not in self._pending:
                return
            self._pending.discard(call_id)
        output = payload.get("output")
        if not payload["ok"]:
            error = payload.get("error") or {}
            output = f"{error.get('code', 'TOOL_FAILED')}: {error.get('message', '')}"
        content = output if isinstance(output, str) else json.dumps(output).decode()
        ids = {"messageId": event.id, "toolCallId": call_id}
        self._add("TOOL_CALL_RESULT", {**ids, "content": content, "role": "tool"})

    def _made_file(self, _event: Event, payload: JsonObject) -> None:
        self._add("CUSTOM", {"name": "holdfast.artifact", "value": payload["artifact"]})

    def _paused(self, _event: Event, payload: JsonObject) -> None:
        if payload["kind"] == "timer":
            return
        if payload["kind"] == "external":
            call_id = payload.get("callId") or payload["interruptId"]
            self._raised.append(call_id)
            self._pending.discard(call_id)
            if not self._pending:
                self._finish({"type": "success", "pendingToolCallIds": self._raised})
            return
        self._finish({"type": "interrupt", "interrupts": [interrupt_of(payload)]})

    def _count(self, name: str, usage: Mapping[str, Any]) -> None:
        counts = self._usage.setdefault(name, [0, 0])
        counts[0] += usage.get("inputTokens", 0)
        counts[1] += usage.get("outputTokens", 0)

    # -- how it ends ---------------------------------------------------------------------------------

    def _completed(self, _event: Event, payload: JsonObject) -> None:
        self._finish({"type": "success"}, payload["output"])

    def _cancelled(self, _event: Event, _payload: JsonObject) -> None:
        self._finish({"type": "cancelled"})

    def _failed(self, _event: Event, payload: JsonObject) -> None:
        self.fail(payload["error"]["code"], payload["error"]["message"])

    def _finish(self, outcome: JsonObject, result: Any = None) -> None:
        self._close_texts()
        self._close_steps()
        usage = [
            {"model": name, "inputTokens": given, "outputTokens": made} for name, (given, made) in self._usage.items()
        ]
        finished: JsonObject = {"threadId": self._thread_id, "runId": self._run_id, "outcome": outcome}
        finished |= {} if result is None else {"result": result}
        self._add("RUN_FINISHED", finished | ({"usage": usage} if usage else {}))
        self.ended = True

    def _close_steps(self) -> None:
        if self._state is not None:
            self._made += self._state.close()

    def _add(self, kind: str, fields: JsonObject) -> None:
        self._made.append({"type": kind, **fields})


def interrupt_of(payload: Mapping[str, Any]) -> JsonObject:
    """An interrupt for the client's user, with the shape of the answer."""
    kind = payload["kind"]
    shown: JsonObject = {
        "id": payload["interruptId"],
        "reason": _REASONS[kind],
        "message": payload["title"],
        "expiresAt": payload["expiresAt"],
        "metadata": {"holdfast": {"kind": kind, "tool": payload.get("tool"), "arguments": payload.get("arguments")}},
    }
    if payload.get("callId") is not None:
        shown["toolCallId"] = payload["callId"]
    if kind == "approval":
        shown["responseSchema"] = _APPROVAL
    elif kind == "question":
        names = [str(one.get("id") or n) for n, one in enumerate(payload.get("questions") or [], 1)]
        shown["responseSchema"] = {"type": "object", "properties": {name: {} for name in names}, "required": names}
        shown["metadata"]["holdfast"]["questions"] = payload.get("questions")
    return shown


def answer_of(kind: str, status: str, payload: Any) -> JsonObject | None:
    """The answer that a resume entry means; None when the user gave up a question, which ends the run."""
    given = payload if isinstance(payload, dict) else {}
    if kind == "external":
        return {"error": "The user cancelled the call."} if status == "cancelled" else {"output": payload}
    if status == "cancelled":
        return {"decision": "deny"} if kind == "approval" else None
    if kind == "approval":
        agreed = payload if isinstance(payload, bool) else given.get("approved")
        if isinstance(agreed, bool):
            reason = given.get("reason")
            return {"decision": "approve" if agreed else "deny"} | ({"reason": reason} if reason else {})
        return given
    if kind == "question":
        return given if given.keys() == {"answers"} else {"answers": given}
    if kind == "paused" and not given:
        return {"decision": "resume"}
    return given


_HANDLERS: Final[dict[str, Callable[[AguiReading, Event, JsonObject], None]]] = {
    adapter.AdapterEvent.type: AguiReading._signal,
    request.RequestStarted.type: AguiReading._claimed,
    request.RequestResumed.type: AguiReading._claimed,
    model.ModelRequested.type: AguiReading._requested,
    model.ModelCompleted.type: AguiReading._answered,
    model.ModelFailed.type: AguiReading._broke,
    tool.ToolResulted.type: AguiReading._resulted,
    artifact.ArtifactCreated.type: AguiReading._made_file,
    interrupt.InterruptRaised.type: AguiReading._paused,
    request.RequestCompleted.type: AguiReading._completed,
    request.RequestFailed.type: AguiReading._failed,
    request.RequestCancelled.type: AguiReading._cancelled,
}
