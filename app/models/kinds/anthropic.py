"""Anthropic messages."""

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
    Text,
    Thought,
    ToolDef,
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
    UsageReport,
)
from app.models.media import Attachments, as_users_media
from app.models.toolcalls import PLAIN_ID, CallPieces, with_upstream_ids
from app.models.transport import Encoded, HttpProvider, Upstream, VersionedConfig

_FINISH: Final[dict[str, FinishReason]] = {
    "end_turn": "stop",
    "stop_sequence": "stop",
    "tool_use": "tool_use",
    "pause_turn": "stop",
    "max_tokens": "max_tokens",
    "model_context_window_exceeded": "max_tokens",
    "refusal": "safety",
}
_STATUS: Final = {
    "invalid_request_error": 400,
    "authentication_error": 401,
    "permission_error": 403,
    "not_found_error": 404,
    "rate_limit_error": 429,
    "timeout_error": 504,
    "overloaded_error": 529,
}
# The interface demands a limit; this one fits every model.
_DEFAULT_MAX_TOKENS: Final = 4_096
_MIN_THINKING: Final = 1_024
_NAME: Final = "anthropic"
_NO_THOUGHT: Final = (
    "reasoning was left out: too few tokens, a forced tool, or a tool call to go on from has no signed thought"
)


def provider(deps: ProviderDeps) -> Provider:
    return HttpProvider(Anthropic(), deps)


class Anthropic:
    default_url = "https://api.anthropic.com"
    stream_type = "text/event-stream"
    capabilities = ALWAYS | {
        STREAMING,
        TOOLS,
        TOOL_CHOICE,
        PARALLEL_TOOLS,
        STRUCTURED_OUTPUT,
        REASONING,
        "input.image",
        "input.file",
    }

    def encode(self, call: ProviderCall, key: str | None) -> Encoded:
        attachments = Attachments()
        request = call.request
        system = "\n\n".join(message.content for message in request.messages if message.role == "system")
        body: dict[str, Any] = {
            "model": call.config.model,
            "max_tokens": call.max_tokens or _DEFAULT_MAX_TOKENS,
        }
        if system:
            body["system"] = system
        body["messages"] = list(_messages(as_users_media(with_upstream_ids(request.messages, PLAIN_ID)), attachments))
        if call.stream:
            body["stream"] = True
        if request.tools:
            body["tools"] = [_tool(tool) for tool in request.tools]
            body |= _choice(request)
        body |= _thinking(call, body["max_tokens"])
        # Extended thinking takes no other temperature than its own.
        if request.temperature is not None and "thinking" not in body:
            body["temperature"] = min(request.temperature, 1.0)
        # Newer models take only one of the two.
        elif request.top_p is not None and "thinking" not in body:
            body["top_p"] = request.top_p
        if request.stop:
            body["stop_sequences"] = list(request.stop)
        if request.response_schema is not None:
            schema = {"type": "json_schema", "schema": dict(request.response_schema)}
            body.setdefault("output_config", {})["format"] = schema
        headers = {"anthropic-version": call.config.api_version or "2023-06-01"}
        if key is not None:
            headers["x-api-key"] = key
        return Encoded("/v1/messages", headers, attachments.body(body | call.config.extra_body))

    def decoder(self) -> "MessagesDecoder":
        return MessagesDecoder()

    def notes(self, call: ProviderCall) -> list[str]:
        request = call.request
        notes = [
            f"{name} is not supported by anthropic and was left out"
            for name in ("seed", "presence_penalty", "frequency_penalty")
            if getattr(request, name) is not None
        ]
        thinks = _thinking(call, call.max_tokens or _DEFAULT_MAX_TOKENS)
        if request.reasoning is not None and request.reasoning.effort != "none" and "thinking" not in thinks:
            notes.append(_NO_THOUGHT)
        if "thinking" in thinks and request.temperature is not None:
            notes.append("temperature was left out: anthropic has its own while reasoning")
        elif request.temperature is not None and request.top_p is not None:
            notes.append("top_p was left out: anthropic takes it or temperature")
        return notes


