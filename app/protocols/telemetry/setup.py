"""Metrics and traces of a whole server, put together: the folds of the log, and every queue and cache with its size."""

import contextlib
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from typing import Any, Protocol

from app.core.metrics import Metrics
from app.core.settings import Settings
from app.events.envelope import Event
from app.events.hub import Hub
from app.models.router import ModelRouter
from app.protocols.telemetry.disk import watch_disk
from app.protocols.telemetry.looplag import LoopLag
from app.protocols.telemetry.meters import Metering
from app.protocols.telemetry.open_interrupts import OpenInterrupts
from app.protocols.telemetry.open_runs import OpenRuns
from app.protocols.telemetry.run_lines import RunLines
from app.protocols.telemetry.trace_scope import InTrace
from app.runtime.schedule.executor import Executor


class WatchedLog(Protocol):
    on_commit: Callable[[Sequence[Event], float], None]

    @property
    def pending(self) -> int: ...

    @property
    def hot_threads(self) -> int: ...


class WatchedBus(Protocol):
    @property
    def connected(self) -> bool: ...

    @property
    def peers(self) -> int: ...

    received: int
    malformed: int
    polls: int
    unanswered: int
    losses: int


@contextlib.contextmanager
def telemetry(
    settings: Settings,
    log: WatchedLog,
    hub: Hub,
    database: Callable[[], Mapping[str, float]],
    executor: Executor,
    router: ModelRouter,
    open_interrupts: Callable[[int], Awaitable[Mapping[str, float]]],
    traced: InTrace,
    permitted: Callable[[], Sequence[str]] = tuple,
    bus: WatchedBus | None = None,
    observers: Sequence[Callable[[Sequence[Event]], None]] = (),
    redact: Callable[[Any], Any] = lambda value: value,
) -> Iterator[Metrics]:
    """Each queue and cache is bounded where it stands; here it only gets a number. `permitted` are the payload fields
    that traces may show, without what `redact` takes out of them."""
    metrics = Metrics()
    runs, lines = OpenRuns(), RunLines()
    metering, lag = Metering(metrics, runs, lines if lines.wanted else None), LoopLag(metrics)
    traced.on_claimed = runs.claimed
    interrupts = OpenInterrupts(open_interrupts)
    metrics.before_render(interrupts.refresh)
    metrics.watch_each(
        "interrupts_open", "Open interrupts in the whole database.", "kind", interrupts.counts, shared=True
    )
    watch_disk(metrics, settings)
    metrics.watch_each("database", "How busy the database is.", "what", database)
    breakers = router.health.breakers
    metrics.watch_each("breaker", "Circuit breakers: 0 closed, 1 half open, 2 open.", "model", breakers, shared=True)
    calls = router.limiter
    metrics.watch("model_calls_running", "Model calls in progress.", lambda: calls.running)
    metrics.watch("model_calls_waiting", "Model calls that wait to start.", lambda: calls.waiting)
    metrics.watch("model_calls_limit", "Maximum number of model calls at once.", lambda: calls.concurrency)
    metrics.watch("events_waiting", "Appends that wait for the next commit.", lambda: log.pending)
    metrics.watch("hot_threads", "Threads whose records the writer keeps in memory.", lambda: log.hot_threads)
    metrics.watch("subscribers", "Subscribers to events.", lambda: len(hub))
    metrics.watch_total("readers_dropped", "Subscribers disconnected because they fell behind.", lambda: hub.dropped)
    metrics.watch_total("backfills", "Times a reader went to the store for history.", lambda: hub.backfills)
    metrics.watch("runs_running", "Runs that this process executes.", lambda: executor.running)
    metrics.watch("runs_wanted", "Runs that wait for a worker of this process.", lambda: executor.waiting)
    metrics.watch("runs_measured", "Open runs that the metrics remember.", lambda: metering.open_runs)
    metrics.watch("trace_contexts", "Runs whose caller's trace is remembered.", lambda: len(traced))
    if bus is not None:
        _watch_bus(metrics, bus)
    with contextlib.ExitStack() as stack:
        export = _spans(stack, permitted, redact) if settings.traces == "otlp" else None

        def committed(events: Sequence[Event], seconds: float) -> None:
            metering.committed(events, seconds)
            traced.committed(events)
            if export is not None:
                export(events)
            for observe in observers:
                observe(events)

        log.on_commit = committed
        lag.start()
        stack.callback(lag.stop)
        stack.callback(lines.flush)
        yield metrics


def _watch_bus(metrics: Metrics, bus: WatchedBus) -> None:
    metrics.watch("bus_connected", "1 if servers hear each other by the bus, 0 if they poll.", lambda: bus.connected)
    metrics.watch("bus_peers", "Other servers on the same database.", lambda: bus.peers)
    metrics.watch_total("bus_received", "Messages heard from other servers.", lambda: bus.received)
    metrics.watch_total("bus_malformed", "Messages on the bus that are not from a server.", lambda: bus.malformed)
    metrics.watch_total("bus_losses", "Times the bus fell silent.", lambda: bus.losses)
    metrics.watch_total("bus_unanswered", "Commands that a run's owner did not confirm.", lambda: bus.unanswered)
    metrics.watch_total("polls", "Times the database was asked what is new.", lambda: bus.polls)


def _spans(
    stack: contextlib.ExitStack, permitted: Callable[[], Sequence[str]], redact: Callable[[Any], Any]
) -> Callable[[Sequence[Event]], None]:
    # Imported only where traces are on.
    from app.protocols.telemetry.otlp import open_tracer
    from app.protocols.telemetry.spans import Spans

    tracer, ids, provider = open_tracer()
    stack.callback(provider.shutdown)
    return Spans(tracer, ids, permitted, redact).committed
