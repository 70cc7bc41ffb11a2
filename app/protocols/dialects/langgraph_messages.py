"""Messages as LangGraph's clients know them: `human`, `ai`, `tool` and `system` objects, and chunks of an `ai` one.

Pure functions of what the log says. Leaves to others: which messages a thread has (`langgraph_values`).
"""

from typing import Any, Final

from app.core import json

Payload = dict[str, Any]

_TYPES: Final = {"user": "human", "assistant": "ai", "tool": "tool", "system": "system"}
ROLES: Final = {
    "human": "user",
    "user": "user",
    "ai": "assistant",
    "assistant": "assistant",
    "tool": "tool",
    "system": "system",
    "developer": "system",
}
"""How clients name who speaks, in the words of our own messages."""


def human(message_id: str, given: Any) -> Payload:
    """What a client gave a run."""
    return _base("human", message_id, content_of(given))


def ai(
    message_id: str,
    text: Any,
    calls: list[Payload] | None = None,
    usage: Payload | None = None,
    model: str | None = None,
) -> Payload:
    made = _base("ai", message_id, content_of(text))
    made["tool_calls"] = [tool_call(call) for call in calls or ()]
    made["invalid_tool_calls"] = []
    made["usage_metadata"] = None if usage is None else usage_of(usage)
    if model is not None:
        made["response_metadata"] = {"model_name": model}
    return made


def tool(call_id: str, name: str, output: Any, *, ok: bool = True) -> Payload:
    made = _base("tool", f"tool-{call_id}", as_text(output))
    return made | {"name": name, "tool_call_id": call_id, "status": "success" if ok else "error", "artifact": None}


def of_history(message: Payload, message_id: str) -> Payload:
    """A message that a thread began with."""
    kind = _TYPES.get(message.get("role", ""), "human")
    if kind == "tool":
        return tool(message.get("tool_call_id", ""), message.get("name") or "", message.get("content")) | {
            "id": message_id
        }
    content = message.get("parts") or message.get("content")
    if kind == "ai":
        return ai(message_id, content, message.get("tool_calls"))
    return _base(kind, message_id, content_of(content))


def to_history(message: Payload) -> Payload:
    """As a conversation is kept, with its id. Media are by reference, without their size."""
    role, content = ROLES[message["type"]], message["content"]
    made: Payload = {"role": role, "content": content if isinstance(content, str) else "", "id": message["id"]}
    if isinstance(content, list):
        made["content"] = "\n".join(block["text"] for block in content if block["type"] == "text")
        made["parts"] = [_part(block) for block in content]
    if role == "tool":
        made |= {"tool_call_id": message["tool_call_id"], "name": message.get("name") or ""}
    if message.get("tool_calls"):
        calls = message["tool_calls"]
        made["tool_calls"] = [{"id": call["id"], "name": call["name"], "args": call["args"]} for call in calls]
    return made


def chunk(message_id: str, text: str = "", *, last: bool = False, **more: Any) -> Payload:
    """A piece of an `ai` message."""
    made: Payload = {
        "content": text,
        "additional_kwargs": {},
        "response_metadata": {},
        "type": "AIMessageChunk",
        "name": None,
        "id": message_id,
        "tool_calls": [],
        "invalid_tool_calls": [],
        "usage_metadata": None,
        "tool_call_chunks": [],
        "chunk_position": "last" if last else None,
    }
    return made | more


def tool_call(call: Payload) -> Payload:
    return {"name": call["name"], "args": call.get("args") or {}, "id": call["id"], "type": "tool_call"}


def tool_call_chunk(call: Payload, index: int) -> Payload:
    """A whole call as one piece."""
    arguments = json.canonical(call.get("args") or {}).decode()
    return {"name": call["name"], "args": arguments, "id": call["id"], "index": index, "type": "tool_call_chunk"}


def usage_of(usage: Payload) -> Payload:
    given, made = usage.get("inputTokens", 0), usage.get("outputTokens", 0)
    return {
        "input_tokens": given,
        "output_tokens": made,
        "total_tokens": given + made,
        "input_token_details": {"cache_read": usage.get("cachedTokens", 0)},
        "output_token_details": {"reasoning": usage.get("reasoningTokens", 0)},
    }


def content_of(given: Any) -> Any:
    """A text, or the blocks of a message that has more than text. Media are named, not sent."""
    if isinstance(given, list) and given and all(isinstance(part, dict) and "type" in part for part in given):
        return [_block(part) for part in given]
    return as_text(given)


def as_text(value: Any) -> str:
    if value is None:
        return ""
    return value if isinstance(value, str) else json.canonical(value).decode()  # live as stored: keys in one order


def _block(part: Payload) -> Payload:
    if part["type"] == "text":
        return {"type": "text", "text": part["text"]}
    if part["type"] == "json":
        return {"type": "text", "text": as_text(part.get("json"))}
    reference = part.get("blob") or {}
    made = {"type": part["type"], "mime_type": part.get("mime"), "file_id": reference.get("sha256")}
    return made | ({"name": part["name"]} if "name" in part else {})


def _part(block: Payload) -> Payload:
    if block["type"] == "text":
        return block
    made = {"type": block["type"], "mime": block.get("mime_type"), "blob": {"sha256": block.get("file_id")}}
    return made | ({"name": block["name"]} if "name" in block else {})


def _base(kind: str, message_id: str, content: Any) -> Payload:
    return {
        "content": content,
        "additional_kwargs": {},
        "response_metadata": {},
        "type": kind,
        "name": None,
        "id": message_id,
    }
