"""What a provider gives and what the room is given: stream events, the provider protocol, the ports.

One stream of typed events comes out of every provider, in batches: a batch is whatever had arrived. It
begins with `Started`, ends with `Completed` or `StreamError`, and nothing follows. Non-streaming is the
same stream awaited to its end. Leaves to `router`: retries, fallbacks, recording; to `completion`: the
shapes asked and answered.
"""

from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, Protocol

from app.core.clock import Clock
from app.core.errors import Failure
from app.core.signal import CancelSignal
from app.core.value import contract_value, value
from app.events.catalog.base import Payload
from app.models.completion import (
    CompletionRequest,
    CompletionResponse,
    FinishReason,
    Part,
    Thought,
    TokenUsage,
    ToolCall,
)
from app.models.config import ModelConfig
from app.outside.http import HttpClient
from app.workspace.catalog import Kind

__all__ = [
    "Batch",
    "Budget",
    "CancelSignal",
    "Completed",
    "CompletionRequest",
    "CompletionResponse",
    "ContentPolicy",
    "DeltaScreen",
    "Estimate",
    "MakeScreen",
    "MessageContent",
    "Outside",
    "Provider",
    "ProviderCall",
    "ProviderDeps",
    "ProviderKind",
    "ReasoningDelta",
    "Record",
    "Reservation",
    "SecretResolver",
    "Sleep",
    "Started",
    "StreamError",
    "StreamEvent",
    "TextDelta",
    "ToolCall",
    "ToolCallDelta",
    "UsageReport",
]


# Tuples and not dataclasses: one is made per token, and a tuple costs a third.
class Started(NamedTuple):
    provider_request_id: str | None = None


class TextDelta(NamedTuple):
    text: str


class ReasoningDelta(NamedTuple):
    text: str


class ToolCallDelta(NamedTuple):
    """A piece of a call's arguments; never parsed until the `ToolCall` is complete."""

    part: int
    """Which call of the answer, from 0."""
    id: str
    name: str
    text: str


class UsageReport(NamedTuple):
    """Running totals; the last one counts."""

    input_tokens: int = 0
    output_tokens: int = 0
    reasoning_tokens: int | None = None
    cached_tokens: int | None = None


class Completed(NamedTuple):
    finish_reason: FinishReason
    parts: tuple[Part, ...] = ()
    thoughts: tuple[Thought, ...] = ()


class StreamError(NamedTuple):
    """Why the stream ended early. `failure.retryable` says whether the same call may succeed later."""

    failure: Failure
    retry_after: float | None = None


StreamEvent = Started | TextDelta | ReasoningDelta | ToolCallDelta | ToolCall | UsageReport | Completed | StreamError
Batch = Sequence[StreamEvent]


@value(frozen=True, slots=True)
class ProviderCall:
    config: ModelConfig
    request: CompletionRequest
    max_tokens: int | None
    """The request's wish within the model's limit."""
    stream: bool = True


class Provider(Protocol):
    @property
    def capabilities(self) -> frozenset[str]:
        """What models of this kind usually have, for a model that declares nothing."""
        ...

    def notes(self, call: ProviderCall) -> list[str]:
        """What of the request this provider has no word for and will leave out."""
        ...

    def stream(self, call: ProviderCall) -> AsyncGenerator[Batch, None]:
        """Closing the iterator closes the connection. Upstream faults are a `StreamError`, never raised."""
        ...


SecretResolver = Callable[[str], str | None]
"""A text with its `${env:NAME}` references replaced, at the moment of the call; None when one is not set."""

Outside = Callable[[], AbstractContextManager[None]]
"""A scope in which a call waits for long: whoever made the call may use its place for something else meanwhile."""

Sleep = Callable[[float], Awaitable[None]]


@contract_value(frozen=True, slots=True)
class ProviderDeps:
    """What a provider kind may use."""

    client: HttpClient
    secrets: SecretResolver
    clock: Clock
    sleep: Sleep


@dataclass(frozen=True, kw_only=True)
class ProviderKind(Kind):
    make: Callable[[ProviderDeps], Provider]
    """Called once, when a model of the kind is first used."""


Record = Callable[[Payload], Awaitable[Any]]
"""Returns after the event is durable. A payload that comes back is the event as it was stored, redacted: the answer
is then made of it, so that a resumed run sees what an uninterrupted one saw. A `PlacedEvent` is on its way already, and
is awaited before the next one. A delta that is `closing` may be stored with the payload that follows it."""


@value(frozen=True, slots=True)
class MessageContent:
    """What a model said, complete."""

    text: str
    reasoning: str
    calls: tuple[ToolCall, ...]


class DeltaScreen(Protocol):
    """Decides what of one message may leave, piece by piece and as a whole. Made for one attempt."""

    @property
    def holds(self) -> bool:
        """Whether nothing leaves before the message is complete."""
        ...

    @property
    def has_rules(self) -> bool:
        """Whether more than secrets is looked for: then a complete message is judged before it is recorded."""
        ...

    @property
    def refused(self) -> Failure | None:
        """Why the message must not go on, once that is known."""
        ...

    def text(self, text: str) -> str:
        """What may be published now of the answer's text, this piece included."""
        ...

    def take(self, phase: str, part: int, text: str) -> str:
        """The same for any text of the message: a delta's phase, and which tool call of it."""
        ...

    def end(self) -> list[tuple[str, int, str]]:
        """What is left of each text, now that nothing follows."""
        ...

    async def judge(self, content: MessageContent) -> MessageContent | Failure:
        """The complete message as it may be recorded. The texts are as they came if it `holds`, else as published."""
        ...

    async def approve(self, completed: Payload) -> None:
        """Waits for a person where a rule asks for one, with the event that is about to be recorded."""
        ...

    async def report(self) -> None:
        """Records what was found, whatever became of the message."""
        ...


MakeScreen = Callable[[str], DeltaScreen]
"""The screen of an attempt, by the id of its message."""


@value(frozen=True, slots=True)
class ContentPolicy:
    """How much of a call's content goes to the log; the recorder redacts whatever does."""

    messages: Literal["full", "count"] = "full"
    reasoning: Literal["none", "metadata", "full"] = "none"
    """How much of a model's reasoning is left out: nothing, its words, or also how many tokens it took."""

    @property
    def shows_reasoning(self) -> bool:
        return self.reasoning == "none"


class Estimate(NamedTuple):
    """The most that a call may use: what a budget must have left before it is made."""

    model: str
    input_tokens: int
    output_tokens: int
    cost_usd: float
    calls: int = 1
    """Of a model: 0 for an embedding, which no limit of model calls counts."""


class Reservation(NamedTuple):
    id: str
    estimate: Estimate


class Budget(Protocol):
    """Tokens and cost of a tenant or run. `reserve` is atomic; each reservation is settled exactly once."""

    async def reserve(self, estimate: Estimate) -> Reservation | Failure: ...

    async def settle(self, reservation: Reservation, usage: TokenUsage) -> None: ...
