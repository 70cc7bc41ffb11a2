"""Ollama's chat interface: one JSON document a line; tool calls arrive whole."""

from typing import Any

from app.core import json
from tests.models.fakes.server import Answer

_FINISH = {"stop": "stop", "tool_use": "stop", "max_tokens": "length", "safety": "stop"}


class OllamaSpeaker:
    key_header = ("authorization", "Bearer sk-test-secret-key")
    stream_type = "application/x-ndjson"
    lead = 0

    def problem(self, path: str, query: str, body: Any) -> str | None:
        return None if path == "/api/chat" and body.get("model") else "model is required"

    def wants_stream(self, path: str, body: Any) -> bool:
        return bool(body.get("stream", True))

    def stream(self, answer: Answer) -> list[bytes]:
        lines = [self._line({"thinking": text, "content": ""}) for text in answer.reasoning]
        lines += [self._line({"content": text}) for text in answer.chunks]
        if answer.calls:
            lines.append(self._line({"content": "", "tool_calls": self._calls(answer)}))
        lines.append(self._line({"content": ""}) | self._end(answer))
        return [json.dumps(line) + b"\n" for line in lines]

    def whole(self, answer: Answer) -> Any:
        message: dict[str, Any] = {"content": "".join(answer.chunks)}
        if answer.reasoning:
            message["thinking"] = "".join(answer.reasoning)
        if answer.calls:
            message["tool_calls"] = self._calls(answer)
        return self._line(message) | self._end(answer)

    def _calls(self, answer: Answer) -> list[dict[str, Any]]:
        return [{"function": {"name": c.name, "arguments": json.loads(c.arguments)}} for c in answer.calls]

    def _line(self, message: dict[str, Any]) -> dict[str, Any]:
        made = {"role": "assistant"} | message
        return {"model": "test", "created_at": "2026-01-01T00:00:00Z", "message": made, "done": False}

    def _end(self, answer: Answer) -> dict[str, Any]:
        counts = {"prompt_eval_count": answer.usage[0], "eval_count": answer.usage[1]}
        return {"done": True, "done_reason": _FINISH[answer.finish], "total_duration": 1, **counts}

    def error_event(self) -> bytes:
        return b'{"error": "an error was encountered while running the model"}\n'

    def malformed(self) -> bytes:
        return b'{"model": "test", "message": {"ro\n'

    def error_body(self, status: int, message: str) -> Any:
        return {"error": message}
