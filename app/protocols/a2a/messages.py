"""Messages of A2A clients, of 1.0 and of 0.3: text, data and files, and what they are about.

Leaves to others: what becomes of them (`tasks`).
"""

from typing import Any, Final

from app.core import json
from app.core.json import JsonObject
from app.core.value import value
from app.protocols.dialects.a2a_errors import CONTENT_TYPE, PARAMS, A2aError

MAX_PARTS: Final = 1000
_MAX_ID: Final = 200
_STANDARD: Final = str.maketrans("-_", "+/")


@value(frozen=True, slots=True)
class AgentMessage:
    message_id: str
    texts: list[str]
    data: list[JsonObject]
    parts: list[JsonObject]
    """All of them in their order, as a run takes them; empty where none is a file."""
    context_id: str | None
    task_id: str | None
    wait: bool
    """Whether the answer is awaited; else the task is answered as it stands."""

    @property
    def input(self) -> Any:
        if self.parts:
            return self.parts
        if not self.texts and len(self.data) == 1:
            return self.data[0]
        return "\n\n".join([*self.texts, *(json.dumps(one).decode() for one in self.data)])


def read_agent_message(params: JsonObject, *, old: bool) -> AgentMessage:
    """Raises A2aError for what is no message. `old` is the spelling of 0.3."""
    message, configuration = params.get("message"), params.get("configuration") or {}
    if not isinstance(message, dict) or not isinstance(configuration, dict):
        raise A2aError(PARAMS, "The request has no message.")
    if message.get("role") not in ("ROLE_USER", "user"):
        raise A2aError(PARAMS, "The role of the message must be that of the user.")
    parts = message.get("parts")
    if not isinstance(parts, list) or not 0 < len(parts) <= MAX_PARTS:
        raise A2aError(PARAMS, f"A message has between 1 and {MAX_PARTS} parts.")
    read = [_part(one) for one in parts]
    texts = [one["text"] for one in read if one["type"] == "text"]
    data = [one["json"] for one in read if one["type"] == "json"]
    files = len(texts) + len(data) < len(read)
    blocking = configuration.get("blocking", True) if old else not configuration.get("returnImmediately")
    message_id = _id(message, "messageId")
    if message_id is None:
        raise A2aError(PARAMS, "The message has no messageId.")
    taken = read if files else []
    return AgentMessage(
        message_id, texts, data, taken, _id(message, "contextId"), _id(message, "taskId"), bool(blocking)
    )


def _part(given: Any) -> JsonObject:
    """As the input of a run has it."""
    one = given if isinstance(given, dict) else {}
    if isinstance(one.get("text"), str):
        return {"type": "text", "text": one["text"]}
    if isinstance(one.get("data"), dict):
        return {"type": "json", "json": one["data"]}
    if isinstance(one.get("file"), dict):  # of 0.3
        file = one["file"]
        one = {"raw": file.get("bytes"), "url": file.get("uri")}
        one |= {"mediaType": file.get("mimeType"), "filename": file.get("name")}
    if isinstance(one.get("raw"), str):
        return _file(one)
    if one.get("url"):
        raise A2aError(CONTENT_TYPE, "Nothing is fetched from addresses that a message names: send the bytes (raw).")
    raise A2aError(CONTENT_TYPE, "Only parts with text, with a data object or with the bytes of a file are taken.")


def _file(one: JsonObject) -> JsonObject:
    mime, name = one.get("mediaType") or "application/octet-stream", one.get("filename") or None
    if not isinstance(mime, str) or not isinstance(name, str | None):
        raise A2aError(PARAMS, "mediaType and filename must be texts.")
    mime = mime.partition(";")[0].strip().lower()
    kind = mime.partition("/")[0]
    # Both alphabets, and without the padding too: the protocol's encoding allows them.
    data = one["raw"].translate(_STANDARD).rstrip("=")
    made = {"type": kind if kind in ("image", "audio", "video") else "file", "mime": mime}
    return made | {"data": data + "=" * (-len(data) % 4)} | ({} if name is None else {"name": name})


def _id(value: JsonObject, name: str) -> str | None:
    found = value.get(name)
    if found is None or found == "":
        return None
    if not isinstance(found, str) or len(found) > _MAX_ID or "/" in found or any(ord(one) < 32 for one in found):
        raise A2aError(PARAMS, f"{name} must be a text of at most {_MAX_ID} characters without slashes.")
    return found
