"""Chat completions spelled from stored events: chunks for a stream, or the one answer of a request that waits.

Pure projections of a run's events. Leaves to others: when they are sent, and errors before there is a run.
"""

from typing import Any, Final

import orjson

from app.events.envelope import Event
from app.protocols.dialects.openai_segment import ClientCall, Payload, SegmentReading, TokenCounts, chat_id, model_name

DONE: Final = b"data: [DONE]\n\n"
_ROLE: Final = (
    b'{"index":0,"delta":{"role":"assistant","content":"","refusal":null},"logprobs":null,"finish_reason":null}]'
)
"""How every answer begins."""
_NEVER: Final = 253402300799
"""The end of the year 9999: nothing of a thread expires by itself."""
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


def media_fields(parts: list[Payload]) -> dict[str, Any]:
    """Media of an answer as fields of its message: `audio` as the original has it, `images` as gateways send them, and
    `files` in the shape in which a client sends files."""
    made: dict[str, Any] = {}
    for part in parts:
        if "data" not in part:
            continue
        url = f"data:{part['mime']};base64,{part['data']}"
        if part["type"] == "image":
            image = {"type": "image_url", "image_url": {"url": url}, "index": len(made.get("images", ()))}
            made.setdefault("images", []).append(image)
        elif part["type"] == "audio" and "audio" not in made:
            sound = {"id": f"audio_{part['blob']['sha256'][:32]}", "data": part["data"]}
            made["audio"] = sound | {"expires_at": _NEVER, "transcript": ""}
        else:
            file = {"filename": part.get("name") or part["type"], "file_data": url}
            made.setdefault("files", []).append({"type": "file", "file": file})
    return made


def error_object(code: str, message: str, kind: str = "server_error", **more: Any) -> dict[str, Any]:
    return {"error": {"message": message, "type": kind, "param": None, "code": code.lower(), **more}}


class ChatChunks(SegmentReading):
    """The frames of a stream; `take` gives those made since, ready to be written at once."""

    def __init__(self, segment: int = 0, *, include_usage: bool = False) -> None:
        super().__init__(segment)
        self._include_usage = include_usage
        self.made: list[bytes] = []
        """Frames that nobody took yet."""
        self._head = self._text_head = b""
        self._tail = b',"usage":null}\n\n' if include_usage else b"}\n\n"
        self._text_tail = b'},"logprobs":null,"finish_reason":null}]' + self._tail
        self._speaking: str | None = None
        self._media: dict[str, Any] = {}

    def take(self) -> bytes:
        made = self.made
        frames = made[0] if len(made) == 1 else b"".join(made)
        made.clear()
        return frames

    def on_begin(self, event: Event) -> None:
        head = {
            "id": chat_id(self.run_id, self._segment),
            "object": "chat.completion.chunk",
            "created": event.at // 1000,
            "model": model_name(self.queued),
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
        self.made.append(self._text_head + orjson.dumps(text) + self._text_tail)

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

    def on_media(self, parts: list[Payload]) -> None:
        self._media = media_fields(parts)

    def on_completed(self, output: str, message_id: str | None) -> None:
        if message_id not in self._begun_messages and output:
            self.on_text(message_id or "output", output)
        if self._speaking is None:
            self._say_role()
        if self._media:
            self._chunk(self._media)
        self._end(self.finish)

    def on_failed(self, error: Payload) -> None:
        self._error(error["code"], error["message"])

    def on_cancelled(self) -> None:
        self._error("run_cancelled", "the run was cancelled")

    def _say_role(self) -> None:
        self.made.append(self._head + _ROLE + self._tail)

    def _chunk(self, delta: dict[str, Any], finish: str | None = None) -> None:
        choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": finish}
        self.made.append(self._head + orjson.dumps(choice) + b"]" + self._tail)

    def _end(self, reason: str) -> None:
        self._chunk({}, reason)
        if self._include_usage:
            self.made.append(self._head + b'],"usage":' + orjson.dumps(usage(self.tokens)) + b"}\n\n")
        self.made.append(DONE)

    def _error(self, code: str, message: str) -> None:
        self.made.append(b"data: " + orjson.dumps(error_object(code, message, runId=self.run_id)) + b"\n\n" + DONE)


class ChatAnswer(SegmentReading):
    """The answer as one object; `error` instead, when there is none."""

    def __init__(self, segment: int = 0) -> None:
        super().__init__(segment)
        self._created = 0
        self._texts: dict[str, str] = {}
        self._content: str | None = None
        self._calls: list[ClientCall] = []
        self._media: dict[str, Any] = {}
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

    def on_media(self, parts: list[Payload]) -> None:
        self._media = media_fields(parts)

    def on_completed(self, output: str, message_id: str | None) -> None:
        self._content = output

    def on_failed(self, error: Payload) -> None:
        self.error = error

    def on_cancelled(self) -> None:
        self.error = {"code": "RUN_CANCELLED", "message": "the run was cancelled"}

    def answer(self) -> dict[str, Any]:
        message: dict[str, Any] = {"role": "assistant", "content": self._content, "refusal": None}
        message |= self._media
        if self._calls:
            message["tool_calls"] = [
                {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
                for call in self._calls
            ]
        return {
            "id": chat_id(self.run_id, self._segment),
            "object": "chat.completion",
            "created": self._created,
            "model": model_name(self.queued),
            "choices": [{"index": 0, "message": message, "logprobs": None, "finish_reason": self.finish}],
            "usage": usage(self.tokens),
            "system_fingerprint": None,
            "metadata": {"thread_id": self.thread_id, "run_id": self.run_id},
        }
