"""The responses API spelled from stored events: typed stream events, and the response as it stands.

`sequence_number` counts what the stored events give, so a stream can be cut anywhere and resumed after any number.
A message that was cut off stays in the output as an incomplete item without content: its text is not part of the
answer. Leaves to others: when frames are sent, and errors before there is a run.
"""

from collections.abc import Mapping
from typing import Any, Final

import orjson

from app.core.json import JsonObject
from app.events.envelope import Event
from app.protocols.dialects.openai_segment import ClientCall, Payload, SegmentReading, model_name, response_id

_INCOMPLETE: Final = {"length": "max_output_tokens", "content_filter": "content_filter"}
PREVIOUS: Final = "openai.previousResponse"
"""The run's label that keeps which response the client continued."""


class ResponseEvents(SegmentReading):
    """Frames numbered above `after`; `take` gives those made since, ready to be written at once."""

    def __init__(self, segment: int = 0, *, after: int = -1, dropped: Mapping[str, int] | None = None) -> None:
        """`dropped` are the messages whose deltas retention dropped, with the number of frames that these were."""
        super().__init__(segment)
        self._after, self._dropped = after, dropped or {}
        self._number = 0
        self.made: list[bytes] = []
        """Frames that nobody took yet."""
        self.output: list[JsonObject] = []
        self._open: _OpenMessage | None = None
        self._status = "queued"
        self._created = 0
        self._error: JsonObject | None = None
        self._completed_at: int | None = None
        self._parameters: Payload = {}
        """Which the client set on the way; `choice` with the segment that it is for."""
        self._choice: tuple[int, Any] = (-1, None)
        self._media: list[Payload] = []

    @property
    def last_number(self) -> int:
        return self._number - 1

    def take(self) -> bytes:
        made = self.made
        frames = made[0] if len(made) == 1 else b"".join(made)
        made.clear()
        return frames

    # -- the run -------------------------------------------------------------------------------------

    def on_begin(self, event: Event) -> None:
        self._created = event.at // 1000
        self._lifecycle("response.created")

    def on_started(self) -> None:
        self._status = "in_progress"
        self._lifecycle("response.in_progress")

    def on_text(self, message_id: str, text: str) -> None:
        message = self._open
        opened = message is None or message.id != message_id
        if message is None or opened:
            message = self._open_message(message_id)
        message.pieces.append(text)
        number = self._number
        self._number += 1
        if number > self._after:
            self.made.append(message.delta_head + orjson.dumps(text) + b',"sequence_number":%d}\n\n' % number)
        if opened:
            # Of dropped deltas the text comes whole, in place of the first; the others keep their numbers.
            self._number += max(0, self._dropped.get(message_id, 0) - 1)

    def on_message(self, message_id: str, text: str, final: bool) -> None:
        if self._open is not None and self._open.id == message_id:
            self._close_message(text=text or None, phase="final_answer" if final else "commentary")

    def on_abandoned(self, message_id: str) -> None:
        if self._open is not None and self._open.id == message_id:
            index = self._close_message(status="incomplete")
            self.output[index] = self.output[index] | {"content": []}

    def on_calls(self, calls: list[ClientCall]) -> None:
        self._close_message()
        for call in calls:
            self._call(call)
        self._end("response.completed", "completed")

    def on_parameters(self, wanted: Payload) -> None:
        self._parameters = self._parameters | wanted.get("parameters", {})
        self._choice = (self.segments_ended, wanted.get("toolChoice"))

    def on_media(self, parts: list[Payload]) -> None:
        self._media = parts

    def on_completed(self, output: str, message_id: str | None) -> None:
        if message_id not in self._begun_messages and output:
            self._close_message()
            self.on_text(message_id or f"msg_{self.run_id}_{self._segment}", output)
        self._close_message(phase="final_answer")
        for number, part in enumerate(self._media):
            self._made(part, f"{self.run_id}_{self._segment}_{number}")
        cut = _INCOMPLETE.get(self.finish)
        self._end("response.incomplete" if cut else "response.completed", "incomplete" if cut else "completed")

    def on_failed(self, error: Payload) -> None:
        self._close_message(status="incomplete")
        self._error = {"code": error["code"].lower(), "message": error["message"]}
        self._end("response.failed", "failed")

    def on_cancelled(self) -> None:
        self._close_message(status="incomplete")
        self._end("response.incomplete", "cancelled")

    # -- items ---------------------------------------------------------------------------------------

    def _open_message(self, message_id: str) -> "_OpenMessage":
        self._close_message()
        index = len(self.output)
        self.output.append(_message(message_id, "in_progress", []))
        self._emit("response.output_item.added", output_index=index, item=self.output[index])
        self._emit(
            "response.content_part.added", item_id=message_id, output_index=index, content_index=0, part=_part("")
        )
        self._open = _OpenMessage(message_id, index)
        return self._open

    def _close_message(self, *, text: str | None = None, status: str = "completed", phase: str | None = None) -> int:
        message, self._open = self._open, None
        if message is None:
            return -1
        text = "".join(message.pieces) if text is None else text
        where = {"item_id": message.id, "output_index": message.index, "content_index": 0}
        item = self.output[message.index] = _message(message.id, status, [_part(text)], phase)
        self._emit("response.output_text.done", **where, text=text, logprobs=[])
        self._emit("response.content_part.done", **where, part=_part(text))
        self._emit("response.output_item.done", output_index=message.index, item=item)
        return message.index

    def _call(self, call: ClientCall) -> None:
        index, item_id = len(self.output), f"fc_{call.id}"
        item = {"type": "function_call", "id": item_id, "call_id": call.id, "name": call.name}
        where = {"item_id": item_id, "output_index": index}
        added = item | {"arguments": "", "status": "in_progress"}
        done = item | {"arguments": call.arguments, "status": "completed"}
        self.output.append(done)
        self._emit("response.output_item.added", output_index=index, item=added)
        self._emit("response.function_call_arguments.delta", **where, delta=call.arguments)
        self._emit("response.function_call_arguments.done", **where, name=call.name, arguments=call.arguments)
        self._emit("response.output_item.done", output_index=index, item=done)

    def _made(self, part: Payload, id: str) -> None:
        """A picture is an item of its own; of other media the API has no item, so they are content of a message."""
        index = len(self.output)
        if part["type"] == "image":
            item: JsonObject = {"type": "image_generation_call", "id": f"ig_{id}", "status": "completed"}
            item |= {"result": part.get("data"), "output_format": part["mime"].partition("/")[2]}
        elif part["type"] == "audio":
            item = _message(f"msg_{id}", "completed", [_sound(part)], "final_answer")
        else:
            item = _message(f"msg_{id}", "completed", [_file(part)], "final_answer")
        self.output.append(item)
        begun: JsonObject = item | {"status": "in_progress"}
        begun["content" if "content" in item else "result"] = [] if "content" in item else None
        self._emit("response.output_item.added", output_index=index, item=begun)
        self._emit("response.output_item.done", output_index=index, item=item)

    # -- frames --------------------------------------------------------------------------------------

    def _end(self, name: str, status: str) -> None:
        self._status = status
        self._lifecycle(name)

    def _lifecycle(self, name: str) -> None:
        number = self._number
        if number > self._after:
            self._emit(name, response=self.response())
        else:
            self._number += 1

    def _emit(self, kind: str, /, **fields: Any) -> None:
        number = self._number
        self._number += 1
        if number > self._after:
            body = orjson.dumps({"type": kind, "sequence_number": number, **fields})
            self.made.append(b"event: %s\ndata: %s\n\n" % (kind.encode(), body))

    def response(self) -> JsonObject:
        """The response as the events so far have it."""
        queued, tokens = self.queued, self.tokens
        wanted = queued.get("parameters", {}) | self._parameters
        choice = queued.get("toolChoice") if self._segment == 0 else None
        if self._choice[0] == self._segment:
            choice = self._choice[1]
        cut = _INCOMPLETE.get(self.finish) if self._status == "incomplete" else None
        schema = queued.get("responseSchema")
        return {
            "id": response_id(self.run_id, self._segment),
            "object": "response",
            "created_at": self._created,
            "status": self._status,
            "background": False,
            "error": self._error,
            "incomplete_details": {"reason": cut} if cut else None,
            "instructions": queued.get("instructions"),
            "max_output_tokens": wanted.get("maxTokens"),
            "model": model_name(queued),
            "output": list(self.output),
            "parallel_tool_calls": wanted.get("parallelTools", True),
            "previous_response_id": queued.get("labels", {}).get(PREVIOUS),
            "conversation": {"id": self.thread_id},
            "reasoning": {"effort": wanted.get("effort"), "summary": None},
            "temperature": wanted.get("temperature"),
            "top_p": wanted.get("topP"),
            "text": {"format": {"type": "text"} if schema is None else _format(schema)},
            "tool_choice": _choice(choice),
            "tools": [_tool(declared) for declared in queued.get("clientTools") or ()],
            "truncation": "disabled",
            "usage": {
                "input_tokens": tokens.given,
                "input_tokens_details": {"cached_tokens": tokens.cached},
                "output_tokens": tokens.made,
                "output_tokens_details": {"reasoning_tokens": tokens.reasoning},
                "total_tokens": tokens.given + tokens.made,
            }
            if self.ended
            else None,
            "metadata": queued.get("metadata", {}),
            "store": True,
        }


