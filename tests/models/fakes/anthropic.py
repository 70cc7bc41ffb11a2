"""Anthropic messages: named events, content blocks that start, grow and stop."""

from dataclasses import replace
from itertools import pairwise
from typing import Any

from app.core import json
from tests.models.fakes.server import Answer, Call

_FINISH = {"stop": "end_turn", "tool_use": "tool_use", "max_tokens": "max_tokens", "safety": "refusal"}


def _sse(document: dict[str, Any]) -> bytes:
    name: str = document["type"]
    return b"event: " + name.encode() + b"\ndata: " + json.dumps(document) + b"\n\n"


class AnthropicSpeaker:
    key_header = ("x-api-key", "sk-test-secret-key")
    stream_type = "text/event-stream"
    lead = 3

    def problem(self, path: str, query: str, body: Any) -> str | None:
        if path != "/v1/messages" or "max_tokens" not in body:
            return "max_tokens: field required"
        roles = [message["role"] for message in body["messages"]]
        if any(role not in ("user", "assistant") for role in roles):
            return "messages: unexpected role"
        if any(a == b for a, b in pairwise(roles)):
            return "messages: roles must alternate"
        if body.get("thinking") and body.get("temperature", 1) != 1:
            return "temperature may only be 1 when thinking is enabled"
        return None

    def wants_stream(self, path: str, body: Any) -> bool:
        return bool(body.get("stream"))

    def stream(self, answer: Answer) -> list[bytes]:
        start = self.whole(replace(answer, calls=())) | {"content": [], "stop_reason": None}
        start["usage"] = {"input_tokens": answer.usage[0], "output_tokens": 1}
        events = [_sse({"type": "message_start", "message": start}), _sse({"type": "ping"})]
        index = 0
        if answer.reasoning:
            pieces = [{"type": "thinking_delta", "thinking": text} for text in answer.reasoning]
            pieces.append({"type": "signature_delta", "signature": "signed"})
            events += _block(index, {"type": "thinking", "thinking": "", "signature": ""}, pieces)
            index += 1
        if answer.chunks:
            texts = [{"type": "text_delta", "text": text} for text in answer.chunks]
            events += _block(index, {"type": "text", "text": ""}, texts)
            index += 1
        for number, call in enumerate(answer.calls, index):
            events += _block(number, _tool(call, {}), _pieces(call.arguments, answer.argument_size))
        stop = {"stop_reason": _FINISH[answer.finish], "stop_sequence": None}
        usage = {"output_tokens": answer.usage[1]}
        events.append(_sse({"type": "message_delta", "delta": stop, "usage": usage}))
        return [*events, _sse({"type": "message_stop"})]

    def whole(self, answer: Answer) -> Any:
        content: list[dict[str, Any]] = []
        if answer.reasoning:
            thought = "".join(answer.reasoning)
            content.append({"type": "thinking", "thinking": thought, "signature": "signed"})
        if answer.chunks:
            content.append({"type": "text", "text": "".join(answer.chunks)})
        content += [_tool(call, json.loads(call.arguments)) for call in answer.calls]
        usage = {"input_tokens": answer.usage[0], "output_tokens": answer.usage[1]}
        return {
            "id": "msg_1",
            "type": "message",
            "role": "assistant",
            "model": "claude-test",
            "content": content,
            "stop_reason": _FINISH[answer.finish],
            "stop_sequence": None,
            "usage": usage,
        }

    def error_event(self) -> bytes:
        return _sse({"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}})

    def malformed(self) -> bytes:
        return b'event: content_block_delta\ndata: {"type": "content_block_delta", "index"\n\n'

    def error_body(self, status: int, message: str) -> Any:
        return {"type": "error", "error": {"type": "api_error", "message": message}}


def _tool(call: Call, arguments: Any) -> dict[str, Any]:
    return {"type": "tool_use", "id": call.id, "name": call.name, "input": arguments}


def _pieces(text: str, size: int) -> list[dict[str, Any]]:
    cuts = [text[start : start + size] for start in range(0, len(text), size)]
    return [{"type": "input_json_delta", "partial_json": piece} for piece in ["", *cuts]]


def _block(index: int, block: dict[str, Any], deltas: list[dict[str, Any]]) -> list[bytes]:
    return [
        _sse({"type": "content_block_start", "index": index, "content_block": block}),
        *(_sse({"type": "content_block_delta", "index": index, "delta": delta}) for delta in deltas),
        _sse({"type": "content_block_stop", "index": index}),
    ]
