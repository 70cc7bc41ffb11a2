"""The process's metrics: one registry, children bound once, no label that a stranger can multiply.

Whoever owns a queue or a cache hands in a function that tells its size, so that nothing is counted twice. Leaves to
others: what is counted (`protocols.telemetry` folds the log into it).
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, Generic, TypeVar

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, ProcessCollector, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.registry import Collector

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
PREFIX: Final = "holdfast_"
MAX_CHILDREN: Final = 500
"""Label values per metric; what comes later is counted as `other`. Names come from the workspace, which is bounded."""
OTHER: Final = "other"

C = TypeVar("C", Counter, Histogram)


class Labelled(Generic[C]):
    """A metric with labels. A child is looked up by a plain dictionary: its values are joined and checked once."""

    def __init__(self, metric: C, labels: int) -> None:
        self._metric: C = metric
        self._labels = labels
        self._children: dict[tuple[str, ...], C] = {}

    def of(self, *values: str) -> C:
        child = self._children.get(values)
        if child is None:
            if len(self._children) >= MAX_CHILDREN:
                values = (OTHER,) * self._labels
            child = self._children[values] = self._metric.labels(*values)
        return child


class Metrics:
    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)

    def counter(self, name: str, meaning: str, *labels: str) -> Labelled[Counter]:
        return Labelled(Counter(PREFIX + name, meaning, labels, registry=self.registry), len(labels))

    def histogram(self, name: str, meaning: str, buckets: Sequence[float], *labels: str) -> Labelled[Histogram]:
        made = Histogram(PREFIX + name, meaning, labels, buckets=tuple(buckets), registry=self.registry)
        return Labelled(made, len(labels))

    def plain_counter(self, name: str, meaning: str) -> Counter:
        return Counter(PREFIX + name, meaning, registry=self.registry)

    def plain_histogram(self, name: str, meaning: str, buckets: Sequence[float]) -> Histogram:
        return Histogram(PREFIX + name, meaning, buckets=tuple(buckets), registry=self.registry)

    def watch(self, name: str, meaning: str, size: Callable[[], float]) -> None:
        """A gauge that asks its owner when somebody looks."""
        Gauge(PREFIX + name, meaning, registry=self.registry).set_function(size)

    def watch_each(self, name: str, meaning: str, label: str, sizes: Callable[[], Mapping[str, float]]) -> None:
        """The same with a value for each of a few names."""
        self.registry.register(_Each(PREFIX + name, meaning, label, sizes))

    def watch_total(self, name: str, meaning: str, count: Callable[[], float]) -> None:
        """A number that its owner only ever raises."""
        self.registry.register(_Total(PREFIX + name, meaning, count))

    def render(self) -> bytes:
        return generate_latest(self.registry)


class _Total(Collector):
    def __init__(self, name: str, meaning: str, count: Callable[[], float]) -> None:
        self._name, self._meaning, self._count = name, meaning, count

    def describe(self) -> Iterable[Any]:
        return [CounterMetricFamily(self._name, self._meaning)]

    def collect(self) -> Iterable[Any]:
        return [CounterMetricFamily(self._name, self._meaning, value=self._count())]


class _Each(Collector):
    def __init__(self, name: str, meaning: str, label: str, sizes: Callable[[], Mapping[str, float]]) -> None:
        self._name, self._meaning, self._label, self._sizes = name, meaning, label, sizes

    def describe(self) -> Iterable[Any]:
        return [GaugeMetricFamily(self._name, self._meaning)]

    def collect(self) -> Iterable[Any]:
        family = GaugeMetricFamily(self._name, self._meaning, labels=[self._label])
        for value, size in self._sizes().items():
            family.add_metric([value], size)
        yield family
