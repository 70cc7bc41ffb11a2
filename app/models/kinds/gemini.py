"""Gemini generateContent and streamGenerateContent."""

from collections.abc import Iterable, Iterator
from typing import Any, Final

from app.core import json
from app.models.capabilities import ALWAYS, PARALLEL_TOOLS, REASONING, STREAMING, STRUCTURED_OUTPUT, TOOL_CHOICE, TOOLS
from app.models.completion import (
    CompletionRequest,
    FinishReason,
    JsonPart,
    Media,
    Message,
    Part,
    ReasoningLevel,
    Text,
    Thought,
    ToolCall,
    text_of,
)
from app.models.contract import (
    Completed,
    Provider,
    ProviderCall,
    ProviderDeps,
    ProviderKind,
    ReasoningDelta,
    StreamEvent,
    TextDelta,
    ToolCallDelta,
    UsageReport,
)
from app.models.media import MAX_MEDIA, Attachments, received
from app.models.toolcalls import given_id, with_upstream_ids
from app.models.transport import Encoded, HttpProvider, Upstream, VersionedConfig, WireFault

_FINISH: Final[dict[str, FinishReason]] = {
    "STOP": "stop",
    "MAX_TOKENS": "max_tokens",
    "SAFETY": "safety",
    "RECITATION": "safety",
    "BLOCKLIST": "safety",
    "PROHIBITED_CONTENT": "safety",
    "SPII": "safety",
    "IMAGE_SAFETY": "safety",
}
_BROKEN_CALLS: Final = frozenset({"MALFORMED_FUNCTION_CALL", "UNEXPECTED_TOOL_CALL"})
_NAME: Final = "gemini"
_LEVELS: Final = {
    "none": "minimal",
    "minimal": "minimal",
    "low": "low",
    "medium": "medium",
    "high": "high",
    "xhigh": "high",
    "max": "high",
}


def provider(deps: ProviderDeps) -> Provider:
    return HttpProvider(Gemini(), deps)


class Gemini:
    default_url = "https://generativelanguage.googleapis.com"
    stream_type = "text/event-stream"
    capabilities = ALWAYS | {
        STREAMING,
        TOOLS,
        TOOL_CHOICE,
        PARALLEL_TOOLS,
        STRUCTURED_OUTPUT,
        REASONING,
        "input.file",
        "input.image",
        "input.audio",
        "input.video",
    }

    def encode(self, call: ProviderCall, key: str | None) -> Encoded:
        attachments = Attachments()
        request = call.request
        system = [message.content for message in request.messages if message.role == "system"]
        body: dict[str, Any] = {"contents": list(_contents(with_upstream_ids(request.messages), attachments))}
        if system:
            body["systemInstruction"] = {"parts": [{"text": "\n\n".join(system)}]}
        if request.tools:
            declared = [
                {"name": t.name, "description": t.description, "parametersJsonSchema": dict(t.input_schema)}
                for t in request.tools
            ]
            body["tools"] = [{"functionDeclarations": declared}]
            body |= _choice(request.tool_choice)
        if generation := _generation(request, call.max_tokens):
            body["generationConfig"] = generation
        method = "streamGenerateContent?alt=sse" if call.stream else "generateContent"
        version = call.config.api_version or "v1beta"
        # In a header and not in the address, where proxies would log it.
        headers = {} if key is None else {"x-goog-api-key": key}
        path = f"/{version}/models/{call.config.model.removeprefix('models/')}:{method}"
        return Encoded(path, headers, attachments.body(body | call.config.extra_body))

    def decoder(self) -> "ContentDecoder":
        return ContentDecoder()

    def notes(self, call: ProviderCall) -> list[str]:
        if call.request.parallel_tool_calls is False:
            return ["parallel_tool_calls is not supported by gemini and was left out"]
        return []


