"""Traces as a fold of committed events: one span for a run, each model call, each tool call and each wait for a person.

Names and attributes follow the GenAI conventions. Contents (inputs, answers, arguments) are left out, except for the
payload fields that the workspace permits (`redaction.traceFields`), as the log has them, redacted. Ids follow from
those of runs and calls (`core.tracing`), so that a span can name its parent before that one has ended, and a resumed
run stays one trace. Leaves to others: sampling and sending (the OpenTelemetry SDK, `otlp`).
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from typing import Any, Final, Protocol

import structlog
from opentelemetry.trace import (
    NonRecordingSpan,
    SpanContext,
    SpanKind,
    Status,
    StatusCode,
    TraceFlags,
    Tracer,
    TraceState,
    set_span_in_context,
)

from app.core import json
from app.core.recent import RecentDict
from app.core.tracing import PARENT, Trace, call_key, span_id
from app.core.value import mutable
from app.events.catalog import execution, interrupt, model, request, tool
from app.events.envelope import Event

MAX_OPEN_RUNS: Final = 20_000
MAX_OPEN_STEPS: Final = 1000
"""Per run. A span over this limit is exported without its beginning."""

MAX_CONTENT: Final = 4096
"""Characters of a permitted field: a span is no place for documents."""

log = structlog.get_logger("holdfast.spans")


class NextIds(Protocol):
    """The SDK's source of ids, which takes them from us."""

    def take_next(self, trace_id: str, span: str) -> None: ...


@mutable(slots=True)
class _RunSpans:
    trace: Trace
    parent: str | None
    """Span id above the run's own."""
    began: int
    agent: str
    thread: str
    last: int
    steps: dict[str, tuple[int, dict[str, Any]]] = field(default_factory=dict)
    contents: dict[str, Any] = field(default_factory=dict)
    """What of the run's request is permitted."""


