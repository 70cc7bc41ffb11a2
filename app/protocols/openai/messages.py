"""Messages of chat completions and items of responses as messages of ours (completion_request_v1).

Pure: a wrong one raises `Refusal` with the place, never the value. Leaves to `conversation`: which of them count.
"""

from collections.abc import Sequence
from typing import Any, Final

from app.core import json
from app.core.base64_text import decode_base64
from app.core.json import JsonObject
from app.protocols.openai.errors import Refusal

MAX_MESSAGES: Final = 10_000
"""Of one request. A longer conversation lives in a thread, where only what is new is sent."""
_TEXTS: Final = frozenset({"text", "input_text", "output_text", "refusal", "summary_text"})
_INSTRUCTING: Final = frozenset({"system", "developer"})
_IGNORED_ITEMS: Final = frozenset({"reasoning"})


def chat_messages(given: Any) -> tuple[str | None, list[JsonObject]]:
    """(instructions, messages): system and developer messages are instructions wherever they stand."""
    if not isinstance(given, list) or not given:
        raise Refusal("INVALID_REQUEST", "messages must be a list with at least one message", param="messages")
    if len(given) > MAX_MESSAGES:
        raise Refusal("INVALID_REQUEST", f"messages may be at most {MAX_MESSAGES}", param="messages")
    instructions: list[str] = []
    messages: list[JsonObject] = []
    for index, message in enumerate(given):
        where = f"messages.{index}"
        role = message.get("role") if isinstance(message, dict) else None
        if role in _INSTRUCTING:
            instructions.append(_content(message.get("content"), where)["content"])
        elif role == "user":
            messages.append({"role": "user", **_content(message.get("content"), where)})
        elif role == "assistant":
            messages.append(_assistant(message, where))
        elif role == "tool":
            messages.append(_tool(message.get("tool_call_id"), message.get("content"), where))
        else:
            raise Refusal("INVALID_REQUEST", "a message needs a known role", param=f"{where}.role")
    return "\n\n".join(instructions) or None, messages


def response_items(given: Any, instructions: Any) -> tuple[str | None, list[JsonObject]]:
    """The same for the `input` of responses, which is a text or a list of items."""
    if instructions is not None and not isinstance(instructions, str):
        raise Refusal("INVALID_REQUEST", "instructions must be a text", param="instructions")
    instructions_given = [instructions] if instructions else []
    if isinstance(given, str):
        return instructions or None, [{"role": "user", "content": given}]
    if not isinstance(given, list) or not given:
        raise Refusal("INVALID_REQUEST", "input must be a text or a list of items", param="input")
    if len(given) > MAX_MESSAGES:
        raise Refusal("INVALID_REQUEST", f"input may have at most {MAX_MESSAGES} items", param="input")
    messages: list[JsonObject] = []
    for index, item in enumerate(given):
        _take_item(item, f"input.{index}", instructions_given, messages)
    return "\n\n".join(instructions_given) or None, messages


def _take_item(item: Any, where: str, instructions_given: list[str], messages: list[JsonObject]) -> None:
    if not isinstance(item, dict):
        raise Refusal("INVALID_REQUEST", "an item must be an object", param=where)
    kind, role = item.get("type", "message"), item.get("role")
    if kind == "message" and role in _INSTRUCTING:
        instructions_given.append(_content(item.get("content"), where)["content"])
    elif kind == "message" and role in ("user", "assistant"):
        messages.append({"role": role, **_content(item.get("content"), where)})
    elif kind == "function_call":
        call = _call(item.get("call_id"), item.get("name"), item.get("arguments"), where)
        last = messages[-1] if messages else None
        if last is not None and last["role"] == "assistant":
            last.setdefault("tool_calls", []).append(call)
        else:
            messages.append({"role": "assistant", "content": "", "tool_calls": [call]})
    elif kind == "function_call_output":
        messages.append(_tool(item.get("call_id"), item.get("output"), where))
    elif kind not in _IGNORED_ITEMS:
        raise Refusal("INVALID_REQUEST", "items of this type are not supported", param=f"{where}.type")


def _assistant(message: JsonObject, where: str) -> JsonObject:
    content = message.get("content")
    made: JsonObject = {"role": "assistant", **_content("" if content is None else content, where)}
    calls = message.get("tool_calls")
    if calls:
        if not isinstance(calls, list):
            raise Refusal("INVALID_REQUEST", "tool_calls must be a list", param=f"{where}.tool_calls")
        made["tool_calls"] = [
            _call(call.get("id"), *_function(call.get("function")), f"{where}.tool_calls.{index}")
            for index, call in enumerate(calls)
            if isinstance(call, dict)
        ]
    return made