class ContentDecoder:
    def __init__(self) -> None:
        self._calls = 0
        self._parts: list[Part] = []
        self._thoughts: list[Thought] = []
        self._finish: str | None = None

    @property
    def done(self) -> bool:
        return self._finish is not None

    def text(self, document: Any) -> str | None:
        return None  # every chunk has its usage with it

    def payload(self, document: Any) -> list[StreamEvent]:
        if "error" in document:
            error = document["error"]
            raise Upstream(error.get("code") or 500, error.get("message", ""))
        events: list[StreamEvent] = []
        if candidates := document.get("candidates"):
            candidate = candidates[0]
            for part in (candidate.get("content") or {}).get("parts") or ():
                events += self._part(part)
            self._finish = candidate.get("finishReason") or self._finish
        elif (document.get("promptFeedback") or {}).get("blockReason"):
            self._finish = "SAFETY"
        if usage := document.get("usageMetadata"):
            thoughts = usage.get("thoughtsTokenCount")
            output = (usage.get("candidatesTokenCount") or 0) + (thoughts or 0)
            cached = usage.get("cachedContentTokenCount")
            events.append(UsageReport(usage.get("promptTokenCount") or 0, output, thoughts, cached))
        return events

    def whole(self, document: Any) -> list[StreamEvent]:
        events = self.payload(document)
        if self._finish is None:
            raise KeyError("finishReason")
        return events

    def finish(self) -> list[StreamEvent]:
        if self._finish in _BROKEN_CALLS:
            raise Upstream(502, "the model wrote a function call that cannot be read")
        finish = _FINISH.get(self._finish or "", "stop")
        if self._calls and finish == "stop":
            finish = "tool_use"
        return [Completed(finish, tuple(self._parts), tuple(self._thoughts))]

    def _part(self, part: dict[str, Any]) -> list[StreamEvent]:
        signature = part.get("thoughtSignature")
        if "functionCall" in part:
            return self._call(part["functionCall"], signature)
        if signature is not None:
            self._thoughts.append(Thought(_NAME, "", signature))
        if "inlineData" in part:
            if len(self._parts) >= MAX_MEDIA:
                raise WireFault("the answer has more media than any model makes")
            self._parts.append(received(part["inlineData"].get("mimeType"), part["inlineData"]["data"]))
            return []
        text = part.get("text")
        if not text:
            return []
        return [ReasoningDelta(text) if part.get("thought") else TextDelta(text)]

    def _call(self, call: dict[str, Any], signature: str | None) -> list[StreamEvent]:
        made = ToolCall(given_id(call.get("id")), call["name"], call.get("args") or {})
        if signature is not None:
            self._thoughts.append(Thought(_NAME, "", signature, made.id))
        index, self._calls = self._calls, self._calls + 1
        return [ToolCallDelta(index, made.id, made.name, json.dumps(made.args).decode()), made]


def _generation(request: CompletionRequest, max_tokens: int | None) -> dict[str, Any]:
    options = {
        "maxOutputTokens": max_tokens,
        "temperature": request.temperature,
        "topP": request.top_p,
        "seed": request.seed,
        "presencePenalty": request.presence_penalty,
        "frequencyPenalty": request.frequency_penalty,
        "stopSequences": list(request.stop) or None,
        "thinkingConfig": _thinking(request.reasoning),
    }
    made: dict[str, Any] = {name: value for name, value in options.items() if value is not None}
    if request.response_schema is not None:
        made |= {"responseMimeType": "application/json", "responseJsonSchema": dict(request.response_schema)}
    return made


def _thinking(reasoning: ReasoningLevel | None) -> dict[str, Any] | None:
    if reasoning is None:
        return None
    # The interface takes one of the two; a number is the more exact wish.
    if reasoning.budget is not None:
        return {"thinkingBudget": reasoning.budget, "includeThoughts": reasoning.budget != 0}
    if reasoning.effort is None:
        return {"includeThoughts": True}
    return {"thinkingLevel": _LEVELS[reasoning.effort], "includeThoughts": reasoning.effort != "none"}


def _choice(choice: str | None) -> dict[str, Any]:
    if choice is None:
        return {}
    modes = {"auto": "AUTO", "none": "NONE", "required": "ANY"}
    config = {"mode": modes[choice]} if choice in modes else {"mode": "ANY", "allowedFunctionNames": [choice]}
    return {"toolConfig": {"functionCallingConfig": config}}


def _contents(messages: Iterable[Message], attachments: Attachments) -> Iterator[dict[str, Any]]:
    """Neighbours of one role become one content: all results of a turn must arrive together."""
    role, parts = "", list[dict[str, Any]]()
    for message in messages:
        if message.role == "system":
            continue
        theirs = "model" if message.role == "assistant" else "user"
        if theirs != role and parts:
            yield {"role": role, "parts": parts}
            parts = []
        role = theirs
        parts += _parts(message, attachments)
    if parts:
        yield {"role": role, "parts": parts}


def _parts(message: Message, attachments: Attachments) -> Iterator[dict[str, Any]]:
    if message.role == "tool":
        answer = {"name": message.name or "", "response": {"result": _result(message)}}
        yield {"functionResponse": answer | ({"id": message.tool_call_id} if message.tool_call_id else {})}
        return
    signatures = {t.call_id: t.signature for t in message.thoughts if t.provider == _NAME and t.signature}
    for part in message.pieces:
        match part:
            case Text(text):
                yield {"text": text}
            case JsonPart(value):
                yield {"text": json.dumps(value).decode()}
            case Media(mime=mime):
                yield {"inlineData": {"mimeType": mime, "data": attachments.base64(part)}}
    for call in message.tool_calls:
        made: dict[str, Any] = {"functionCall": {"id": call.id, "name": call.name, "args": call.args}}
        if call.id in signatures:
            made["thoughtSignature"] = signatures[call.id]
        yield made
    if None in signatures:
        yield {"text": "", "thoughtSignature": signatures[None]}


def _result(message: Message) -> Any:
    values = [part.value for part in message.parts if isinstance(part, JsonPart)]
    return values[0] if len(values) == 1 and len(message.parts) == 1 else text_of(message.pieces)


KIND: Final = ProviderKind(name="gemini", make=provider, config=VersionedConfig)
