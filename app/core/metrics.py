"""The process's metrics: one registry, plain numbers that are read at a scrape, no label that a stranger can multiply.

Counting happens on the event loop, thousands of times a second, so a counter is a number without a lock. Those of
prometheus-client, measured side by side, take 5 to 9 times as long to count and to observe, about 30 us more a run;
so only its registry and text format are used, and the values are put together at a scrape, on the same loop. Whoever
owns a queue or a cache hands in a function that returns its size, so that nothing is counted twice. Leaves to others:
what is counted (`protocols.telemetry` folds the log into it).

prometheus-client is imported at the first scrape, for a quicker start.
"""

from bisect import bisect_left
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from itertools import accumulate
from math import isfinite
from time import time
from typing import TYPE_CHECKING, Any, Final, Generic, Protocol, TypeAlias, TypeVar

if TYPE_CHECKING:
    from prometheus_client import CollectorRegistry

CONTENT_TYPE: Final = "text/plain; version=0.0.4; charset=utf-8"
PREFIX: Final = "holdfast_"
MAX_CHILDREN: Final = 500
"""Label values per metric; what comes later is counted as `other`. Names come from the workspace, which is bounded."""
OTHER: Final = "other"

Snapshot: TypeAlias = list[dict[str, Any]]
"""Metric families as plain values: name, meaning, kind, shared, and samples of name, labels and value."""


class Counter:
    """A number that only rises."""

    __slots__ = ("created", "value")

    def __init__(self) -> None:
        self.value = 0.0
        self.created = time()

    def inc(self, by: float = 1) -> None:
        self.value += by


class Histogram:
    """How many values there were up to each bound, and their sum."""

    __slots__ = ("bounds", "counts", "created", "sum")

    def __init__(self, bounds: Sequence[float]) -> None:
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.sum = 0.0
        self.created = time()

    def observe(self, value: float) -> None:
        self.counts[bisect_left(self.bounds, value)] += 1
        self.sum += value


C = TypeVar("C", Counter, Histogram)


class Labelled(Generic[C]):
    """A metric with labels. A child is looked up by a plain dictionary."""

    def __init__(self, labels: int, make: Callable[[], C]) -> None:
        self._labels = labels
        self._make: Callable[[], C] = make
        self.children: dict[tuple[str, ...], C] = {}

    def of(self, *values: str) -> C:
        child = self.children.get(values)
        if child is None:
            if len(self.children) >= MAX_CHILDREN:
                values = (OTHER,) * self._labels
                child = self.children.get(values)
            if child is None:
                child = self.children[values] = self._make()
        return child


class LabelledCounter(Labelled[Counter]):
    """Counts by labels in one call, as an event loop that counts thousands of times a second should."""

    def inc(self, *values: str, by: float = 1) -> None:
        child = self.children.get(values) or self.of(*values)
        child.value += by


class LabelledHistogram(Labelled[Histogram]):
    def observe(self, value: float, *values: str) -> None:
        child = self.children.get(values) or self.of(*values)
        child.counts[bisect_left(child.bounds, value)] += 1
        child.sum += value