def _function(given: Any) -> tuple[Any, Any]:
    return (given.get("name"), given.get("arguments")) if isinstance(given, dict) else (None, None)


def _call(call_id: Any, name: Any, arguments: Any, where: str) -> JsonObject:
    if not (isinstance(call_id, str) and isinstance(name, str) and isinstance(arguments, str)):
        raise Refusal("INVALID_REQUEST", "a call needs an id, a name and its arguments as a text", param=where)
    try:
        parsed = json.loads_strict(arguments.encode("utf-8", "surrogatepass") or b"{}", max_values=json.MAX_VALUES)
    except json.JsonError:
        parsed = None
    if isinstance(parsed, dict):
        return {"id": call_id, "name": name, "args": parsed}
    return {"id": call_id, "name": name, "args": {}, "raw_args": arguments}


def _tool(call_id: Any, content: Any, where: str) -> JsonObject:
    if not isinstance(call_id, str) or not call_id:
        raise Refusal("INVALID_REQUEST", "the output of a tool needs the id of its call", param=where)
    return {"role": "tool", "content": _content(content, where)["content"], "tool_call_id": call_id}


def _content(given: Any, where: str) -> JsonObject:
    """`content`, and `parts` beside it when there is more than text."""
    if isinstance(given, str):
        return {"content": given}
    if not isinstance(given, list):
        raise Refusal("INVALID_REQUEST", "content must be a text or a list of parts", param=f"{where}.content")
    parts = [_part(part, f"{where}.content.{index}") for index, part in enumerate(given)]
    text = "\n".join(part["text"] for part in parts if part["type"] == "text")
    return {"content": text} if all(part["type"] == "text" for part in parts) else {"content": text, "parts": parts}


def _part(part: Any, where: str) -> JsonObject:
    kind = part.get("type") if isinstance(part, dict) else None
    if kind in _TEXTS:
        text = part.get("text", part.get("refusal"))
        if isinstance(text, str):
            return {"type": "text", "text": text}
    elif kind in ("image_url", "input_image"):
        if "file_id" in part:
            return _uploaded("image", part, where)
        image = part.get("image_url")
        return _media("image", image.get("url") if isinstance(image, dict) else image, None, where)
    elif kind == "input_audio" and isinstance(sound := part.get("input_audio"), dict):
        return _bytes("audio", f"audio/{sound.get('format', 'wav')}", sound.get("data"), None, where)
    elif kind in ("file", "input_file"):
        described = part.get("file", part)
        if isinstance(described, dict) and "file_id" in described:
            return _uploaded("file", described, where)
        if isinstance(described, dict):
            return _media("file", described.get("file_data"), described.get("filename"), where)
    raise Refusal("INVALID_REQUEST", "parts of this type are not supported", param=where)


def _uploaded(kind: str, described: JsonObject, where: str) -> JsonObject:
    file_id, name = described["file_id"], described.get("filename")
    if not isinstance(file_id, str) or not 0 < len(file_id) <= 255:
        raise Refusal("INVALID_REQUEST", "file_id must be the id of an uploaded file", param=f"{where}.file_id")
    made: JsonObject = {"type": kind, "fileId": file_id}
    return made | {"name": name} if isinstance(name, str) else made


def _media(kind: str, url: Any, name: Any, where: str) -> JsonObject:
    """From a data URL. No other: a client does not name addresses that we, or a provider for us, would call."""
    if not isinstance(url, str) or not url.startswith("data:"):
        message = "send the content as a data: URL; addresses are not fetched for a client"
        raise Refusal("ADDRESS_REFUSED", message, param=where)
    comma = url.find(",")
    end = comma if comma >= 0 else len(url)
    mime, *flags = url[5:end].split(";")
    if "base64" not in flags:
        raise Refusal("INVALID_REQUEST", "a data: URL must be in base64", param=where)
    return _bytes(kind, mime or "application/octet-stream", url, name, where, end + 1)


def _bytes(kind: str, mime: str, data: Any, name: Any, where: str, start: int = 0) -> JsonObject:
    """From base64, which starts at that place of `data`: a copy of the rest would be another large text."""
    try:
        content = decode_base64(data if isinstance(data, str) else "!", start)
    except ValueError:
        raise Refusal("INVALID_REQUEST", "the content is not base64", param=where) from None
    made: JsonObject = {"type": kind, "mime": mime, "data": content}
    return made | {"name": name} if isinstance(name, str) else made


def after_last_answer(messages: Sequence[JsonObject]) -> list[JsonObject]:
    """What is new to a thread that already knows the rest."""
    start = len(messages)
    while start > 0 and messages[start - 1]["role"] != "assistant":
        start -= 1
    return list(messages[start:])
