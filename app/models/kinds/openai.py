"""OpenAI chat completions, and every server that speaks the same: vLLM, LM Studio, gateways."""

from collections.abc import Iterable
from typing import Any, Final

from app.core import json
from app.core.base64_text import decode_base64
from app.models.capabilities import ALWAYS, PARALLEL_TOOLS, REASONING, STREAMING, STRUCTURED_OUTPUT, TOOL_CHOICE, TOOLS
from app.models.completion import (
    FinishReason,
    JsonPart,
    Media,
    Message,
    Part,
    Text,
    ToolDef,
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
    UsageReport,
)
from app.models.media import MAX_MEDIA, Attachments, as_users_media, received_sound, received_url
from app.models.toolcalls import CallPieces, with_upstream_ids
from app.models.transport import BodyConfig, Encoded, HttpProvider, Upstream, WireFault

_FINISH: Final[dict[str, FinishReason]] = {
    "stop": "stop",
    "tool_calls": "tool_use",
    "function_call": "tool_use",
    "length": "max_tokens",
    "content_filter": "safety",
}
_AUDIO_FORMATS: Final = {"audio/wav": "wav", "audio/x-wav": "wav", "audio/mpeg": "mp3", "audio/mp3": "mp3"}


def provider(deps: ProviderDeps) -> Provider:
    return HttpProvider(OpenAi(), deps)


class OpenAi:
    default_url = "https://api.openai.com/v1"
    stream_type = "text/event-stream"
    capabilities = ALWAYS | {
        STREAMING,
        TOOLS,
        TOOL_CHOICE,
        PARALLEL_TOOLS,
        STRUCTURED_OUTPUT,
        REASONING,
        "input.image",
    }

    def encode(self, call: ProviderCall, key: str | None) -> Encoded:
        attachments = Attachments()
        request = call.request
        body: dict[str, Any] = {
            "model": call.config.model,
            "messages": [
                _message(message, attachments) for message in as_users_media(with_upstream_ids(request.messages))
            ],
        }
        if call.stream:
            body |= {"stream": True, "stream_options": {"include_usage": True}}
        if request.tools:
            body |= {"tools": [_tool(tool) for tool in request.tools]} | _choice(request.tool_choice)
            if request.parallel_tool_calls is not None:
                body["parallel_tool_calls"] = request.parallel_tool_calls
        if call.max_tokens is not None:
            # Compatible servers know only the old word; reasoning models of the original only the new one.
            original = call.config.base_url is None or "api.openai.com" in call.config.base_url
            body["max_completion_tokens" if original else "max_tokens"] = call.max_tokens
        for name in ("temperature", "top_p", "seed", "presence_penalty", "frequency_penalty"):
            if (value := getattr(request, name)) is not None:
                body[name] = value
        if request.stop:
            body["stop"] = list(request.stop)
        if request.reasoning is not None and request.reasoning.effort is not None:
            body["reasoning_effort"] = request.reasoning.effort
        if request.response_schema is not None:
            schema = {"name": "answer", "schema": dict(request.response_schema)}
            body["response_format"] = {"type": "json_schema", "json_schema": schema}
        headers = {} if key is None else {"Authorization": f"Bearer {key}"}
        return Encoded("/chat/completions", headers, attachments.body(body | call.config.extra_body))

    def decoder(self) -> "OpenAiDecoder":
        return OpenAiDecoder()

    def notes(self, call: ProviderCall) -> list[str]:
        reasoning = call.request.reasoning
        if reasoning is not None and reasoning.budget is not None:
            return ["reasoning.budget is not supported by openai and was left out"]
        return []


