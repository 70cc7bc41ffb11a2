"""Records that several families use."""

from typing import Any, Literal

from app.events.catalog.base import Open, Value


class ErrorValue(Value):
    """A failure as it stands in an event; the shape of `error` on the wire."""

    code: str
    message: str
    retryable: bool = False
    causes: list["ErrorValue"] | None = None


class ArtifactValue(Open):
    """An immutable named output, by reference."""

    id: str
    name: str
    mime: str = "application/octet-stream"
    size: int | None = None
    sha256: str | None = None
    kind: str | None = None
    version: int | None = None
    """Of the thread's artifacts with this name, counted from 1."""
    previous: str | None = None
    """The id of the version before."""
    former: str | None = None
    """Of a file that was changed: the hash of what it held before; empty where there was no file."""
    diff: str | None = None
    """Of a text file that was changed: a unified diff from what it held before."""


class Usage(Value):
    input_tokens: int = 0
    output_tokens: int = 0
    reasoning_tokens: int | None = None
    cached_tokens: int | None = None
    cost_usd: float | None = None


class ToolCallValue(Value):
    """A call that a model asked for. `raw_args` is set when the arguments did not parse.

    `id` is ours and unique. `upstream_id` is the provider's own id of the call, only ever sent back to a provider.
    """

    id: str
    name: str
    args: dict[str, Any]
    raw_args: str | None = None
    upstream_id: str | None = None


class IssueValue(Value):
    path: str
    message: str


Effect = Literal["readonly", "keyed", "unsafe"]
