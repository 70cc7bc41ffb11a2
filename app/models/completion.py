"""What a model is asked and what it answers: the one shape over every provider, as frozen values.

`to_json` gives the published shape (`completion_request_v1`, `completion_response_v1`) with our optional
fields. Media stay bytes by reference: JSON names them by hash and size, only the wire (`media`) encodes
them.
"""

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from operator import attrgetter
from typing import Any, Final, Literal, NamedTuple, get_args

from app.core import json
from app.core.value import contract_value, value

SCHEMA_VERSION: Final = "v1"
Role = Literal["system", "user", "assistant", "tool"]
FinishReason = Literal["stop", "tool_use", "max_tokens", "safety"]
_FINISH_REASONS: Final = frozenset(get_args(FinishReason))
MediaKind = Literal["image", "audio", "video", "file"]
_KNOBS: Final = (
    "tool_choice",
    "parallel_tool_calls",
    "max_tokens",
    "temperature",
    "top_p",
    "seed",
    "presence_penalty",
    "frequency_penalty",
)
_UNSET: Final = (None,) * len(_KNOBS)
_knobs: Final = attrgetter(*_KNOBS)
Effort = Literal["none", "minimal", "low", "medium", "high", "xhigh", "max"]


@contract_value(frozen=True, slots=True)
class Text:
    text: str

    def to_json(self) -> json.JsonObject:
        return {"type": "text", "text": self.text}


@contract_value(frozen=True, slots=True)
class JsonPart:
    value: Any

    def to_json(self) -> json.JsonObject:
        return {"type": "json", "json": self.value}


@contract_value(frozen=True, slots=True)
class Media:
    """Image, audio, video or file. `data` is never copied; `sha256` is its hash where already known."""

    kind: MediaKind
    mime: str
    data: bytes | memoryview = field(repr=False)
    name: str | None = None
    sha256: str | None = None

    def to_json(self) -> json.JsonObject:
        known = self.sha256 or hashlib.sha256(self.data).hexdigest()
        blob = {"sha256": known, "size": memoryview(self.data).nbytes, "mime": self.mime}
        made: json.JsonObject = {"type": self.kind, "mime": self.mime, "blob": blob}
        return made if self.name is None else made | {"name": self.name}


@contract_value(frozen=True, slots=True)
class Thought:
    """Reasoning that a provider expects back unchanged in the next turn; only it can read `signature`.

    `call_id` binds it to a tool call where the provider signs calls.
    """

    provider: str
    text: str = ""
    signature: str | None = None
    call_id: str | None = None

    def to_json(self) -> json.JsonObject:
        made = {"provider": self.provider, "text": self.text}
        if self.signature is not None:
            made["signature"] = self.signature
        return made if self.call_id is None else made | {"call_id": self.call_id}


Part = Text | JsonPart | Media


class ToolCall(NamedTuple):
    """A call that a model asks for. Arguments that did not parse are `{}` with the text in `raw_args`."""

    id: str
    name: str
    args: json.JsonObject
    raw_args: str | None = None
    upstream_id: str | None = None
    """The provider's own id, for that provider only; `id` is ours once the call has left the models package."""

    def to_json(self) -> json.JsonObject:
        made: json.JsonObject = {"id": self.id, "name": self.name, "args": self.args}
        if self.raw_args is not None:
            made["raw_args"] = self.raw_args
        if self.upstream_id is not None:
            made["upstream_id"] = self.upstream_id
        return made


@value(frozen=True, slots=True)
class Message:
    role: Role
    content: str = ""
    parts: tuple[Part, ...] = ()
    """When given, what is sent instead of `content`, which stays the text of it."""
    tool_calls: tuple[ToolCall, ...] = ()
    tool_call_id: str | None = None
    name: str | None = None
    """Of a tool message: the tool that answered."""
    thoughts: tuple[Thought, ...] = ()
    """Of an assistant message: what its provider wants back."""

    def to_json(self) -> json.JsonObject:
        made: json.JsonObject = {"role": self.role, "content": self.content}
        if self.parts:
            made["parts"] = [part.to_json() for part in self.parts]
        if self.tool_calls:
            made["tool_calls"] = [call.to_json() for call in self.tool_calls]
        if self.tool_call_id is not None:
            made["tool_call_id"] = self.tool_call_id
        if self.name is not None:
            made["name"] = self.name
        if self.thoughts:
            made["thoughts"] = [thought.to_json() for thought in self.thoughts]
        return made

    @property
    def pieces(self) -> tuple[Part, ...]:
        return self.parts or ((Text(self.content),) if self.content else ())


