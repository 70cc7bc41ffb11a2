"""The page of the metrics, made from the registry of a server that was started for it; `make generate` writes it."""

import asyncio
import tempfile
from pathlib import Path
from typing import Any

from app.core.settings import Settings
from app.wiring.runtime import open_holdfast
from app.wiring.web import build_web, server_context

_HEAD = """\
# Metrics

Generated from a running server. `GET /metrics` returns these metrics in Prometheus' text format; a key needs the
scope `metrics:read`. Counters are computed from committed events: each event is counted once, by the process that
recorded it. Labels come from the workspace and are bounded; none contains a tenant or the content of a run. Metrics
of the process (`process_resident_memory_bytes`, `process_cpu_seconds_total`, open files) are included.
[deploy/grafana/holdfast.json](deploy/grafana/holdfast.json) is a dashboard, [deploy/alerts.yml](deploy/alerts.yml)
has alerts.

| metric | kind | labels | meaning |
|---|---|---|---|
"""


def page() -> bytes:
    rows = []
    for name, metric, labels in sorted(_described(), key=lambda row: row[0]):
        shown = ", ".join(f"`{label}`" for label in labels) or "none"
        rows.append(f"| `{name}` | {metric.type} | {shown} | {metric.documentation} |")
    return (_HEAD + "\n".join(rows) + "\n").encode()


def names() -> set[str]:
    """Every name that a query may use, with the suffixes that histograms have."""
    found: set[str] = set()
    for name, metric, _ in _described():
        suffixes = ("_bucket", "_sum", "_count") if metric.type == "histogram" else ("",)
        found |= {name + suffix for suffix in suffixes}
    return found


def _described() -> list[tuple[str, Any, tuple[str, ...]]]:
    with tempfile.TemporaryDirectory() as folder:
        return asyncio.run(_of_a_server(Settings(data_dir=Path(folder))))


async def _of_a_server(settings: Settings) -> list[tuple[str, Any, tuple[str, ...]]]:
    async with open_holdfast(settings) as holdfast:
        build_web(settings, server_context(settings, holdfast), lambda _: None)  # the edge has metrics of its own
        registry = holdfast.metrics.registry
        found = []
        for collector in list(registry._collector_to_names):
            for metric in collector.collect():
                if metric.name.startswith("holdfast_"):
                    labels = getattr(collector, "_labelnames", None) or _labels(metric)
                    name = metric.name + ("_total" if metric.type == "counter" else "")
                    found.append((name, metric, tuple(labels)))
        return found


def _labels(metric: Any) -> tuple[str, ...]:
    return tuple(getattr(metric, "_labelnames", ()))