class OpenAiDecoder:
    def __init__(self) -> None:
        self._calls = CallPieces()
        self._finish: str | None = None
        self.done = False
        self._images: list[Part] = []
        self._sound: list[bytes] = []

    def text(self, document: Any) -> str | None:
        choices = document.get("choices")
        if not choices or document.get("usage"):
            return None
        choice = choices[0]
        delta = choice.get("delta")
        if not delta or len(delta) != 1 or choice.get("finish_reason"):
            return None
        text = delta.get("content")
        return text if text and type(text) is str else None

    def payload(self, document: Any) -> list[StreamEvent]:
        events: list[StreamEvent] = []
        choices = document.get("choices")
        if choices:
            choice = choices[0]
            events = self._delta(choice.get("delta") or {})
            if finish := choice.get("finish_reason"):
                self._finish, self.done = finish, True
        elif "error" in document:
            raise _upstream(document["error"])
        if usage := document.get("usage"):
            events.append(_usage(usage))
        return events

    def whole(self, document: Any) -> list[StreamEvent]:
        if "error" in document and not document.get("choices"):
            raise _upstream(document["error"])
        choice = document["choices"][0]
        self._finish, self.done = choice.get("finish_reason") or "stop", True
        events = self._delta(choice["message"])
        if usage := document.get("usage"):
            events.append(_usage(usage))
        return events

    def finish(self) -> list[StreamEvent]:
        finish = _FINISH.get(self._finish or "", "stop")
        calls = self._calls.complete()
        # Some compatible servers say "stop" although they call.
        sound = [received_sound(b"".join(self._sound))] if self._sound else []
        return [*calls, Completed("tool_use" if calls and finish == "stop" else finish, (*self._images, *sound))]

    def _delta(self, delta: dict[str, Any]) -> list[StreamEvent]:
        events: list[StreamEvent] = []
        if text := delta.get("content"):
            if not isinstance(text, str):
                raise WireFault("the content of a delta is not text")
            events.append(TextDelta(text))
        if text := delta.get("refusal"):
            events.append(TextDelta(text))
        if text := delta.get("reasoning_content") or delta.get("reasoning"):
            events.append(ReasoningDelta(text))
        if "audio" in delta or "images" in delta:
            events += self._media(delta)
        for position, piece in enumerate(delta.get("tool_calls") or ()):
            function = piece.get("function") or {}
            index = piece.get("index", position)
            events.append(
                self._calls.add(index, piece.get("id"), function.get("name"), function.get("arguments") or "")
            )
        return events

    def _media(self, delta: dict[str, Any]) -> list[StreamEvent]:
        """Sound as the original sends it, in pieces, with what is said in it as text; pictures as gateways do."""
        events: list[StreamEvent] = []
        sound = delta.get("audio") or {}
        if data := sound.get("data"):
            self._sound.append(decode_base64(data))
        if text := sound.get("transcript"):
            events.append(TextDelta(text))
        for image in delta.get("images") or ():
            if len(self._images) >= MAX_MEDIA:
                raise WireFault("the answer has more media than any model makes")
            url = image["image_url"]["url"]
            made = received_url(url)
            if made is None:  # an address, which is the reader's to follow and not ours
                events.append(TextDelta(f"\n{url}\n"))
            else:
                self._images.append(made)
        return events


def _usage(usage: dict[str, Any]) -> UsageReport:
    return UsageReport(
        usage.get("prompt_tokens") or 0,
        usage.get("completion_tokens") or 0,
        (usage.get("completion_tokens_details") or {}).get("reasoning_tokens"),
        (usage.get("prompt_tokens_details") or {}).get("cached_tokens"),
    )


def _upstream(error: Any) -> Upstream:
    message = error.get("message", "") if isinstance(error, dict) else str(error)
    code = error.get("code") if isinstance(error, dict) else None
    return Upstream(code if isinstance(code, int) else 500, message)


def _tool(tool: ToolDef) -> dict[str, Any]:
    function = {"name": tool.name, "description": tool.description, "parameters": dict(tool.input_schema)}
    return {"type": "function", "function": function}


def _choice(choice: str | None) -> dict[str, Any]:
    if choice is None:
        return {}
    if choice in ("auto", "none", "required"):
        return {"tool_choice": choice}
    return {"tool_choice": {"type": "function", "function": {"name": choice}}}


def _message(message: Message, attachments: Attachments) -> dict[str, Any]:
    if message.role == "tool":
        content = text_of(message.pieces)
        return {"role": "tool", "tool_call_id": message.tool_call_id, "content": content}
    made: dict[str, Any] = {"role": message.role, "content": _content(message, attachments)}
    if message.tool_calls:
        made["tool_calls"] = [
            {
                "id": call.id,
                "type": "function",
                "function": {"name": call.name, "arguments": call.raw_args or json.dumps(call.args).decode()},
            }
            for call in message.tool_calls
        ]
        made["content"] = made["content"] or None
    return made


def _content(message: Message, attachments: Attachments) -> str | list[dict[str, Any]]:
    if not message.parts:
        return message.content
    if not any(isinstance(part, Media) for part in message.parts):
        return text_of(message.parts)
    return list(_parts(message.parts, attachments))


def _parts(parts: Iterable[Part], attachments: Attachments) -> Iterable[dict[str, Any]]:
    for part in parts:
        match part:
            case Text(text):
                yield {"type": "text", "text": text}
            case JsonPart(value):
                yield {"type": "text", "text": json.dumps(value).decode()}
            case Media(kind="image"):
                yield {"type": "image_url", "image_url": {"url": _data_url(part, attachments)}}
            case Media(kind="audio"):
                sound = {"data": attachments.base64(part), "format": _AUDIO_FORMATS.get(part.mime, "wav")}
                yield {"type": "input_audio", "input_audio": sound}
            case Media():
                file = {"filename": part.name or "file", "file_data": _data_url(part, attachments)}
                yield {"type": "file", "file": file}


def _data_url(media: Media, attachments: Attachments) -> str:
    return f"data:{media.mime};base64,{attachments.base64(media)}"


KIND: Final = ProviderKind(name="openai", make=provider, config=BodyConfig)
