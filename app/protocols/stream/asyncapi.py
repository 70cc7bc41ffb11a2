"""The AsyncAPI document of `/api/stream`: what a client may say, and every frame it may hear, from the catalog.

Made from the code that makes the frames; `openapi/asyncapi.json` is this document and is checked to be fresh.
"""

from typing import Any, Final

from app import __version__
from app.events.catalog import EVENTS, schema_of
from app.protocols.dialects.codex import ALIASES
from app.protocols.stream.commands import MAX_SEQ, MAX_THREADS, MAX_TYPES
from app.protocols.stream.socket import DIALECTS

Document = dict[str, Any]

_SEQ: Final = {"type": "integer", "minimum": 0, "maximum": MAX_SEQ}
_CURSOR: Final = {
    "description": "the last `seq` seen; null for live only; an object when the event was not seen whole",
    "oneOf": [
        _SEQ,
        {"type": "null"},
        {
            "type": "object",
            "properties": {"afterSeq": _SEQ, "afterPart": _SEQ},
            "required": ["afterSeq"],
        },
    ],
}
_TYPES: Final = {
    "type": "array",
    "items": {"type": "string", "pattern": "^[A-Za-z0-9_.*-]{1,100}$"},
    "minItems": 1,
    "maxItems": MAX_TYPES,
    "description": "types of frames to hear; `*` stands for anything",
}


def document() -> Document:
    messages = _commands() | _control() | _events() | _aliases()
    said = [name for name in messages if name.startswith("say_")]
    return {
        "asyncapi": "3.0.0",
        "info": {
            "title": "Holdfast stream",
            "version": __version__,
            "description": "Events of threads as they are committed, live or from a cursor on. See docs/stream.md.",
        },
        "channels": {
            "stream": {
                "address": "/api/stream",
                "messages": {name: {"$ref": f"#/components/messages/{name}"} for name in messages},
                "bindings": {"ws": {"method": "GET", "query": _query(), "bindingVersion": "0.1.0"}},
            }
        },
        "operations": {
            "say": _operation("receive", "What a client says", said),
            "hear": _operation("send", "What a client hears", [name for name in messages if name not in said]),
        },
        "components": {"messages": messages},
    }


def _operation(action: str, summary: str, names: list[str]) -> Document:
    return {
        "action": action,
        "summary": summary,
        "channel": {"$ref": "#/channels/stream"},
        "messages": [{"$ref": f"#/channels/stream/messages/{name}"} for name in names],
    }


def _query() -> Document:
    return {
        "type": "object",
        "properties": {
            "threadId": {"type": "string", "description": "hear only this thread"},
            "afterSeq": _SEQ | {"description": "with threadId: what came after this `seq`, then live"},
            "afterPart": _SEQ | {"description": "with afterSeq: that event was seen up to this part"},
            "types": _TYPES,
            "dialect": {
                "enum": ["native", *DIALECTS],
                "description": "the spelling of the events; in another than the native one each event is one frame",
            },
        },
    }


def _message(summary: str, properties: Document, required: list[str]) -> Document:
    payload = {"type": "object", "properties": properties, "required": required}
    return {"summary": summary, "contentType": "application/json", "payload": payload}


def _commands() -> Document:
    one = {"threadId": {"type": "string", "minLength": 1}, "afterSeq": _SEQ, "afterPart": _SEQ}
    several = {"type": "object", "minProperties": 1, "maxProperties": MAX_THREADS, "additionalProperties": _CURSOR}
    subscribe = {"type": {"const": "subscribe"}, **one, "threads": several, "types": _TYPES}
    return {
        "say_subscribe": _message("Set or replace the filter", subscribe, ["type"]),
        "say_unsubscribe": _message("Clear the filter", {"type": {"const": "unsubscribe"}}, ["type"]),
        "say_ping": _message("Ask for a pong", {"type": {"const": "ping"}}, ["type"]),
    }


def _control() -> Document:
    ready = {"type": {"const": "ready"}, "threadId": {"type": ["string", "null"]}}
    error = {"type": {"const": "error"}, "message": {"const": "invalid websocket command"}}
    return {
        "ready": _message("The first frame", ready, ["type", "threadId"]),
        "pong": _message("The answer to a ping", {"type": {"const": "pong"}}, ["type"]),
        "error": _message("That was no command; the socket stays open", error, ["type", "message"]),
    }


def _frame(name: str, everywhere: bool, payload: Document) -> Document:
    return {
        "type": {"const": name},
        "threadId": {"type": "null"} if everywhere else {"type": "string"},
        "seq": {"type": "integer", "minimum": 1},
        "part": {"type": "integer", "minimum": 0, "description": "which of the event's frames this is"},
        "last": {"type": "boolean", "description": "whether it is the event's last"},
        "payload": payload,
    }


_OF_FRAME: Final = ["type", "threadId", "seq", "part", "last", "payload"]


def _events() -> Document:
    made: Document = {}
    for name, cls in EVENTS.items():
        schema = schema_of(cls)
        summary = (cls.__doc__ or name).strip().splitlines()[0]
        envelope = {
            "id": {"type": "string"},
            "runId": {"type": ["string", "null"]},
            "at": {"type": "string", "format": "date-time"},
            "actor": {"type": "string"},
        }
        properties = _frame(name, cls.everywhere, {"$ref": f"../schemas/events/{schema['$id']}.json"}) | envelope
        made[name] = _message(summary, properties, [*_OF_FRAME, *envelope])
    return made


def _aliases() -> Document:
    made: Document = {}
    for name, (everywhere, summary) in ALIASES.items():
        frame = _frame(name, everywhere, {"type": "object"})
        if name.endswith(".*"):
            frame["type"] = {"type": "string", "pattern": "^" + name.replace(".", "\\.").replace("*", ".+") + "$"}
        made[name.replace(".*", "")] = _message(summary, frame, _OF_FRAME)
    return made
