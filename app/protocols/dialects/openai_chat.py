"""Chat completions spelled from stored events: chunks for a stream, or the one answer of a request that waits.

Pure projections of a run's events. Leaves to others: when they are sent, and errors before there is a run.
"""

from typing import Any, Final

import orjson

from app.events.envelope import Event
from app.protocols.dialects.openai_segment import ClientCall, Payload, SegmentReading, TokenCounts, chat_id

DONE: Final = b"data: [DONE]\n\n"
_ROLE: Final = (
    b'{"index":0,"delta":{"role":"assistant","content":"","refusal":null},"logprobs":null,"finish_reason":null}]'
)
"""How every answer begins."""
BETWEEN: Final = "\n\n"
"""Between what the agent said before its tools and after them."""


def usage(tokens: TokenCounts) -> dict[str, Any]:
    return {
        "prompt_tokens": tokens.given,
        "completion_tokens": tokens.made,
        "total_tokens": tokens.given + tokens.made,
        "prompt_tokens_details": {"cached_tokens": tokens.cached},
        "completion_tokens_details": {"reasoning_tokens": tokens.reasoning},
    }


def error_object(code: str, message: str, kind: str = "server_error", **more: Any) -> dict[str, Any]:
    return {"error": {"message": message, "type": kind, "param": None, "code": code.lower(), **more}}


class ChatChunks(SegmentReading):
    """The frames of a stream; `take` gives those made since, ready to be written at once."""

    def __init__(self, segment: int = 0, *, include_usage: bool = False) -> None:
        super().__init__(segment)
        self._include_usage = include_usage
        self._out: list[bytes] = []
        self._head = self._text_head = b""
        self._tail = b',"usage":null}\n\n' if include_usage else b"}\n\n"
        self._text_tail = b'},"logprobs":null,"finish_reason":null}]' + self._tail
        self._speaking: str | None = None

    def take(self) -> bytes:
        out = self._out
        if not out:
            return b""
        frames = out[0] if len(out) == 1 else b"".join(out)
        out.clear()
        return frames

    def on_begin(self, event: Event) -> None:
        head = {
            "id": chat_id(self.run_id, self._segment),
            "object": "chat.completion.chunk",
            "created": event.at // 1000,
            "model": self.queued.get("agent") or self.queued.get("tool") or "",
            "system_fingerprint": None,
        }
        self._head = b"data: " + orjson.dumps(head)[:-1] + b',"choices":['
        self._text_head = self._head + b'{"index":0,"delta":{"content":'

    def on_text(self, message_id: str, text: str) -> None:
        if message_id != self._speaking:
            if self._speaking is None:
                self._say_role()
            else:
                text = BETWEEN + text
            self._speaking = message_id
        self._out.append(self._text_head + orjson.dumps(text) + self._text_tail)

    def on_abandoned(self, message_id: str) -> None:
        self.ended = True
        self._error("message_abandoned", "the model was cut off in the middle of its answer")

    def on_calls(self, calls: list[ClientCall]) -> None:
        if self._speaking is None:
            self._say_role()
        for index, call in enumerate(calls):
            function = {"name": call.name, "arguments": call.arguments}
            made = {"index": index, "id": call.id, "type": "function", "function": function}
            self._chunk({"tool_calls": [made]})
        self._end("tool_calls")

    def on_completed(self, output: str, message_id: str | None) -> None:
        if message_id not in self._begun_messages and output:
            self.on_text(message_id or "output", output)
        if self._speaking is None:
            self._say_role()
        self._end(self.finish)

    def on_failed(self, error: Payload) -> None:
        self._error(error["code"], error["message"])

    def on_cancelled(self) -> None:
        self._error("run_cancelled", "the run was cancelled")

    def _say_role(self) -> None:
        self._out.append(self._head + _ROLE + self._tail)

    def _chunk(self, delta: dict[str, Any], finish: str | None = None) -> None:
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
        self._out.append(self._head + orjson.dumps(choice) + b"]" + self._tail)

    def _end(self, reason: str) -> None:
        self._chunk({}, reason)
        if self._include_usage:
            self._out.append(self._head + b'],"usage":' + orjson.dumps(usage(self.tokens)) + b"}\n\n")
        self._out.append(DONE)

    def _error(self, code: str, message: str) -> None:
        self._out.append(b"data: " + orjson.dumps(error_object(code, message, runId=self.run_id)) + b"\n\n" + DONE)


class ChatAnswer(SegmentReading):
    """The answer as one object; `error` instead, when there is none."""

    def __init__(self, segment: int = 0) -> None:
        super().__init__(segment)
        self._created = 0
        self._texts: dict[str, str] = {}
        self._content: str | None = None
        self._calls: list[ClientCall] = []
        self.error: Payload | None = None

    def on_begin(self, event: Event) -> None:
        self._created = event.at // 1000

    def on_text(self, message_id: str, text: str) -> None:
        self._texts[message_id] = self._texts.get(message_id, "") + text

    def on_message(self, message_id: str, text: str, final: bool) -> None:
        self._texts[message_id] = text or self._texts[message_id]

    def on_abandoned(self, message_id: str) -> None:
        self._texts.pop(message_id, None)

    def on_calls(self, calls: list[ClientCall]) -> None:
        self._calls, self.finish = calls, "tool_calls"
        self._content = BETWEEN.join(self._texts.values()) or None

    def on_completed(self, output: str, message_id: str | None) -> None:
        self._content = output

    def on_failed(self, error: Payload) -> None:
        self.error = error

    def on_cancelled(self) -> None:
        self.error = {"code": "RUN_CANCELLED", "message": "the run was cancelled"}

    def answer(self) -> dict[str, Any]:
        message: dict[str, Any] = {"role": "assistant", "content": self._content, "refusal": None}
        if self._calls:
            message["tool_calls"] = [
                {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
                for call in self._calls
            ]
        return {
            "id": chat_id(self.run_id, self._segment),
            "object": "chat.completion",
            "created": self._created,
            "model": self.queued.get("agent") or "",
            "choices": [{"index": 0, "message": message, "logprobs": None, "finish_reason": self.finish}],
            "usage": usage(self.tokens),
            "system_fingerprint": None,
            "metadata": {"thread_id": self.thread_id, "run_id": self.run_id},
        }
