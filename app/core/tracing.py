"""W3C trace context: read from a caller, known to the step that works, passed on to whom it calls.

Ids of spans follow from the ids of runs and calls, so that what a step passes on is known before its span is exported,
and a run that is resumed elsewhere goes on in the same trace. Leaves to others: reading headers (OpenTelemetry's
propagator) and exporting spans (`protocols.telemetry`).
"""

from collections.abc import Callable, Mapping
from contextvars import ContextVar, Token
from functools import cache
from hashlib import sha256
from types import TracebackType
from typing import Final, Self

from app.core.value import value

PARENT: Final = "traceparent"
STATE: Final = "tracestate"
_SAMPLED: Final = "01"
_MAX_STATE: Final = 512
"""Characters, as the standard asks vendors to pass on."""
_MAX_PARENT: Final = 256
"""Characters; a later version of the standard may append fields to its 55."""


def accepted(headers: Mapping[str, str]) -> dict[str, str] | None:
    """What a caller's headers say, to be stored with its run; None when they say nothing that can be used."""
    parent, state = headers.get(PARENT, ""), headers.get(STATE, "")
    if not parent or len(parent) > _MAX_PARENT:
        return None
    carrier = {PARENT: parent, STATE: state} if state and len(state) <= _MAX_STATE else {PARENT: parent}
    return _reader()(carrier)


@cache
def _reader() -> Callable[[dict[str, str]], dict[str, str] | None]:
    """Loaded with the first trace: most servers see none, and loading it would delay every start."""
    from opentelemetry.context import Context
    from opentelemetry.trace import get_current_span
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

    propagator, nothing = TraceContextTextMapPropagator(), Context()

    def read(carrier: dict[str, str]) -> dict[str, str] | None:
        found = get_current_span(propagator.extract(carrier, nothing)).get_span_context()
        if not found.is_valid:
            return None
        parent = {PARENT: f"00-{found.trace_id:032x}-{found.span_id:016x}-{found.trace_flags:02x}"}
        return parent | {STATE: found.trace_state.to_header()} if found.trace_state else parent

    return read


def span_id(key: str) -> str:
    return sha256(key.encode()).hexdigest()[:16]


def call_key(run_id: str, call_id: str) -> str:
    """Of a tool call: its id is only unique within a run."""
    return f"{run_id}/{call_id}"


@value(frozen=True, slots=True)
class Trace:
    """The place of a run in a trace: its `traceparent` without the last two fields, flags, and state."""

    trace_id: str
    span: str
    flags: str = _SAMPLED
    state: str | None = None
    exported: bool = False
    """Spans are exported: then a step passes on its own span, else what the caller sent goes on unchanged."""

    @classmethod
    def of_run(cls, run_id: str, context: Mapping[str, str] | None, *, exported: bool) -> Self | None:
        """None when there is nothing to pass on. Without a caller's trace, an exported run begins its own."""
        if context is None or PARENT not in context:
            return cls(sha256(run_id.encode()).hexdigest()[-32:], span_id(run_id), exported=True) if exported else None
        _, trace_id, parent, flags = context[PARENT].split("-")
        return cls(trace_id, span_id(run_id) if exported else parent, flags, context.get(STATE), exported)

    def headers(self) -> dict[str, str]:
        headers = {PARENT: f"00-{self.trace_id}-{self.span}-{self.flags}"}
        return headers if self.state is None else headers | {STATE: self.state}


current: ContextVar[Trace | None] = ContextVar("holdfast_trace", default=None)


def outgoing() -> dict[str, str]:
    """Headers for whom we call now; empty outside of a trace."""
    trace = current.get()
    return {} if trace is None else trace.headers()


class step:  # used as a word: `with step(key):`
    """What is called inside is passed the step's own span. Without a trace it costs one lookup."""

    __slots__ = ("_key", "_token")

    def __init__(self, key: str) -> None:
        self._key = key
        self._token: Token[Trace | None] | None = None

    def __enter__(self) -> None:
        trace = current.get()
        if trace is not None and trace.exported:
            inside = Trace(trace.trace_id, span_id(self._key), trace.flags, trace.state, exported=True)
            self._token = current.set(inside)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._token is not None:
            current.reset(self._token)
