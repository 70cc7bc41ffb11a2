"""Ollama's own chat interface: models on this machine or in this network."""

from typing import Any, Final

from app.core import json
from app.models.capabilities import ALWAYS, REASONING, STREAMING, STRUCTURED_OUTPUT, TOOLS
from app.models.completion import CompletionRequest, FinishReason, Media, Message, ToolCall, text_of
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
from app.models.media import Attachments
from app.models.toolcalls import given_id, parsed_call, with_upstream_ids
from app.models.transport import BodyConfig, Encoded, HttpProvider, Upstream


def provider(deps: ProviderDeps) -> Provider:
    return HttpProvider(Ollama(), deps)


class Ollama:
    default_url = "http://localhost:11434"
    stream_type = "application/x-ndjson"
    capabilities = ALWAYS | {STREAMING, TOOLS, STRUCTURED_OUTPUT, REASONING, "input.image"}

    def encode(self, call: ProviderCall, key: str | None) -> Encoded:
        attachments = Attachments()
        request = call.request
        body: dict[str, Any] = {
            "model": call.config.model,
            "messages": [_message(message, attachments) for message in with_upstream_ids(request.messages)],
            "stream": call.stream,
        }
        if request.tools and request.tool_choice != "none":
            body["tools"] = [
                {
                    "type": "function",
                    "function": {
                        "name": tool.name,
                        "description": tool.description,
                        "parameters": dict(tool.input_schema),
                    },
                }
                for tool in request.tools
            ]
        if options := _options(request, call.max_tokens):
            body["options"] = options
        if request.reasoning is not None and request.reasoning.effort is not None:
            # Most models know only on and off; a level where one is named that they all take.
            effort = request.reasoning.effort
            effort = "high" if effort in ("xhigh", "max") else effort
            body["think"] = effort if effort in ("low", "medium", "high") else effort != "none"
        if request.response_schema is not None:
            body["format"] = dict(request.response_schema)
        headers = {} if key is None else {"Authorization": f"Bearer {key}"}
        return Encoded("/api/chat", headers, attachments.body(body | call.config.extra_body))

    def decoder(self) -> "OllamaDecoder":
        return OllamaDecoder()

    def notes(self, call: ProviderCall) -> list[str]:
        request = call.request
        notes = []
        if request.reasoning is not None and request.reasoning.budget is not None:
            notes.append("reasoning.budget is not supported by ollama and was left out")
        if request.tool_choice not in (None, "auto", "none"):
            notes.append("tool_choice is not supported by ollama and was left out")
        if request.parallel_tool_calls is not None:
            notes.append("parallel_tool_calls is not supported by ollama and was left out")
        return notes


class OllamaDecoder:
    def __init__(self) -> None:
        self._calls = 0
        self._reason = "stop"
        self.done = False

    def text(self, document: Any) -> str | None:
        message = document.get("message")
        if not message or document.get("done") or "thinking" in message or "tool_calls" in message:
            return None
        text = message.get("content")
        return text if text and type(text) is str else None

    def payload(self, document: Any) -> list[StreamEvent]:
        if "error" in document:
            raise Upstream(500, str(document["error"]))
        message = document.get("message") or {}
        events: list[StreamEvent] = []
        if thinking := message.get("thinking"):
            events.append(ReasoningDelta(thinking))
        if text := message.get("content"):
            events.append(TextDelta(text))
        for call in message.get("tool_calls") or ():
            events += self._call(call["function"], call.get("id"))
        if document.get("done"):
            self.done = True
            self._reason = document.get("done_reason") or "stop"
            counts = document.get("prompt_eval_count") or 0, document.get("eval_count") or 0
            events.append(UsageReport(*counts))
        return events

    def whole(self, document: Any) -> list[StreamEvent]:
        document["message"]
        return self.payload(document)

    def finish(self) -> list[StreamEvent]:
        finish: FinishReason = "max_tokens" if self._reason == "length" else "stop"
        return [Completed("tool_use" if self._calls and finish == "stop" else finish)]

    def _call(self, function: dict[str, Any], call_id: str | None) -> list[StreamEvent]:
        arguments = function.get("arguments")
        call_id = given_id(call_id)
        if isinstance(arguments, str):
            made = parsed_call(call_id, function["name"], arguments)
        else:
            made = ToolCall(call_id, function["name"], arguments or {})
        text = made.raw_args or json.dumps(made.args).decode()
        index, self._calls = self._calls, self._calls + 1
        return [ToolCallDelta(index, made.id, made.name, text), made]


def _options(request: CompletionRequest, max_tokens: int | None) -> dict[str, Any]:
    wanted = {
        "num_predict": max_tokens,
        "temperature": request.temperature,
        "top_p": request.top_p,
        "seed": request.seed,
        "presence_penalty": request.presence_penalty,
        "frequency_penalty": request.frequency_penalty,
        "stop": list(request.stop) or None,
    }
    return {name: value for name, value in wanted.items() if value is not None}


def _message(message: Message, attachments: Attachments) -> dict[str, Any]:
    made: dict[str, Any] = {"role": message.role, "content": text_of(message.pieces)}
    images = [attachments.base64(part) for part in message.parts if isinstance(part, Media) and part.kind == "image"]
    if images:
        made["images"] = images
    if message.tool_calls:
        made["tool_calls"] = [
            {"id": call.id, "function": {"name": call.name, "arguments": call.args}} for call in message.tool_calls
        ]
    if message.role == "tool":
        made["tool_name"] = message.name or ""
    return made


KIND: Final = ProviderKind(name="ollama", make=provider, config=BodyConfig)