class MessagesDecoder:
    def __init__(self) -> None:
        self._calls = CallPieces()
        self._thoughts: dict[int, list[str]] = {}
        self._signatures: dict[int, str] = {}
        self._input = self._output = 0
        self._cached: int | None = None
        self._stop: str | None = None
        self.done = False

    def text(self, document: Any) -> str | None:
        if document["type"] != "content_block_delta":
            return None
        delta = document["delta"]
        if delta["type"] != "text_delta":
            return None
        text = delta["text"]
        return text if text and type(text) is str else None

    def payload(self, document: Any) -> list[StreamEvent]:
        kind = document["type"]
        if kind == "content_block_delta":
            return self._delta(document["index"], document["delta"])
        if kind == "content_block_start":
            return self._block(document["index"], document["content_block"])
        if kind == "message_start":
            return [self._usage(document["message"].get("usage") or {})]
        if kind == "message_delta":
            self._stop = document["delta"].get("stop_reason") or self._stop
            return [self._usage(document.get("usage") or {})]
        if kind == "message_stop":
            self.done = True
        elif kind == "error":
            error = document.get("error") or {}
            raise Upstream(_STATUS.get(error.get("type", ""), 500), error.get("message", ""))
        return []  # pings, block ends, and what a later version adds

    def whole(self, document: Any) -> list[StreamEvent]:
        self._stop = document.get("stop_reason")
        events: list[StreamEvent] = []
        for index, block in enumerate(document["content"]):
            events += self._block(index, block)
        return [*events, self._usage(document.get("usage") or {})]

    def finish(self) -> list[StreamEvent]:
        thoughts = tuple(
            Thought(_NAME, "".join(pieces), self._signatures.get(index))
            for index, pieces in sorted(self._thoughts.items())
        )
        return [*self._calls.complete(), Completed(_FINISH.get(self._stop or "", "stop"), thoughts=thoughts)]

    def _block(self, index: int, block: dict[str, Any]) -> list[StreamEvent]:
        match block["type"]:
            case "text":
                return [TextDelta(block["text"])] if block.get("text") else []
            case "tool_use":
                whole = json.dumps(block["input"]).decode() if block.get("input") else ""
                return [self._calls.add(index, block["id"], block["name"], whole)]
            case "thinking":
                self._thoughts[index] = []
                self._signatures[index] = block.get("signature", "")
                return self._thought(index, block.get("thinking", ""))
            case "redacted_thinking":
                # Encrypted: no text, but it must come back with the next request.
                self._thoughts[index] = []
                self._signatures[index] = "redacted:" + block["data"]
        return []

    def _delta(self, index: int, delta: dict[str, Any]) -> list[StreamEvent]:
        match delta["type"]:
            case "text_delta":
                return [TextDelta(delta["text"])]
            case "input_json_delta":
                return [self._calls.add(index, None, None, delta["partial_json"])]
            case "thinking_delta":
                return self._thought(index, delta["thinking"])
            case "signature_delta":
                self._signatures[index] = self._signatures.get(index, "") + delta["signature"]
        return []

    def _thought(self, index: int, text: str) -> list[StreamEvent]:
        if not text:
            return []
        self._thoughts.setdefault(index, []).append(text)
        return [ReasoningDelta(text)]

    def _usage(self, usage: dict[str, Any]) -> UsageReport:
        if usage.get("input_tokens") is not None:
            cached = usage.get("cache_read_input_tokens") or 0
            # Their input count leaves the cache out; ours is the whole prompt.
            self._input = usage["input_tokens"] + cached + (usage.get("cache_creation_input_tokens") or 0)
            self._cached = cached or None
        self._output = usage.get("output_tokens") or self._output
        return UsageReport(self._input, self._output, None, self._cached)