class Spans:
    def __init__(
        self,
        tracer: Tracer,
        ids: NextIds,
        permitted: Callable[[], Sequence[str]] = tuple,
        redact: Callable[[Any], Any] = lambda value: value,
    ) -> None:
        """`permitted` are the payload fields that may be shown, `redact` takes out of them what must not be."""
        self._tracer, self._ids, self._permitted, self._redact = tracer, ids, permitted, redact
        self._runs = RecentDict[tuple[str, str], _RunSpans](MAX_OPEN_RUNS)
        self._broken = False
        self._folds: dict[str, Callable[[_RunSpans, Event, dict[str, Any]], None]] = {
            model.ModelRequested.type: self._model_requested,
            model.ModelCompleted.type: self._model_ended,
            model.ModelFailed.type: self._model_ended,
            tool.ToolInvoked.type: self._tool_invoked,
            tool.ToolResulted.type: self._tool_resulted,
            interrupt.InterruptRaised.type: self._raised,
            interrupt.InterruptResolved.type: self._closed,
            interrupt.InterruptExpired.type: self._closed,
            execution.StepCompleted.type: self._step_completed,
            request.RequestCompleted.type: self._ended,
            request.RequestFailed.type: self._ended,
            request.RequestCancelled.type: self._ended,
        }

    def committed(self, events: Sequence[Event]) -> None:
        """Called after each commit, on the log's own task: it never raises and never waits."""
        for event in events:
            if (event.type not in self._folds and event.type != request.RequestQueued.type) or event.run_id is None:
                continue
            try:
                self._fold(event)
            except Exception:
                # A span is never worth the log. Said once: the next event would say the same.
                if not self._broken:
                    self._broken = True
                    log.exception("spans.fold_failed", type=event.type)

    @property
    def open_runs(self) -> int:
        return len(self._runs)

    def _fold(self, event: Event) -> None:
        assert event.run_id is not None
        key, payload = (event.tenant, event.run_id), event.payload
        run = self._runs.get(key)
        if run is None:
            # A run of an earlier life of the process has no beginning here; its later spans are exported all the same.
            run = self._begun(event, payload)
            run.contents = self._contents(payload)
            self._runs.put(key, run)
        fold = self._folds.get(event.type)
        if fold is not None:
            fold(run, event, payload)
        run.last = event.at

    def _begun(self, event: Event, payload: dict[str, Any]) -> _RunSpans:
        assert event.run_id is not None
        if event.type != request.RequestQueued.type:
            payload = {}
        name = payload.get("agent") or payload.get("tool") or payload.get("workflow") or "run"
        above = self._runs.get((event.tenant, payload.get("parentRunId") or ""))
        if above is not None:
            call = payload.get("callId")
            parent = span_id(call_key(payload["parentRunId"], call)) if call else above.trace.span
            own = Trace(
                above.trace.trace_id, span_id(event.run_id), above.trace.flags, above.trace.state, exported=True
            )
            return _RunSpans(own, parent, event.at, name, event.thread_id, event.at)
        context: Mapping[str, str] | None = payload.get("traceContext")
        trace = Trace.of_run(event.run_id, context, exported=True)
        assert trace is not None, "an exported run always has a trace"
        incoming = context[PARENT].split("-")[2] if context and trace.trace_id in context.get(PARENT, "") else None
        return _RunSpans(trace, incoming, event.at, name, event.thread_id, event.at)

    # -- folds ---------------------------------------------------------------------------------------

    def _model_requested(self, run: _RunSpans, event: Event, payload: dict[str, Any]) -> None:
        shown = self._contents(payload) | {"gen_ai.request.model": payload["providerModel"]}
        self._open(run, payload["messageId"], event, shown)

    def _model_ended(self, run: _RunSpans, event: Event, payload: dict[str, Any]) -> None:
        began, known = self._opened(run, payload["messageId"], event, payload)
        usage = payload.get("usage") or {}
        attributes = (known | self._contents(payload)) | {
            "gen_ai.operation.name": "chat",
            "gen_ai.provider.name": payload["provider"],
            "holdfast.model": payload["model"],
            "holdfast.attempt": payload.get("attempt"),
            "gen_ai.usage.input_tokens": usage.get("inputTokens"),
            "gen_ai.usage.output_tokens": usage.get("outputTokens"),
            "gen_ai.response.id": payload.get("providerRequestId"),
            "gen_ai.response.finish_reasons": [payload["finishReason"]] if "finishReason" in payload else None,
            "gen_ai.response.time_to_first_chunk": _seconds(payload.get("firstTokenMs")),
        }
        name = f"chat {known.get('gen_ai.request.model', payload['model'])}"
        # A retried attempt has a message id of its own, so each attempt is a span.
        self._export(run, name, payload["messageId"], SpanKind.CLIENT, began, event, attributes, payload.get("error"))

    def _tool_invoked(self, run: _RunSpans, event: Event, payload: dict[str, Any]) -> None:
        self._open(
            run, payload["callId"], event, self._contents(payload) | {"holdfast.tool.effect": payload.get("effect")}
        )

    def _tool_resulted(self, run: _RunSpans, event: Event, payload: dict[str, Any]) -> None:
        assert event.run_id is not None
        began, known = self._opened(run, payload["callId"], event, payload)
        attributes = (known | self._contents(payload)) | {
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.tool.name": payload["tool"],
            "gen_ai.tool.call.id": payload["callId"],
        }
        key = call_key(event.run_id, payload["callId"])
        self._export(
            run,
            f"execute_tool {payload['tool']}",
            key,
            SpanKind.INTERNAL,
            began,
            event,
            attributes,
            payload.get("error"),
        )

    def _raised(self, run: _RunSpans, event: Event, payload: dict[str, Any]) -> None:
        self._open(
            run, payload["interruptId"], event, self._contents(payload) | {"holdfast.interrupt.kind": payload["kind"]}
        )

    def _closed(self, run: _RunSpans, event: Event, payload: dict[str, Any]) -> None:
        began, known = self._opened(run, payload["interruptId"], event, payload)
        name = f"wait {known.get('holdfast.interrupt.kind', 'interrupt')}"
        self._export(
            run, name, payload["interruptId"], SpanKind.INTERNAL, began, event, known | self._contents(payload)
        )

    def _step_completed(self, run: _RunSpans, event: Event, payload: dict[str, Any]) -> None:
        # It began when the run's last event was written: steps of a run follow each other.
        shown = self._contents(payload)
        self._export(run, f"step {payload['step']}", event.id, SpanKind.INTERNAL, run.last, event, shown)

    def _ended(self, run: _RunSpans, event: Event, payload: dict[str, Any]) -> None:
        assert event.run_id is not None
        del self._runs[event.tenant, event.run_id]
        attributes = (run.contents | self._contents(payload)) | {
            "gen_ai.operation.name": "invoke_agent",
            "gen_ai.agent.name": run.agent,
            "gen_ai.conversation.id": run.thread,
            "holdfast.run.id": event.run_id,
            "holdfast.run.status": event.type.rsplit(".", 1)[1],
        }
        self._export(
            run,
            f"invoke_agent {run.agent}",
            event.run_id,
            SpanKind.SERVER,
            run.began,
            event,
            attributes,
            payload.get("error"),
            parent=run.parent,
        )

    def _contents(self, payload: dict[str, Any]) -> dict[str, Any]:
        permitted = self._permitted()
        return {
            f"holdfast.{name}": _shown(self._redact(payload[name]))
            for name in permitted
            if payload.get(name) is not None
        }

    # -- export --------------------------------------------------------------------------------------

    def _open(self, run: _RunSpans, key: str, event: Event, attributes: dict[str, Any]) -> None:
        if len(run.steps) < MAX_OPEN_STEPS:
            run.steps[key] = (event.at, attributes)

    def _opened(self, run: _RunSpans, key: str, event: Event, payload: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        return run.steps.pop(key, (event.at - (payload.get("durationMs") or 0), {}))

    def _export(
        self,
        run: _RunSpans,
        name: str,
        key: str,
        kind: SpanKind,
        began: int,
        event: Event,
        attributes: dict[str, Any],
        error: Mapping[str, Any] | None = None,
        *,
        parent: str | None = "",
    ) -> None:
        """A span is started and ended at once, with the times that the log has."""
        above = run.trace.span if parent == "" else parent
        self._ids.take_next(run.trace.trace_id, span_id(key))
        if error is not None:
            attributes = attributes | {"error.type": error["code"]}
        span = self._tracer.start_span(
            name,
            context=_context(run.trace, above),
            kind=kind,
            attributes={name: value for name, value in attributes.items() if value is not None},
            start_time=began * 1_000_000,
        )
        if error is not None:
            span.set_status(Status(StatusCode.ERROR, error["code"]))
        span.end(event.at * 1_000_000)


def _shown(value: Any) -> str | int | float | bool:
    if isinstance(value, bool | int | float):
        return value
    text = value if isinstance(value, str) else json.dumps(value).decode()
    return text[:MAX_CONTENT]


def _context(trace: Trace, above: str | None) -> Any:
    if above is None:
        return set_span_in_context(NonRecordingSpan(SpanContext(0, 0, is_remote=False)))
    state = TraceState.from_header([trace.state]) if trace.state else None
    flags = TraceFlags(int(trace.flags, 16))
    return set_span_in_context(
        NonRecordingSpan(SpanContext(int(trace.trace_id, 16), int(above, 16), True, flags, state))
    )


def _seconds(milliseconds: int | None) -> float | None:
    return None if milliseconds is None else milliseconds / 1000
