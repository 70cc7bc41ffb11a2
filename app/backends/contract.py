"""The backend contract: an agent runtime takes a context and returns text or an output.

A backend has no other way out than its context. `resume` says what becomes of a run whose executor died:
`replay` re-enters and gets recorded results back, `restart` begins anew, `fail` ends it with a stated reason.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol, TypeAlias


@dataclass(frozen=True, slots=True)
class Output:
    text: str
    metadata: Mapping[str, Any] = field(default_factory=dict)
    artifacts: Sequence[Mapping[str, Any]] = ()
    message_id: str | None = None
    """The message whose deltas already told this text, if they did."""


Result: TypeAlias = str | Output
Resume: TypeAlias = Literal["replay", "restart", "fail"]


class Context(Protocol):
    """What the runtime lends to a backend for one run."""

    @property
    def run_id(self) -> str: ...

    @property
    def thread_id(self) -> str: ...

    @property
    def agent(self) -> str: ...

    @property
    def input(self) -> Any: ...

    async def emit(self, phase: str, **fields: Any) -> None:
        """Record a signal of the backend's own, `agent.*`. Returns when it is durable."""
        ...

    async def say(self, message_id: str, text: str, part: int = 0) -> None:
        """Record a piece of the answer as it is made."""
        ...


class Backend(Protocol):
    kind: str
    resume: Resume

    async def run(self, ctx: Context) -> Result: ...