def _thinking(call: ProviderCall, max_tokens: int) -> dict[str, Any]:
    reasoning = call.request.reasoning
    if reasoning is None or reasoning.effort == "none":
        return {}
    made: dict[str, Any] = {}
    if reasoning.effort is not None:
        effort = "low" if reasoning.effort == "minimal" else reasoning.effort
        made["output_config"] = {"effort": effort}
    if not _unsigned_calls(call.request.messages) and not _is_forced(call.request):
        if reasoning.budget is None:
            made["thinking"] = {"type": "adaptive"}
        elif max_tokens > _MIN_THINKING:
            budget = max(_MIN_THINKING, min(reasoning.budget, max_tokens - 1))
            made["thinking"] = {"type": "enabled", "budget_tokens": budget}
    return made


def _is_forced(request: CompletionRequest) -> bool:
    """Whoever must call a tool may not think about it first: the interface refuses both together."""
    return bool(request.tools) and request.tool_choice not in (None, "auto", "none")


def _unsigned_calls(messages: tuple[Message, ...]) -> bool:
    """Whether calls that are being answered lack the thought they came from: then thinking is refused."""
    for message in reversed(messages):
        if message.role == "assistant":
            signed = any(thought.provider == _NAME for thought in message.thoughts)
            return bool(message.tool_calls) and not signed
        if message.role != "tool":
            return False
    return False


def _tool(tool: ToolDef) -> dict[str, Any]:
    return {"name": tool.name, "description": tool.description, "input_schema": dict(tool.input_schema)}


def _choice(request: CompletionRequest) -> dict[str, Any]:
    choice: dict[str, Any] = {}
    match request.tool_choice:
        case None:
            pass
        case "auto" | "none" as word:
            choice["type"] = word
        case "required":
            choice["type"] = "any"
        case name:
            choice |= {"type": "tool", "name": name}
    if request.parallel_tool_calls is False and choice.get("type") != "none":
        choice.setdefault("type", "auto")
        choice["disable_parallel_tool_use"] = True
    return {"tool_choice": choice} if choice else {}


def _messages(messages: Iterable[Message], attachments: Attachments) -> Iterator[dict[str, Any]]:
    """Their conversation alternates: neighbours of one role (several tool results) become one message."""
    role, blocks = "", list[dict[str, Any]]()
    for message in messages:
        if message.role == "system":
            continue
        theirs = "assistant" if message.role == "assistant" else "user"
        if theirs != role and blocks:
            yield {"role": role, "content": blocks}
            blocks = []
        role = theirs
        blocks += _blocks(message, attachments)
    if blocks:
        yield {"role": role, "content": blocks}


def _blocks(message: Message, attachments: Attachments) -> Iterator[dict[str, Any]]:
    if message.role == "tool":
        content = [_block(part, attachments) for part in message.pieces]
        yield {"type": "tool_result", "tool_use_id": message.tool_call_id, "content": content}
        return
    for thought in message.thoughts:
        if thought.provider == _NAME and thought.signature:
            yield _thought_block(thought, thought.signature)
    for part in message.pieces:
        yield _block(part, attachments)
    for call in message.tool_calls:
        yield {"type": "tool_use", "id": call.id, "name": call.name, "input": call.args}


def _thought_block(thought: Thought, signature: str) -> dict[str, Any]:
    if signature.startswith("redacted:"):
        return {"type": "redacted_thinking", "data": signature.removeprefix("redacted:")}
    return {"type": "thinking", "thinking": thought.text, "signature": signature}


def _block(part: Part, attachments: Attachments) -> dict[str, Any]:
    match part:
        case Text(text):
            return {"type": "text", "text": text}
        case JsonPart(value):
            return {"type": "text", "text": json.dumps(value).decode()}
        case Media(kind=kind, mime=mime):
            source = {"type": "base64", "media_type": mime, "data": attachments.base64(part)}
            return {"type": "image" if kind == "image" else "document", "source": source}


KIND: Final = ProviderKind(name="anthropic", make=provider, config=VersionedConfig)
