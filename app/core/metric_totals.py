"""Metrics of several processes added up: what one scrape of a port with several workers shows.

Counters and histograms are sums and never fall: what a process that ended had counted is kept. Gauges are sums over the
living ones, except those that mean the same in each of them. The metrics of a process as such (`process_*`) are shown
for each one, with its number in the label `worker`.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from app.core.metrics import Snapshot

_PER_PROCESS: Final = "process_"
_LASTING: Final = ("counter", "histogram")

Labels = tuple[tuple[str, str], ...]
Values = dict[tuple[str, str, Labels], float]
"""By family, sample and labels."""


class MetricTotals:
    def __init__(self) -> None:
        self._families: dict[str, dict[str, Any]] = {}
        self._past: Values = {}
        """Counters and histograms of processes that have ended."""

    def end(self, last: Snapshot) -> None:
        """A process has ended, and this was the last that it reported."""
        for family in last:
            if family["kind"] in _LASTING and not family["name"].startswith(_PER_PROCESS):
                self._families.setdefault(family["name"], family)
                _add(self._past, family)

    def render(self, living: Iterable[tuple[int, Snapshot]], own: Snapshot) -> bytes:
        """`living` with the number of each worker; `own` are the metrics of whoever started them."""
        from prometheus_client import generate_latest

        values = dict(self._past)
        for number, snapshot in (*living, (None, own)):
            for family in snapshot:
                self._families.setdefault(family["name"], family)
                worker = number if family["name"].startswith(_PER_PROCESS) else None
                _add(values, family, {} if worker is None else {"worker": str(worker)})
        return generate_latest(_Rendered(self._families, values))


def _add(values: Values, family: Mapping[str, Any], more: Mapping[str, str] | None = None) -> None:
    for name, labels, value in family["samples"]:
        key = family["name"], name, tuple(sorted({**labels, **(more or {})}.items()))
        known = values.get(key)
        if known is None:
            values[key] = value
        elif name.endswith("_created"):
            values[key] = min(known, value)
        elif family["shared"]:
            values[key] = max(known, value)
        else:
            values[key] = known + value


class _Rendered:
    """What the text format's writer asks of a registry."""

    def __init__(self, families: Mapping[str, dict[str, Any]], values: Values) -> None:
        self._families, self._values = families, values

    def collect(self) -> Iterable[Any]:
        from prometheus_client.core import Metric

        made: dict[str, Metric] = {}
        for (name, sample, labels), value in self._values.items():
            family = made.get(name)
            if family is None:
                known = self._families[name]
                family = made[name] = Metric(name, known["meaning"], known["kind"])
            family.add_sample(sample, dict(labels), value)
        return made.values()