@contract_value(frozen=True, slots=True)
class ToolDef:
    name: str
    description: str = ""
    input_schema: Mapping[str, Any] = field(default_factory=lambda: {"type": "object"})

    def to_json(self) -> json.JsonObject:
        return {"name": self.name, "description": self.description, "schema_in": dict(self.input_schema)}


@contract_value(frozen=True, slots=True)
class ReasoningLevel:
    """How much to think: a level, a number of tokens, or both (a provider takes what it knows)."""

    effort: Effort | None = None
    budget: int | None = None

    def to_json(self) -> json.JsonObject:
        return {k: v for k, v in (("effort", self.effort), ("budget", self.budget)) if v is not None}


@value(frozen=True, slots=True)
class CompletionRequest:
    messages: tuple[Message, ...]
    tools: tuple[ToolDef, ...] = ()
    tool_choice: str | None = None
    """`auto`, `none`, `required`, or the name of one tool."""
    parallel_tool_calls: bool | None = None
    max_tokens: int | None = None
    temperature: float | None = None
    top_p: float | None = None
    stop: tuple[str, ...] = ()
    seed: int | None = None
    presence_penalty: float | None = None
    frequency_penalty: float | None = None
    reasoning: ReasoningLevel | None = None
    response_schema: Mapping[str, Any] | None = None

    def parameters(self) -> json.JsonObject:
        """Every knob that was set, without the contents."""
        knobs = _knobs(self)
        made: json.JsonObject = {}
        if knobs != _UNSET:
            made = {name: value for name, value in zip(_KNOBS, knobs, strict=True) if value is not None}
        if self.tool_choice not in (None, "auto", "none", "required"):
            made["tool_choice"] = {"name": self.tool_choice}
        if self.stop:
            made["stop"] = list(self.stop)
        if self.reasoning is not None:
            made["reasoning"] = self.reasoning.to_json()
        if self.response_schema is not None:
            made["response_schema"] = dict(self.response_schema)
        return made

    def to_json(self, model: str) -> json.JsonObject:
        made: json.JsonObject = {
            "messages": [message.to_json() for message in self.messages],
            "model": model,
            "schema_version": SCHEMA_VERSION,
        }
        if self.tools:
            made["tools"] = [tool.to_json() for tool in self.tools]
        made.update(self.parameters())
        return made


def request_hash(document: json.JsonObject) -> str:
    """The identity of a request, the same on every machine; over what `to_json` gave."""
    return hashlib.sha256(json.canonical(document)).hexdigest()


@value(frozen=True, slots=True)
class TokenUsage:
    input_tokens: int = 0
    output_tokens: int = 0
    reasoning_tokens: int | None = None
    cached_tokens: int | None = None
    cost_usd: float | None = None

    def to_json(self) -> json.JsonObject:
        made: json.JsonObject = {"input_tokens": self.input_tokens, "output_tokens": self.output_tokens}
        for name in ("reasoning_tokens", "cached_tokens", "cost_usd"):
            value = getattr(self, name)
            if value is not None:
                made[name] = value
        return made