class _OpenMessage:
    __slots__ = ("delta_head", "id", "index", "pieces")

    def __init__(self, message_id: str, index: int) -> None:
        self.id, self.index = message_id, index
        self.pieces: list[str] = []
        head = {
            "type": "response.output_text.delta",
            "item_id": message_id,
            "output_index": index,
            "content_index": 0,
            "logprobs": [],
        }
        self.delta_head = b"event: response.output_text.delta\ndata: " + orjson.dumps(head)[:-1] + b',"delta":'


def _message(message_id: str, status: str, content: list[JsonObject], phase: str | None = None) -> JsonObject:
    made = {"type": "message", "id": message_id, "status": status, "role": "assistant", "content": content}
    return made if phase is None else made | {"phase": phase}


def _part(text: str) -> JsonObject:
    return {"type": "output_text", "text": text, "annotations": [], "logprobs": []}


def _sound(part: Payload) -> JsonObject:
    return {"type": "output_audio", "data": part.get("data"), "transcript": "", "mime_type": part["mime"]}


def _file(part: Payload) -> JsonObject:
    content = f"data:{part['mime']};base64,{part['data']}" if "data" in part else None
    return {"type": "output_file", "filename": part.get("name") or part["type"], "file_data": content}


def _tool(declared: Payload) -> JsonObject:
    return {
        "type": "function",
        "name": declared["name"],
        "description": declared.get("description"),
        "parameters": declared.get("input"),
        "strict": False,
    }


def _choice(choice: Any) -> Any:
    return {"type": "function", "name": choice["name"]} if isinstance(choice, dict) else choice or "auto"


def _format(schema: Payload) -> JsonObject:
    return {"type": "json_schema", "name": schema.get("title", "answer"), "schema": schema, "strict": True}


def error_frame(number: int, code: str, message: str) -> bytes:
    """An end that is not in the log, such as a wait given up. It repeats the last number, so that a resume is exact."""
    body = {"type": "error", "code": code.lower(), "message": message, "param": None, "sequence_number": number}
    return b"event: error\ndata: " + orjson.dumps(body) + b"\n\n"
