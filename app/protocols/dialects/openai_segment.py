"""One run's stored events read as a segment of an OpenAI-style answer: what the chat and the responses dialect share.

A run that pauses for the client's own tools gives one answer per segment. A reading walks the events of the run from
its first one on, and calls the hooks of its dialect for those of the wanted segment. It has no clock and no state but
the events, so the same events always give the same frames. Leaves to others: where events come from, and the wire.
"""

from typing import Any, Final

from app.core import json
from app.core.value import mutable, value
from app.events.catalog import adapter, execution, interrupt, model, request, tool
from app.events.envelope import Event

Payload = dict[str, Any]

_SIGNAL: Final = adapter.AdapterEvent.type
_TEXT: Final = adapter.OUTPUT_DELTA
WORKFLOW: Final = "workflow:"
"""Before the name of a workflow, where a client names a model."""
FINISH: Final = {"stop": "stop", "tool_use": "stop", "max_tokens": "length", "safety": "content_filter"}
"""Our reasons in the words of chat completions. A server-side tool call is no end that a client could see."""


@value(frozen=True, slots=True)
class ClientCall:
    """A call of a tool that the client has to run."""

    id: str
    name: str
    arguments: str


@mutable(slots=True)
class TokenCounts:
    """What the models of a segment used."""

    given: int = 0
    made: int = 0
    cached: int = 0
    reasoning: int = 0

    def add(self, usage: Payload) -> None:
        self.given += usage.get("inputTokens", 0)
        self.made += usage.get("outputTokens", 0)
        self.cached += usage.get("cachedTokens", 0)
        self.reasoning += usage.get("reasoningTokens", 0)


