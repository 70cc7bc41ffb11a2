"""For a provider of your own: a class with `stream(call)`, and its `ProviderKind` as an entry point of
`holdfast.providers`."""

from app.models.completion import CompletionRequest, FinishReason, Message, TokenUsage, ToolCall
from app.models.contract import (
    Batch,
    Completed,
    Provider,
    ProviderCall,
    ProviderDeps,
    ProviderKind,
    ReasoningDelta,
    Started,
    StreamError,
    StreamEvent,
    TextDelta,
    ToolCallDelta,
    UsageReport,
)

__all__ = [
    "Batch",
    "Completed",
    "CompletionRequest",
    "FinishReason",
    "Message",
    "Provider",
    "ProviderCall",
    "ProviderDeps",
    "ProviderKind",
    "ReasoningDelta",
    "Started",
    "StreamError",
    "StreamEvent",
    "TextDelta",
    "TokenUsage",
    "ToolCall",
    "ToolCallDelta",
    "UsageReport",
]
