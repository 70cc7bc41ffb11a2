"""Metrics of several processes added up."""

from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from app.core.metric_totals import MetricTotals
from app.core.metrics import Metrics, Snapshot


async def _process(requests: int, waiting: int, seconds: list[float]) -> Snapshot:
    metrics = Metrics()
    metrics.counter("requests", "Requests.", "route").of("/api/runs").inc(requests)
    histogram = metrics.plain_histogram("seconds", "Seconds.", (0.1, 1.0))
    for value in seconds:
        histogram.observe(value)
    metrics.watch("waiting", "Waiting.", lambda: waiting)
    metrics.watch("free_bytes", "Free.", lambda: 100 + waiting, shared=True)
    return await metrics.snapshot()


def _values(text: bytes) -> dict[tuple[Any, ...], float]:
    return {
        (sample.name, *sorted(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(text.decode())
        for sample in family.samples
    }


async def test_counters_and_histograms_are_added_up_and_shared_gauges_are_not() -> None:
    one, two = await _process(3, 5, [0.05, 2.0]), await _process(4, 6, [0.5])
    seen = _values(MetricTotals().render([(0, one), (1, two)], []))
    assert seen["holdfast_requests_total", ("route", "/api/runs")] == 7
    assert seen["holdfast_waiting",] == 11
    assert seen["holdfast_free_bytes",] == 106
    assert seen["holdfast_seconds_bucket", ("le", "0.1")] == 1
    assert seen["holdfast_seconds_bucket", ("le", "1.0")] == 2
    assert seen["holdfast_seconds_bucket", ("le", "+Inf")] == 3
    assert seen["holdfast_seconds_sum",] == pytest.approx(2.55)
    assert {("worker", "0"), ("worker", "1")} == {key[1] for key in seen if key[0] == "process_open_fds"}


async def test_what_a_process_counted_outlives_it_and_its_gauges_do_not() -> None:
    totals = MetricTotals()
    one, two = await _process(3, 5, [0.05]), await _process(4, 6, [])
    before = _values(totals.render([(0, one), (1, two)], []))
    totals.end(one)
    seen = _values(totals.render([(1, two)], []))
    assert seen["holdfast_requests_total", ("route", "/api/runs")] == 7
    assert seen["holdfast_seconds_count",] == 1
    assert seen["holdfast_waiting",] == 6
    fallen = {key for key, value in before.items() if key[0].endswith("_total") and seen.get(key, 0) < value}
    assert {key[0] for key in fallen} <= {"process_cpu_seconds_total"}