class Metrics:
    def __init__(self) -> None:
        self._collectors: list[_Collector] = []
        """Not yet in the registry."""
        self._registry: CollectorRegistry | None = None
        self._refresh: list[Callable[[], Awaitable[None]]] = []
        self._shared: set[str] = set()
        self.gathered: Callable[[], Awaitable[bytes]] | None = None
        """Set in a worker of several on one port: the metrics of all of them, in the same text format."""

    def counter(self, name: str, meaning: str, *labels: str) -> LabelledCounter:
        made = LabelledCounter(len(labels), Counter)
        self._collectors.append(_Counters(PREFIX + name, meaning, labels, made.children))
        return made

    def histogram(self, name: str, meaning: str, buckets: Sequence[float], *labels: str) -> LabelledHistogram:
        bounds = tuple(buckets)
        made = LabelledHistogram(len(labels), lambda: Histogram(bounds))
        self._collectors.append(_Histograms(PREFIX + name, meaning, labels, made.children, bounds))
        return made

    def plain_counter(self, name: str, meaning: str) -> Counter:
        return self.counter(name, meaning).of()

    def plain_histogram(self, name: str, meaning: str, buckets: Sequence[float]) -> Histogram:
        return self.histogram(name, meaning, buckets).of()

    def watch(self, name: str, meaning: str, size: Callable[[], float], *, shared: bool = False) -> None:
        """A gauge that asks its owner when somebody looks. A `shared` one means the same in every process: it is not
        added up over them."""
        self._collectors.append(_Gauge(PREFIX + name, meaning, size))
        self._shared |= {PREFIX + name} if shared else set()

    def watch_each(
        self, name: str, meaning: str, label: str, sizes: Callable[[], Mapping[str, float]], *, shared: bool = False
    ) -> None:
        """The same with a value for each of a few names."""
        self._collectors.append(_Each(PREFIX + name, meaning, label, sizes))
        self._shared |= {PREFIX + name} if shared else set()

    def watch_total(self, name: str, meaning: str, count: Callable[[], float]) -> None:
        """A number that its owner only ever raises."""
        self._collectors.append(_Total(PREFIX + name, meaning, count))

    def before_render(self, refresh: Callable[[], Awaitable[None]]) -> None:
        """For a number that somebody has to be asked for."""
        self._refresh.append(refresh)

    async def scraped(self) -> bytes:
        """What Prometheus reads: of this process, or of all workers on its port."""
        return await (self.refreshed() if self.gathered is None else self.gathered())

    async def refreshed(self) -> bytes:
        """This process's metrics, with everything asked for anew."""
        for refresh in self._refresh:
            await refresh()
        return self.render()

    async def snapshot(self) -> Snapshot:
        """The same as plain values, for another process that adds them up."""
        for refresh in self._refresh:
            await refresh()
        return [
            {
                "name": family.name,
                "meaning": family.documentation,
                "kind": family.type,
                "shared": family.name in self._shared,
                "samples": [
                    [sample.name, sample.labels, sample.value] for sample in family.samples if isfinite(sample.value)
                ],
            }
            for family in self.registry.collect()
        ]

    def render(self) -> bytes:
        from prometheus_client import generate_latest

        return generate_latest(self.registry)

    @property
    def registry(self) -> "CollectorRegistry":
        """prometheus-client's, with everything that was added so far."""
        from prometheus_client import CollectorRegistry, ProcessCollector

        if self._registry is None:
            self._registry = CollectorRegistry()
            ProcessCollector(registry=self._registry)
        while self._collectors:
            self._registry.register(self._collectors.pop(0))
        return self._registry


# -- what the registry reads at a scrape ------------------------------------------------------------


class _Collector(Protocol):
    def collect(self) -> Iterable[Any]: ...


class _Counters:
    def __init__(
        self, name: str, meaning: str, labels: Sequence[str], children: Mapping[tuple[str, ...], Counter]
    ) -> None:
        self._name, self._meaning, self._labels, self._children = name, meaning, labels, children

    def collect(self) -> Iterable[Any]:
        from prometheus_client.core import CounterMetricFamily

        family = CounterMetricFamily(self._name, self._meaning, labels=self._labels)
        for values, child in self._children.items():
            family.add_metric(values, child.value, child.created)
        yield family


class _Histograms:
    def __init__(
        self,
        name: str,
        meaning: str,
        labels: Sequence[str],
        children: Mapping[tuple[str, ...], Histogram],
        bounds: Sequence[float],
    ) -> None:
        self._name, self._meaning, self._labels, self._children = name, meaning, labels, children
        self._bounds = bounds

    def collect(self) -> Iterable[Any]:
        from prometheus_client.core import HistogramMetricFamily
        from prometheus_client.utils import floatToGoString

        name = self._name
        shown = [*map(floatToGoString, self._bounds), "+Inf"]
        family = HistogramMetricFamily(name, self._meaning, labels=self._labels)
        for values, child in self._children.items():
            labels = dict(zip(self._labels, values, strict=True))
            up_to = list(accumulate(child.counts))
            for bound, count in zip(shown, up_to, strict=True):
                family.add_sample(name + "_bucket", labels | {"le": bound}, count)
            family.add_sample(name + "_count", labels, up_to[-1])
            family.add_sample(name + "_sum", labels, child.sum)
            family.add_sample(name + "_created", labels, child.created)
        yield family


class _Gauge:
    def __init__(self, name: str, meaning: str, size: Callable[[], float]) -> None:
        self._name, self._meaning, self._size = name, meaning, size

    def collect(self) -> Iterable[Any]:
        from prometheus_client.core import GaugeMetricFamily

        return [GaugeMetricFamily(self._name, self._meaning, value=self._size())]


class _Total:
    def __init__(self, name: str, meaning: str, count: Callable[[], float]) -> None:
        self._name, self._meaning, self._count = name, meaning, count

    def collect(self) -> Iterable[Any]:
        from prometheus_client.core import CounterMetricFamily

        return [CounterMetricFamily(self._name, self._meaning, value=self._count())]


class _Each:
    def __init__(self, name: str, meaning: str, label: str, sizes: Callable[[], Mapping[str, float]]) -> None:
        self._name, self._meaning, self._label, self._sizes = name, meaning, label, sizes

    def collect(self) -> Iterable[Any]:
        from prometheus_client.core import GaugeMetricFamily

        family = GaugeMetricFamily(self._name, self._meaning, labels=[self._label])
        for value, size in self._sizes().items():
            family.add_metric([value], size)
        yield family
