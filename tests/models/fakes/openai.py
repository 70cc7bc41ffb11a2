"""OpenAI chat completions as the original server speaks it; the `openai` package is the cross-check."""

from typing import Any

from app.core import json
from tests.models.fakes.server import Answer, Call

_FINISH = {"stop": "stop", "tool_use": "tool_calls", "max_tokens": "length", "safety": "content_filter"}


def _sse(document: Any) -> bytes:
    return b"data: " + json.dumps(document) + b"\n\n"


class OpenAiSpeaker:
    key_header = ("authorization", "Bearer sk-test-secret-key")
    stream_type = "text/event-stream"
    lead = 1

    def problem(self, path: str, query: str, body: Any) -> str | None:
        if path != "/v1/chat/completions":
            return "unknown path"
        roles = {"system", "developer", "user", "assistant", "tool"}
        if not body.get("model") or not all(m["role"] in roles for m in body["messages"]):
            return "model and messages are required"
        open_calls = set[str]()
        for message in body["messages"]:
            if message["role"] == "tool":
                if message["tool_call_id"] not in open_calls:
                    return "a tool message must follow its call"
            else:
                open_calls = {call["id"] for call in message.get("tool_calls") or ()}
        return None

    def wants_stream(self, path: str, body: Any) -> bool:
        return bool(body.get("stream"))

    def _chunk(self, delta: Any, finish: str | None = None) -> bytes:
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
        return _sse(self._base("chat.completion.chunk") | {"choices": [choice], "usage": None})

    def _base(self, kind: str) -> dict[str, Any]:
        return {"id": "chatcmpl-1", "object": kind, "created": 1_700_000_000, "model": "gpt-test"}

    def _usage(self, answer: Answer) -> dict[str, Any]:
        given, made = answer.usage
        return {"prompt_tokens": given, "completion_tokens": made, "total_tokens": given + made}

    def stream(self, answer: Answer) -> list[bytes]:
        events = [self._chunk({"role": "assistant", "content": "", "refusal": None})]
        events += [self._chunk({"reasoning_content": text}) for text in answer.reasoning]
        events += [self._chunk({"content": text}) for text in answer.chunks]
        for index, call in enumerate(answer.calls):
            events += self._call(index, call, answer.argument_size)
        events.append(self._chunk({}, _FINISH[answer.finish]))
        events.append(_sse(self._base("chat.completion.chunk") | {"choices": [], "usage": self._usage(answer)}))
        return [*events, b"data: [DONE]\n\n"]

    def _call(self, index: int, call: Call, size: int) -> list[bytes]:
        function = {"name": call.name, "arguments": ""}
        events = [self._chunk({"tool_calls": [_indexed(index, id=call.id, type="function", function=function)]})]
        for start in range(0, len(call.arguments), size):
            piece = {"arguments": call.arguments[start : start + size]}
            events.append(self._chunk({"tool_calls": [_indexed(index, function=piece)]}))
        return events

    def whole(self, answer: Answer) -> Any:
        message: dict[str, Any] = {
            "role": "assistant",
            "content": "".join(answer.chunks) or None,
            "refusal": None,
        }
        if answer.reasoning:
            message["reasoning_content"] = "".join(answer.reasoning)
        if answer.calls:
            message["tool_calls"] = [
                {"id": c.id, "type": "function", "function": {"name": c.name, "arguments": c.arguments}}
                for c in answer.calls
            ]
        choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": _FINISH[answer.finish]}
        return self._base("chat.completion") | {"choices": [choice], "usage": self._usage(answer)}

    def error_event(self) -> bytes:
        return _sse({"error": {"message": "the server had an error", "type": "server_error", "code": None}})

    def malformed(self) -> bytes:
        return b'data: {"id": "chatcmpl-1", "choices": [{"del\n\n'

    def error_body(self, status: int, message: str) -> Any:
        return {"error": {"message": message, "type": "invalid_request_error", "param": None, "code": None}}


def _indexed(index: int, **rest: Any) -> dict[str, Any]:
    return {"index": index, **rest}
