"""The process's metrics: one registry, children bound once, no label that a stranger can multiply.

Whoever owns a queue or a cache hands in a function that tells its size, so that nothing is counted twice.
"""

from collections.abc import Callable
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
_SECONDS: Final = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0, 2.5)
_BATCH: Final = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000)


class Metrics:
    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        self._appended = Counter("holdfast_events_appended", "Events committed to the log.", registry=self._registry)
        self._batch = Histogram(
            "holdfast_commit_batch_events", "Events per commit.", buckets=_BATCH, registry=self._registry
        )
        self._commit = Histogram(
            "holdfast_commit_seconds", "Duration of a commit, sync included.", buckets=_SECONDS, registry=self._registry
        )

    def committed(self, events: int, seconds: float) -> None:
        self._appended.inc(events)
        self._batch.observe(events)
        self._commit.observe(seconds)

    def watch(self, name: str, meaning: str, size: Callable[[], float]) -> None:
        """A gauge that asks its owner when somebody looks."""
        Gauge(f"holdfast_{name}", meaning, registry=self._registry).set_function(size)

    def render(self) -> bytes:
        return generate_latest(self._registry)
