"""Gemini generateContent: candidates with parts; function calls arrive whole."""

from typing import Any

from app.core import json
from tests.models.fakes.server import Answer

_FINISH = {"stop": "STOP", "tool_use": "STOP", "max_tokens": "MAX_TOKENS", "safety": "SAFETY"}


def _sse(document: Any) -> bytes:
    return b"data: " + json.dumps(document) + b"\r\n\r\n"


class GeminiSpeaker:
    key_header = ("x-goog-api-key", "sk-test-secret-key")
    stream_type = "text/event-stream"
    lead = 0

    def problem(self, path: str, query: str, body: Any) -> str | None:
        streams = path == "/v1beta/models/test-model:streamGenerateContent" and query == "alt=sse"
        if not streams and path != "/v1beta/models/test-model:generateContent":
            return "unknown path"
        if any(content["role"] not in ("user", "model") for content in body["contents"]):
            return "Please use a valid role: user, model."
        return None

    def wants_stream(self, path: str, body: Any) -> bool:
        return "stream" in path

    def stream(self, answer: Answer) -> list[bytes]:
        events = [self._document(answer, [part]) for part in self._parts(answer)]
        events.append(self._document(answer, [], _FINISH[answer.finish]))
        return [_sse(document) for document in events]

    def whole(self, answer: Answer) -> Any:
        return self._document(answer, self._parts(answer), _FINISH[answer.finish])

    def _parts(self, answer: Answer) -> list[dict[str, Any]]:
        parts: list[dict[str, Any]] = [{"text": text, "thought": True} for text in answer.reasoning]
        parts += [{"text": text} for text in answer.chunks]
        for call in answer.calls:
            function = {"id": call.id, "name": call.name, "args": json.loads(call.arguments)}
            parts.append({"functionCall": function, "thoughtSignature": "signed"})
        return parts

    def _document(self, answer: Answer, parts: list[dict[str, Any]], finish: str | None = None) -> dict[str, Any]:
        candidate: dict[str, Any] = {"content": {"role": "model", "parts": parts}, "index": 0}
        if finish is not None:
            candidate["finishReason"] = finish
        given, made = answer.usage
        usage = {"promptTokenCount": given, "candidatesTokenCount": made, "totalTokenCount": given + made}
        return {"candidates": [candidate], "usageMetadata": usage, "modelVersion": "test", "responseId": "r1"}

    def error_event(self) -> bytes:
        return _sse({"error": {"code": 503, "message": "The model is overloaded.", "status": "UNAVAILABLE"}})

    def malformed(self) -> bytes:
        return b'data: {"candidates": [{"content"\r\n\r\n'

    def error_body(self, status: int, message: str) -> Any:
        return {"error": {"code": status, "message": message, "status": "INVALID_ARGUMENT"}}
