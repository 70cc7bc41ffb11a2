"""Typed builders of the payloads that every run has or every token makes.

Each gives the JSON that its model gives, without building the model. Only for values that are checked already: types
and the caller's own code stand for them. What comes from a client goes through `unchecked` of its model instead.
"""

from collections.abc import Sequence
from typing import Any

from app.core import json
from app.core.json import JsonObject
from app.events.catalog import adapter, execution, model, request, thread
from app.events.catalog.adapter import HANDOFF
from app.events.catalog.base import BuiltPayload
from app.events.ports import BlobDraft


class BuiltDelta(BuiltPayload):
    """A piece of a message. Of a tool call's arguments also which tool and call it belongs to."""

    __slots__ = ("closing",)
    type = adapter.AdapterEvent.type
    closing: bool
    """Whether the message's end is known already, so that both can be stored in one commit."""

    def __init__(
        self,
        adapter: str,
        phase: str,
        message_id: str,
        part: int,
        text: str,
        *,
        tool_id: str | None = None,
        call_id: str | None = None,
    ) -> None:
        signal = {"adapter": adapter, "phase": phase, "messageId": message_id, "part": part, "text": text}
        if tool_id is not None:
            signal["toolId"] = tool_id
        if call_id is not None:
            signal["callId"] = call_id
        self.document = {"event": signal}
        self.closing = False


class ScreenedDelta(BuiltDelta):
    """A piece of a message's text that was looked through for secrets together with what is around it."""

    __slots__ = ()
    screened = True


class BuiltHandoff(BuiltPayload):
    """What a backend is given: the model and the tools that it starts with."""

    __slots__ = ()
    type = adapter.AdapterEvent.type

    def __init__(self, adapter: str, *, model_ref: str | None, tools: list[str], subagents: list[str]) -> None:
        signal: JsonObject = {"adapter": adapter, "phase": HANDOFF, "tools": tools, "subagents": subagents}
        if model_ref is not None:
            signal["modelRef"] = model_ref
        self.document = {"event": signal}


class BuiltModelNegotiated(BuiltPayload):
    __slots__ = ()
    type = model.ModelNegotiated.type

    def __init__(
        self,
        *,
        required: Sequence[str],
        candidates: Sequence[tuple[str, Sequence[str]]],
        model: str | None,
        provider: str | None,
    ) -> None:
        """`candidates` are models, each with what it lacks."""
        self.document = {
            "required": list(required),
            "candidates": [{"model": name, "lacks": list(lacks)} for name, lacks in candidates],
        }
        if model is not None:
            self.document["model"] = model
        if provider is not None:
            self.document["provider"] = provider


class BuiltModelRequested(BuiltPayload):
    __slots__ = ()
    type = model.ModelRequested.type

    def __init__(
        self,
        *,
        message_id: str,
        model: str,
        provider: str,
        provider_model: str,
        attempt: int,
        request_hash: str,
        parameters: JsonObject,
        message_count: int,
        messages: list[JsonObject] | None = None,
        tools: list[str] | None = None,
        notes: list[str] | None = None,
    ) -> None:
        self.document = {
            "messageId": message_id,
            "model": model,
            "provider": provider,
            "providerModel": provider_model,
            "attempt": attempt,
            "requestHash": request_hash,
            "parameters": parameters,
            "messageCount": message_count,
        }
        if messages is not None:
            self.document["messages"] = messages
        if tools is not None:
            self.document["tools"] = tools
        if notes is not None:
            self.document["notes"] = notes


class BuiltModelCompleted(BuiltPayload):
    """`media` is the content that its parts refer to, to be stored in the same commit."""

    __slots__ = ("media",)
    type = model.ModelCompleted.type

    def __init__(
        self,
        *,
        message_id: str,
        model: str,
        provider: str,
        text: str,
        tool_calls: list[JsonObject],
        finish_reason: str,
        usage: JsonObject,
        request_hash: str,
        attempt: int,
        duration_ms: int,
        first_token_ms: int | None = None,
        parts: list[JsonObject] | None = None,
        thoughts: list[JsonObject] | None = None,
        reasoning: str | None = None,
        provider_request_id: str | None = None,
        media: tuple[BlobDraft, ...] = (),
    ) -> None:
        self.media = media
        document = self.document = {
            "messageId": message_id,
            "model": model,
            "provider": provider,
            "text": text,
            "toolCalls": tool_calls,
            "finishReason": finish_reason,
            "usage": usage,
            "requestHash": request_hash,
            "attempt": attempt,
            "durationMs": duration_ms,
        }
        if first_token_ms is not None:
            document["firstTokenMs"] = first_token_ms
        if parts is not None:
            document["parts"] = parts
        if thoughts is not None:
            document["thoughts"] = thoughts
        if reasoning is not None:
            document["reasoning"] = reasoning
        if provider_request_id is not None:
            document["providerRequestId"] = provider_request_id


class BuiltRequestStarted(BuiltPayload):
    __slots__ = ()
    type = request.RequestStarted.type

    def __init__(self, *, executor: str, epoch: int) -> None:
        self.document = {"executor": executor, "epoch": epoch}


class BuiltRequestCompleted(BuiltPayload):
    """Of a run that returns a text."""

    __slots__ = ()
    type = request.RequestCompleted.type

    def __init__(self, *, output: str, message_id: str | None) -> None:
        self.document = {"output": output}
        if message_id is not None:
            self.document["messageId"] = message_id


class BuiltThreadCreated(BuiltPayload):
    """Of a thread that a run creates, without a title, metadata, labels and history."""

    __slots__ = ()
    type = thread.ThreadCreated.type
    of_thread = thread.ThreadCreated.of_thread

    def __init__(self) -> None:
        document: dict[str, Any] = {"metadata": {}, "labels": {}, "owner": "user"}
        self.document = document


class BuiltStepCompleted(BuiltPayload):
    """A step that is neither a model nor a tool call. Its result often comes from code of others, who may change it
    afterwards: the event has a copy."""

    __slots__ = ()
    type = execution.StepCompleted.type

    def __init__(self, *, step: str, key: str, result: Any) -> None:
        self.document = {"step": step, "key": key}
        if result is None:
            return
        try:
            self.document["result"] = json.loads(json.canonical(result))
        except json.JsonError:
            self.document["result"] = result  # the recorder refuses it, and says why
