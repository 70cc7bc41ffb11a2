"""The input of a LangGraph run as ours: messages of LangChain's shapes, or whatever object a graph or workflow takes.

Pure: a wrong one raises `Declined` with the place, never the value. Leaves to others: storing media (`http.parts`).
"""

from dataclasses import field
from typing import Any, Final

from app.core import json
from app.core.base64_text import decode_base64
from app.core.json import JsonObject
from app.core.value import mutable
from app.protocols.dialects.langgraph_messages import ROLES
from app.protocols.langgraph.errors import Declined

MAX_MESSAGES: Final = 10_000
"""Of one request. A longer conversation lives in a thread, where only what is new is sent."""
_MEDIA: Final = ("image", "audio", "video", "file")


@mutable(slots=True)
class GraphInput:
    """What a request brings: `messages` in our own shape, or `data` for a graph or workflow that takes an object."""

    messages: list[JsonObject] = field(default_factory=list)
    ids: list[str] = field(default_factory=list)
    """The ids that the client gave its own messages."""
    data: Any = None
    instructions: str | None = None


def read_input(given: Any, *, takes_object: bool) -> GraphInput:
    """`takes_object`: what has other fields than `messages` is passed as it is."""
    if isinstance(given, str):
        return GraphInput([{"role": "user", "content": given}])
    if isinstance(given, list):
        return _messages(given, "input")
    if not isinstance(given, dict):
        raise Declined("input must be an object with messages, or what the graph takes.")
    said = given.get("messages")
    if said is None or (takes_object and given.keys() != {"messages"}):
        return GraphInput(data=given)
    return _messages(said if isinstance(said, list) else [said], "input.messages")


def _messages(given: list[Any], where: str) -> GraphInput:
    if not given:
        raise Declined(f"{where} has no message.")
    if len(given) > MAX_MESSAGES:
        raise Declined(f"{where} may have at most {MAX_MESSAGES} messages.")
    made, instructions = GraphInput(), []
    for number, message in enumerate(given):
        place = f"{where}.{number}"
        one = read_message(message, place)
        if one["role"] == "system":
            instructions.append(one["content"])
        else:
            made.messages.append(one)
        named = message.get("id") if isinstance(message, dict) else None
        if one["role"] == "user":
            made.ids.append(named if isinstance(named, str) and 0 < len(named) <= 180 and "|" not in named else "")
    made.instructions = "\n\n".join(instructions) or None
    return made


def read_message(message: Any, where: str) -> JsonObject:
    if isinstance(message, str):
        return {"role": "user", "content": message}
    if isinstance(message, list) and len(message) == 2:
        message = {"role": message[0], "content": message[1]}
    if not isinstance(message, dict):
        raise Declined(f"{where} is not a message.")
    named = message.get("role", message.get("type"))
    role = ROLES.get(named) if isinstance(named, str) else None
    if role is None:
        raise Declined(f"{where} needs a known role or type.")
    content = message.get("content")
    made: JsonObject = {"role": role, **_content("" if content is None and role == "assistant" else content, where)}
    if role == "tool":
        call_id = message.get("tool_call_id")
        if not isinstance(call_id, str) or not call_id:
            raise Declined(f"{where} needs the tool_call_id of its call.")
        return {"role": "tool", "content": made["content"], "tool_call_id": call_id}
    if role == "assistant" and message.get("tool_calls"):
        made["tool_calls"] = _calls(message["tool_calls"], where)
    return made


def _calls(given: Any, where: str) -> list[JsonObject]:
    calls: list[JsonObject] = []
    for call in given if isinstance(given, list) else [{}]:
        call = call if isinstance(call, dict) else {}
        named = isinstance(call.get("id"), str) and isinstance(call.get("name"), str)
        if not named or not isinstance(call.get("args", {}), dict):
            raise Declined(f"{where}.tool_calls must be calls with an id, a name and args.")
        calls.append({"id": call["id"], "name": call["name"], "args": call.get("args", {})})
    return calls


def _content(given: Any, where: str) -> JsonObject:
    """`content`, and `parts` beside it when there is more than text."""
    if isinstance(given, str):
        return {"content": given}
    if not isinstance(given, list):
        raise Declined(f"{where}.content must be a text or a list of blocks.")
    parts = [_part(block, f"{where}.content.{number}") for number, block in enumerate(given)]
    said = "\n".join(part["text"] for part in parts if part["type"] == "text")
    return {"content": said} if all(part["type"] == "text" for part in parts) else {"content": said, "parts": parts}


def _part(block: Any, where: str) -> JsonObject:
    if isinstance(block, str):
        return {"type": "text", "text": block}
    kind = block.get("type") if isinstance(block, dict) else None
    if kind == "text" and isinstance(block.get("text"), str):
        return {"type": "text", "text": block["text"]}
    if kind == "image_url":
        image = block.get("image_url")
        return _from_url("image", image.get("url") if isinstance(image, dict) else image, where)
    if kind in _MEDIA:
        metadata = block.get("metadata") if isinstance(block.get("metadata"), dict) else {}
        name = block.get("filename") or block.get("name") or metadata.get("filename") or metadata.get("name")
        mime = block.get("mime_type") or block.get("mimeType")
        data = block.get("base64") or block.get("data")
        if data is None and isinstance(block.get("url"), str):
            return _from_url(kind, block["url"], where)
        return _bytes(kind, mime if isinstance(mime, str) else "application/octet-stream", data, name, where)
    raise Declined(f"{where} is a block of a type that is not supported.")


def _from_url(kind: str, url: Any, where: str) -> JsonObject:
    """From a data URL. No other: a client does not name addresses that we, or a provider for us, would call."""
    if not isinstance(url, str) or not url.startswith("data:"):
        raise Declined(f"{where}: send the content as a data: URL; addresses are not fetched.", code="ADDRESS_REFUSED")
    head, _, data = url[5:].partition(",")
    mime, *flags = head.split(";")
    if "base64" not in flags:
        raise Declined(f"{where}: a data: URL must be in base64.")
    return _bytes(kind, mime or "application/octet-stream", data, None, where)


def _bytes(kind: str, mime: str, data: Any, name: Any, where: str) -> JsonObject:
    try:
        content = decode_base64(data if isinstance(data, str) else "!")
    except ValueError:
        raise Declined(f"{where}: the content is not base64.") from None
    made: JsonObject = {"type": kind, "mime": mime, "data": content}
    return made | {"name": name} if isinstance(name, str) else made


def split(messages: list[JsonObject], *, continued: bool) -> tuple[list[JsonObject], list[JsonObject]]:
    """(history, input): the input is what the user said last, with nothing of anybody else in between.

    A thread that is `continued` knows what was before.
    """
    start = len(messages)
    while start > 0 and messages[start - 1]["role"] == "user":
        start -= 1
    said = messages[start:]
    if not said:
        raise Declined("The last message of the input must be the user's.")
    return ([] if continued else messages[:start]), said


def text_size(given: GraphInput) -> int:
    if given.data is not None:
        return len(json.dumps(given.data))
    return sum(len(message["content"]) for message in given.messages)