@value(frozen=True, slots=True)
class CompletionResponse:
    text: str
    tool_calls: tuple[ToolCall, ...]
    finish_reason: FinishReason
    usage: TokenUsage
    model: str
    """The workspace's name of the model that answered."""
    message_id: str
    """The message in the log; not the one asked for when a cut-off one was restarted."""
    parts: tuple[Part, ...] = ()
    """Media that the model made."""
    thoughts: tuple[Thought, ...] = ()
    """What the next request should carry back to the same provider."""
    reasoning: str = ""
    value: Any = None
    """The parsed and validated text when a `response_schema` was asked for."""

    def to_json(self) -> json.JsonObject:
        made: json.JsonObject = {
            "text": self.text,
            "tool_calls": [call.to_json() for call in self.tool_calls],
            "finish_reason": self.finish_reason,
            "usage": self.usage.to_json(),
            "model": self.model,
            "schema_version": SCHEMA_VERSION,
        }
        if self.parts:
            made["parts"] = [part.to_json() for part in self.parts]
        if self.thoughts:
            made["thoughts"] = [thought.to_json() for thought in self.thoughts]
        if self.reasoning:
            made["reasoning"] = self.reasoning
        return made

    @property
    def is_plain(self) -> bool:
        """Whether it is a text with whole numbers and a known end, which matches its schema. Whatever else there is,
        and the numbers, are as the provider sent them."""
        used = self.usage
        return (
            not (self.tool_calls or self.parts or self.thoughts)
            and self.finish_reason in _FINISH_REASONS
            and type(used.input_tokens) is int
            and type(used.output_tokens) is int
            and (used.reasoning_tokens is None or type(used.reasoning_tokens) is int)
            and (used.cached_tokens is None or type(used.cached_tokens) is int)
        )

    def as_message(self) -> Message:
        """What to append to the messages of the next request."""
        parts = (Text(self.text), *self.parts) if self.parts and self.text else self.parts
        return Message("assistant", self.text, parts, self.tool_calls, thoughts=self.thoughts)


LoadBlob = Callable[[Mapping[str, Any]], bytes | memoryview]
"""The bytes of a blob reference `{sha256, size, mime}`."""


def message_from_json(document: Mapping[str, Any], load: LoadBlob) -> Message:
    """A message as `to_json` wrote it, for conversations that are read back from the log."""
    if len(document) == 2:
        return Message(document["role"], document["content"])  # as nearly all of them are
    return Message(
        role=document["role"],
        content=document["content"],
        parts=tuple(_part_from_json(part, load) for part in document.get("parts", ())),
        tool_calls=tuple(
            ToolCall(call["id"], call["name"], call["args"], call.get("raw_args"), call.get("upstream_id"))
            for call in document.get("tool_calls", ())
        ),
        tool_call_id=document.get("tool_call_id"),
        name=document.get("name"),
        thoughts=tuple(Thought(**thought) for thought in document.get("thoughts", ())),
    )


def _part_from_json(part: Mapping[str, Any], load: LoadBlob) -> Part:
    if part["type"] == "text":
        return Text(part["text"])
    if part["type"] == "json":
        return JsonPart(part["json"])
    blob = part["blob"]
    return Media(part["type"], part.get("mime", blob["mime"]), load(blob), part.get("name"), blob["sha256"])


# A picture costs about this much with every provider; the exact count comes back as usage.
_MEDIA_TOKENS: Final = 1_000


def estimate_tokens(request: CompletionRequest) -> int:
    """Bytes / 4, the usual rule of thumb, before a provider says what it really was."""
    size = 0
    for message in request.messages:
        size += 16
        if not message.parts:
            size += _bytes(message.content)
        for part in message.parts:
            size += _part_size(part)
        for call in message.tool_calls:
            size += len(json.dumps(call.args)) + len(call.name)
    if request.tools:
        size += len(json.dumps([tool.to_json() for tool in request.tools]))
    if request.response_schema is not None:
        size += len(json.dumps(dict(request.response_schema)))
    return size // 4 + 1


def _part_size(part: Part) -> int:
    if isinstance(part, Media):
        return 4 * _MEDIA_TOKENS
    if isinstance(part, JsonPart):
        return len(json.dumps(part.value))
    return _bytes(part.text)


def _bytes(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))


def text_of(parts: Sequence[Part]) -> str:
    """Text and JSON of the parts, for a provider that takes only a string."""
    made = []
    for part in parts:
        if isinstance(part, Text):
            made.append(part.text)
        elif isinstance(part, JsonPart):
            made.append(json.dumps(part.value).decode())
    return "\n".join(made)