class SegmentReading:
    """Feed it the run's events in order, from the first; hooks are called for the wanted segment only."""

    def __init__(self, segment: int = 0) -> None:
        self._segment = segment
        self._at = 0
        self._here = segment == 0
        """Whether the events are those of the wanted segment."""
        self._begun = False
        self._inner: set[str] = set()
        """Messages of a backend's inner voices, which are no part of the answer."""
        self._unsettled: set[str] = set()
        self._places: dict[str, int] = {}
        """Of the client's calls in the model's answer: they are made in parallel, and shown in that order."""
        self._one_by_one = False
        """Whether calls of one message pause the run one after the other."""
        self._raised: list[ClientCall] = []
        self._begun_messages: set[str] = set()
        """Messages of which the client got a part."""
        self._unfinished: str | None = None
        """The message whose pieces come in and whose end has not come."""
        self._client_tools: frozenset[str] = frozenset()
        self.queued: Payload = {}
        self.run_id = ""
        self.thread_id = ""
        self.tokens = TokenCounts()
        self.finish = "stop"
        self.ended = False
        self.paused_at: dict[str, int] = {}
        """The client's calls, each with the segment that it ended."""
        self.waiting_for_person: set[str] = set()
        """Open interrupts that a person has to answer."""
        self._family: set[str] = set()
        """The run and its subagents."""

    def feed(self, event: Event) -> None:
        if self.ended:
            return
        if event.type == _SIGNAL:
            if self._here:
                signal = event.payload["event"]
                if signal["phase"] == _TEXT:
                    message_id = signal.get("messageId", "")
                    if message_id not in self._inner:
                        self._begun_messages.add(message_id)
                        self._unfinished = message_id
                        self.on_text(message_id, signal["text"])
            return
        handle = _HANDLERS.get(event.type)
        if handle is not None:
            handle(self, event, event.payload)

    def feed_sibling(self, event: Event) -> None:
        """An event of another run of the thread. What subagents use is part of the answer's usage, and a person whom
        one of them awaits is awaited by the run; what they say is not part of the answer."""
        if self.ended:
            return
        if event.type == request.RequestQueued.type and event.payload.get("parentRunId") in self._family:
            self._family.add(event.run_id or "")
        handle = _SIBLING_HANDLERS.get(event.type)
        if handle is not None and event.run_id in self._family:
            handle(self, event, event.payload)

    # -- hooks ---------------------------------------------------------------------------------------

    def on_begin(self, event: Event) -> None: ...

    def on_started(self) -> None: ...

    def on_text(self, message_id: str, text: str) -> None: ...

    def on_message(self, message_id: str, text: str, final: bool) -> None:
        """A message is complete; `final` says that no tool call of it follows."""

    def on_abandoned(self, message_id: str) -> None: ...

    def on_calls(self, calls: list[ClientCall]) -> None: ...

    def on_parameters(self, wanted: Payload) -> None:
        """The client wants something else of the model from the segment on that begins now, whichever it is."""

    def on_media(self, parts: list[Payload]) -> None:
        """Pictures, sounds and files of the answer, each with its `data` unless it is too large. `on_completed`
        follows."""

    def on_completed(self, output: str, message_id: str | None) -> None: ...

    def on_failed(self, error: Payload) -> None: ...

    def on_cancelled(self) -> None: ...

    # -- the run -------------------------------------------------------------------------------------

    @property
    def begun(self) -> bool:
        """Whether the wanted segment exists yet."""
        return self.ended or (self._here and self._begun)

    @property
    def segments_ended(self) -> int:
        return self._at

    def _queued(self, event: Event, payload: Payload) -> None:
        self.queued, self.run_id, self.thread_id = payload, event.run_id or "", event.thread_id
        self._family.add(self.run_id)
        if tools := payload.get("clientTools"):
            self._client_tools = frozenset(named["name"] for named in tools)
        self._begin(event)

    def _begin(self, event: Event) -> None:
        if self._here and not self._begun:
            self._begun = True
            self.on_begin(event)

    def _claimed(self, event: Event, payload: Payload) -> None:
        if self._unfinished is not None and payload.get("reason") == "recovery":
            # The process that streamed it is gone; the message comes again, under another id.
            self._abandon(self._unfinished)
        first = self._here and (not self._begun or event.type == request.RequestStarted.type)
        if not self._begun:
            self._begin(event)
        if first:
            self.on_started()

    def _requested(self, _event: Event, payload: Payload) -> None:
        self._one_by_one = payload["parameters"].get("parallelToolCalls") is False
        if payload.get("role") is not None:
            self._inner.add(payload["messageId"])

    def _answered(self, _event: Event, payload: Payload) -> None:
        calls = payload["toolCalls"]
        named = self._client_tools if calls else ()
        self._places = {call["id"]: n for n, call in enumerate(calls) if call["name"] in named} if named else {}
        self._unsettled = set(self._places)
        if not self._here:
            return
        self.tokens.add(payload["usage"])
        message_id = payload["messageId"]
        self._unfinished = None
        if message_id in self._inner or payload.get("role") is not None:
            return
        self.finish = FINISH[payload["finishReason"]]
        text = payload["text"] if isinstance(payload["text"], str) else ""
        if text and message_id not in self._begun_messages:
            # The provider did not stream.
            self._begun_messages.add(message_id)
            self.on_text(message_id, text)
        if message_id in self._begun_messages:
            self.on_message(message_id, text, final=not calls)

    def _broke(self, _event: Event, payload: Payload) -> None:
        if self._here and payload.get("usage"):
            self.tokens.add(payload["usage"])
        if self._here and payload["abandoned"] and payload["messageId"] in self._begun_messages:
            self._abandon(payload["messageId"])

    def _abandon(self, message_id: str) -> None:
        self._begun_messages.discard(message_id)
        self._unfinished = None
        self.on_abandoned(message_id)

    def _sibling_used(self, _event: Event, payload: Payload) -> None:
        if self._here and payload.get("usage"):
            self.tokens.add(payload["usage"])

    def _sibling_paused(self, _event: Event, payload: Payload) -> None:
        if payload["kind"] not in ("external", "timer"):
            self.waiting_for_person.add(payload["interruptId"])

    def _paused(self, event: Event, payload: Payload) -> None:
        if payload["kind"] == "timer":
            return
        if payload["kind"] != "external":
            self.waiting_for_person.add(payload["interruptId"])
            return
        self._begin(event)
        call_id = payload.get("callId") or payload["interruptId"]
        self._raised.append(ClientCall(call_id, payload.get("tool") or "", _arguments(payload.get("arguments"))))
        self._settle(call_id)

    def _resulted(self, _event: Event, payload: Payload) -> None:
        # A call of the client's tool that was refused before it reached the client.
        if payload["callId"] in self._unsettled:
            self._settle(payload["callId"])

    def _settle(self, call_id: str) -> None:
        """The segment ends when every call of the message that is the client's has been raised or refused."""
        self._unsettled.discard(call_id)
        if not self._raised or (self._unsettled and not self._one_by_one):
            return
        calls = sorted(self._raised, key=lambda call: self._places.get(call.id, len(self._places)))
        self._raised = []
        self.paused_at |= {call.id: self._at for call in calls}
        if self._here:
            self.ended = True
            self.on_calls(calls)
        self._at += 1
        self._here = self._at == self._segment
        self._begun = False

    def _commanded(self, _event: Event, payload: Payload) -> None:
        if payload["command"] == "set_parameters":
            self.on_parameters(payload["arguments"])

    def _resolved(self, _event: Event, payload: Payload) -> None:
        self.waiting_for_person.discard(payload["interruptId"])

    def _completed(self, event: Event, payload: Payload) -> None:
        if not self._here:
            return
        if not self._begun:
            self._begin(event)
        self.ended = True
        output = payload["output"]
        if (parts := payload.get("parts")) and (media := [part for part in parts if "blob" in part]):
            self.on_media(media)
        self.on_completed(output if isinstance(output, str) else json.dumps(output).decode(), payload.get("messageId"))

    def _failed(self, event: Event, payload: Payload) -> None:
        if self._here:
            self._begin(event)
            self.ended = True
            self.on_failed(payload["error"])

    def _cancelled(self, event: Event, _begun_messages: Payload) -> None:
        if self._here:
            self._begin(event)
            self.ended = True
            self.on_cancelled()


