"""What a client asks for, read from the body of chat completions or responses into one shape.

What would change the meaning of the answer and cannot be done is refused. Leaves to `messages`: the conversation's own
shapes; to `parameters`: sampling; to `tool_choice`: the client's tools and which of them must be called.
"""

from collections.abc import Mapping
from dataclasses import field
from hashlib import sha256
from typing import Any, Final, Literal

from app.core import json
from app.core.json import JsonObject
from app.core.value import value
from app.protocols.dialects.openai_segment import parse_response_id
from app.protocols.http.request_fields import wrong_metadata
from app.protocols.openai.errors import Refusal
from app.protocols.openai.messages import chat_messages, response_items
from app.protocols.openai.parameters import chat_parameters, response_parameters
from app.protocols.openai.tool_choice import Choice, chosen_tools

OnDisconnect = Literal["detach", "cancel"]

_UPSTREAM: Final = frozenset(
    {"api_base", "api_key", "api_version", "base_url", "baseUrl", "apiBase", "apiKey", "endpoint", "deployment_id"}
)
"""Fields by which other gateways let a client say where a model is called. Here only the workspace says it."""
_PLAIN: Final = frozenset({"model", "messages", "stream"})
"""Most requests say nothing else, and then there is nothing else to look for."""
THREAD: Final = "thread_id"
ON_DISCONNECT: Final = "on_disconnect"


@value(frozen=True, slots=True)
class ClientRequest:
    api: Literal["chat", "responses"]
    agent: str
    messages: list[JsonObject]
    instructions: str | None = None
    client_tools: tuple[JsonObject, ...] = ()
    tool_choice: Choice | None = None
    response_schema: JsonObject | None = None
    parameters: JsonObject | None = None
    metadata: Mapping[str, Any] = field(default_factory=dict)
    thread_id: str | None = None
    previous: tuple[str, int] | None = None
    """The run and the segment of the response that is continued."""
    stream: bool = False
    background: bool = False
    include_usage: bool = False
    include_events: bool = False
    on_disconnect: OnDisconnect | None = None
    fingerprint: str = ""
    """Of the caller and the body: what a retry of the same request has in common with it."""


def chat_ask(body: JsonObject, fingerprint: str) -> ClientRequest:
    if body.keys() <= _PLAIN:
        instructions, messages = chat_messages(body.get("messages"))
        agent, stream = _text(body, "model"), _flag(body, "stream")
        return ClientRequest("chat", agent, messages, instructions, stream=stream, fingerprint=fingerprint)
    refuse_upstreams(body)
    parameters = chat_parameters(body)
    tools, choice = chosen_tools(body, nested=True)
    instructions, messages = chat_messages(body.get("messages"))
    options = _object(body, "stream_options")
    metadata = _metadata(body)
    return ClientRequest(
        "chat",
        _text(body, "model"),
        messages,
        instructions,
        tools,
        choice,
        _schema(_object(body, "response_format"), "response_format"),
        parameters,
        metadata,
        thread_id=_thread(metadata),
        stream=_flag(body, "stream"),
        include_usage=_flag(options, "include_usage"),
        include_events=_flag(options, "include_events"),
        on_disconnect=_policy(metadata),
        fingerprint=fingerprint,
    )


def responses_ask(body: JsonObject, fingerprint: str) -> ClientRequest:
    refuse_upstreams(body)
    if body.get("store") is False:
        raise Refusal("INVALID_REQUEST", "every run is stored; omit `store` or set it to true", param="store")
    parameters = response_parameters(body)
    tools, choice = chosen_tools(body, nested=False)
    instructions, messages = response_items(body.get("input"), body.get("instructions"))
    options, metadata = _object(body, "stream_options"), _metadata(body)
    conversation = body.get("conversation")
    named = conversation.get("id") if isinstance(conversation, dict) else conversation
    return ClientRequest(
        "responses",
        _text(body, "model"),
        messages,
        instructions,
        tools,
        choice,
        _schema(_object(_object(body, "text"), "format"), "text.format"),
        parameters,
        metadata,
        thread_id=_thread(metadata) or (named if isinstance(named, str) else None),
        previous=_previous(body.get("previous_response_id")),
        stream=_flag(body, "stream"),
        background=_flag(body, "background"),
        include_events=_flag(options, "include_events"),
        on_disconnect=_policy(metadata),
        fingerprint=fingerprint,
    )


def fingerprint_of(principal: str, raw: bytes) -> str:
    found = sha256(principal.encode() + b"\x00")
    found.update(raw)
    return found.hexdigest()[:40]


def text_size(ask: ClientRequest) -> int:
    """Characters of the conversation and its tools, without the content of media."""
    size = len(ask.instructions or "") + len(json.dumps([ask.client_tools, ask.response_schema]))
    for message in ask.messages:
        size += len(message["content"])
        size += sum(len(json.dumps(call)) for call in message.get("tool_calls") or ())
    return size


def refuse_upstreams(body: JsonObject) -> None:
    if _UPSTREAM.isdisjoint(body):
        return
    for name in _UPSTREAM & body.keys():
        raise Refusal("ADDRESS_REFUSED", "a client cannot choose where models are called", param=name)


def _text(body: JsonObject, name: str) -> str:
    value = body.get(name)
    if not isinstance(value, str) or not 0 < len(value) <= 200:
        raise Refusal("INVALID_REQUEST", f"{name} must be a text", param=name)
    return value


def _flag(body: JsonObject, name: str) -> bool:
    value = body.get(name)
    if value is None:
        return False
    if not isinstance(value, bool):
        raise Refusal("INVALID_REQUEST", f"{name} must be true or false", param=name)
    return value


def _object(body: JsonObject, name: str) -> JsonObject:
    value = body.get(name)
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise Refusal("INVALID_REQUEST", f"{name} must be an object", param=name)
    return value


def _metadata(body: JsonObject) -> JsonObject:
    metadata = _object(body, "metadata")
    if metadata and (wrong := wrong_metadata(metadata)) is not None:
        raise Refusal("INVALID_REQUEST", f"metadata {wrong}", param="metadata")
    return metadata


def _thread(metadata: JsonObject) -> str | None:
    value = metadata.get(THREAD)
    if value is None:
        return None
    if not isinstance(value, str) or not 0 < len(value) <= 200 or "/" in value:
        raise Refusal("INVALID_REQUEST", "metadata.thread_id must be the id of a thread", param="metadata.thread_id")
    return value


def _policy(metadata: JsonObject) -> OnDisconnect | None:
    value = metadata.get(ON_DISCONNECT)
    if value is None:
        return None
    return policy_named(value, f"metadata.{ON_DISCONNECT}")


def policy_named(value: Any, param: str) -> OnDisconnect:
    if value == "detach" or value == "cancel":
        named: OnDisconnect = value
        return named
    raise Refusal("INVALID_REQUEST", "on_disconnect must be detach or cancel", param=param)


def _previous(value: Any) -> tuple[str, int] | None:
    if value is None:
        return None
    found = parse_response_id(value) if isinstance(value, str) else None
    if found is None:
        raise Refusal("RESPONSE_NOT_FOUND", "there is no such response", param="previous_response_id", status=404)
    return found


def _schema(given: JsonObject, where: str) -> JsonObject | None:
    match given.get("type"):
        case None | "text":
            return None
        case "json_object":
            return {"type": "object"}
        case "json_schema":
            described = given.get("json_schema", given)
            schema = described.get("schema") if isinstance(described, dict) else None
            if isinstance(schema, dict):
                return schema
    raise Refusal("INVALID_REQUEST", "the format must be text, json_object or json_schema", param=where)
