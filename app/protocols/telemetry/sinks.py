"""Telemetry sinks: where committed events are sent besides the log, such as standard output or an OTLP collector.

A sink gets the envelope of each event and the payload fields that the workspace permits in traces, without personal
data where the workspace hides it there. It is fed from a bounded queue, and what does not fit is dropped and counted.
Leaves to the log: being complete.
"""

import asyncio
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

import structlog

from app.core import json
from app.core.metrics import Metrics
from app.events.catalog import adapter
from app.events.envelope import Event, iso_at
from app.events.observers import Consume, Observer, called
from app.workspace.catalog import Kind, Kinds
from app.workspace.specs.runtime import TelemetrySink

log = structlog.get_logger("holdfast.sinks")
Permitted = Callable[[], Sequence[str]]
Redact = Callable[[Any], Any]


class Sink(Protocol):
    """Receives events in batches, in order. The method may be async."""

    def send(self, events: Sequence[Mapping[str, Any]]) -> Awaitable[None] | None: ...


@dataclass(frozen=True, kw_only=True)
class SinkKind(Kind):
    make: Callable[[Mapping[str, Any]], Sink]
    """Called with the sink's `config`."""


class StdoutSink:
    """One JSON line for each event."""

    def send(self, events: Sequence[Mapping[str, Any]]) -> None:
        sys.stdout.buffer.write(b"".join(json.dumps(event) + b"\n" for event in events))
        sys.stdout.buffer.flush()


STDOUT: Final = SinkKind(name="stdout", make=lambda _config: StdoutSink())


class OtlpSink:
    """Spans of runs, steps and model calls by OTLP over HTTP, as `HOLDFAST_TRACES=otlp` sends them."""

    def __init__(self, permitted: Permitted, redact: Redact) -> None:
        from app.protocols.telemetry.otlp import open_tracer
        from app.protocols.telemetry.spans import Spans

        tracer, ids, self._provider = open_tracer()
        self._spans = Spans(tracer, ids, permitted, redact)

    async def consume(self, events: Sequence[Event]) -> None:
        """In a thread: looking for personal data takes a while, and the loop serves everybody."""
        await asyncio.to_thread(self._spans.committed, events)

    async def close(self) -> None:
        """Sends what is left; a collector that does not answer takes a few seconds, in a thread of its own."""
        await asyncio.to_thread(self._provider.shutdown)


def _no_maker(_config: Mapping[str, Any]) -> Sink:
    raise TypeError("the OTLP sink is made from the log's own events")


OTLP: Final = SinkKind(name="otlp", make=_no_maker, extra="otel", module="opentelemetry.sdk")


class Sinks:
    """The sinks of the workspace in use."""

    def __init__(self, kinds: Kinds[SinkKind]) -> None:
        self._kinds = kinds
        self._fields: frozenset[str] = frozenset()
        self._redact: Redact | None = None
        self._declared: tuple[TelemetrySink, ...] = ()
        self._observers: list[Observer] = []
        self._otlp: list[OtlpSink] = []

    async def follow(
        self, declared: Sequence[TelemetrySink], permitted: Sequence[str], redact: Redact | None = None
    ) -> None:
        """`permitted` are the payload fields that may leave the server, without what `redact` takes out of them."""
        self._fields, self._redact = frozenset(permitted), redact
        if tuple(declared) == self._declared:
            return
        await self.close()
        self._declared = tuple(declared)
        for number, one in enumerate(self._declared):
            consume = self._made(one)
            if consume is not None:
                self._observers.append(Observer(f"{number}-{one.kind}", consume))

    def _made(self, declared: TelemetrySink) -> Consume | None:
        try:
            if declared.kind == OTLP.name:
                otlp = OtlpSink(lambda: sorted(self._fields), self._redacted)
                self._otlp.append(otlp)
                return otlp.consume
            kind = self._kinds.usable(declared.kind)
            if kind is None:
                raise LookupError("its package cannot be used")
            sink = kind.make(declared.config)
        except Exception as error:
            # A sink never stops the server: it is missing, and the log says so.
            log.warning("sink.not_made", kind=declared.kind, reason=f"{type(error).__name__}: {error}"[:300])
            return None

        async def consume(events: Sequence[Event]) -> None:
            if self._redact is None:
                batch = self._shown(events)
            else:  # which takes a while
                batch = await asyncio.to_thread(self._shown, events)
            await called(sink.send, batch)

        return consume

    def _shown(self, events: Sequence[Event]) -> list[dict[str, Any]]:
        return [_shown(event, self._fields, self._redacted) for event in events]

    def _redacted(self, value: Any) -> Any:
        return value if self._redact is None else self._redact(value)

    def committed(self, events: Sequence[Event]) -> None:
        for observer in self._observers:
            observer.offer(events)

    def watch(self, metrics: Metrics) -> None:
        def of(count: Callable[[Observer], int]) -> Callable[[], Mapping[str, float]]:
            return lambda: {observer.name: count(observer) for observer in self._observers}

        metrics.watch_each("sink_waiting", "Events that wait for a sink.", "sink", of(lambda it: it.waiting))
        metrics.watch_each("sink_dropped", "Events that a sink did not get.", "sink", of(lambda it: it.dropped))
        metrics.watch_each("sink_failed", "Batches that a sink failed to take.", "sink", of(lambda it: it.failed))

    async def close(self) -> None:
        observers, self._observers = self._observers, []
        for observer in observers:
            await observer.close()
        for otlp in self._otlp:
            await otlp.close()
        self._otlp.clear()


def _shown(event: Event, permitted: frozenset[str], redact: Redact) -> dict[str, Any]:
    shown: dict[str, Any] = {
        "id": event.id,
        "type": event.type,
        "tenant": event.tenant,
        "threadId": event.thread_id,
        "runId": event.run_id,
        "seq": event.seq,
        "at": iso_at(event.at),
        "actor": event.actor,
    }
    if event.type == adapter.AdapterEvent.type:
        shown["phase"] = event.payload["event"]["phase"]
    payload = {name: redact(value) for name, value in event.payload.items() if name in permitted} if permitted else {}
    return shown | ({"payload": payload} if payload else {})
