"""The state of a graph as one JSON document, so that it is redacted, shown and hashed as everything else in the log."""

import base64
from collections.abc import Mapping
from typing import Any, Final

from langchain_core.messages import BaseMessage, message_to_dict, messages_from_dict

from app.core.json import JsonObject

FORMAT: Final = "holdfast.langgraph/1"
_MESSAGE: Final = "$message"
_BYTES: Final = "$bytes"


class NotJsonError(Exception):
    """A value that has no place in a JSON document."""


def keep(values: Mapping[str, Any]) -> tuple[JsonObject, list[str]]:
    """The document, and the keys whose values cannot be written as JSON. Channels of the machinery are left out."""
    kept: JsonObject = {}
    omitted: list[str] = []
    for name, value in values.items():
        if name.startswith("__") or ":" in name:
            continue
        try:
            kept[name] = written(value)
        except NotJsonError:
            omitted.append(name)
    return {"format": FORMAT, "values": kept}, sorted(omitted)


def restored(document: Any) -> dict[str, Any]:
    if not isinstance(document, Mapping) or document.get("format") != FORMAT:
        return {}
    return {name: read(value) for name, value in document["values"].items()}


def written(value: Any) -> Any:
    if isinstance(value, BaseMessage):
        return {_MESSAGE: written(message_to_dict(value))}
    if isinstance(value, bytes):
        return {_BYTES: base64.b64encode(value).decode()}
    if isinstance(value, Mapping):
        if not all(isinstance(name, str) for name in value):
            raise NotJsonError
        return {name: written(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [written(item) for item in value]
    if value is None or isinstance(value, str | bool | int | float):
        return value
    raise NotJsonError


def read(value: Any) -> Any:
    if isinstance(value, Mapping):
        if value.keys() == {_MESSAGE}:
            return messages_from_dict([read(value[_MESSAGE])])[0]
        if value.keys() == {_BYTES}:
            return base64.b64decode(value[_BYTES])
        return {name: read(item) for name, item in value.items()}
    return [read(item) for item in value] if isinstance(value, list) else value