_HANDLERS: Final = {
    request.RequestQueued.type: SegmentReading._queued,
    request.RequestStarted.type: SegmentReading._claimed,
    request.RequestResumed.type: SegmentReading._claimed,
    model.ModelRequested.type: SegmentReading._requested,
    model.ModelCompleted.type: SegmentReading._answered,
    model.ModelFailed.type: SegmentReading._broke,
    interrupt.InterruptRaised.type: SegmentReading._paused,
    interrupt.InterruptResolved.type: SegmentReading._resolved,
    interrupt.InterruptExpired.type: SegmentReading._resolved,
    tool.ToolResulted.type: SegmentReading._resulted,
    execution.CommandInjected.type: SegmentReading._commanded,
    request.RequestCompleted.type: SegmentReading._completed,
    request.RequestFailed.type: SegmentReading._failed,
    request.RequestCancelled.type: SegmentReading._cancelled,
}
_SIBLING_HANDLERS: Final = {
    model.ModelCompleted.type: SegmentReading._sibling_used,
    model.ModelFailed.type: SegmentReading._sibling_used,
    interrupt.InterruptRaised.type: SegmentReading._sibling_paused,
    interrupt.InterruptResolved.type: SegmentReading._resolved,
    interrupt.InterruptExpired.type: SegmentReading._resolved,
}
READ: Final = frozenset({_SIGNAL, *_HANDLERS, *_SIBLING_HANDLERS})
"""The types of events that a reading looks at."""


def _arguments(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps({} if value is None else value).decode()


def model_name(queued: Payload) -> str:
    """What a client names to get this run: an agent, a tool, or a workflow with its prefix."""
    if queued.get("workflow"):
        return f"{WORKFLOW}{queued['workflow']}"
    return queued.get("agent") or queued.get("tool") or ""


def chat_id(run_id: str, segment: int) -> str:
    return f"chatcmpl-{run_id}-{segment}"


def response_id(run_id: str, segment: int) -> str:
    return f"resp_{run_id}_{segment}"


def parse_response_id(text: str) -> tuple[str, int] | None:
    """The run and the segment that a response's id names; None for an id that is not ours."""
    body, _, number = text.removeprefix("resp_").rpartition("_")
    if not text.startswith("resp_") or not body or not number.isascii() or not number.isdigit() or len(number) > 6:
        return None
    return body, int(number)
