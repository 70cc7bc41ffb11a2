"""Metrics are what the log says: each thing counted once, labels bounded, no event able to hurt the writer."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from app.core.metrics import MAX_CHILDREN, OTHER, Metrics
from app.core.principal import DEFAULT_TENANT
from app.core.settings import Settings
from app.events.catalog import Payload, interrupt, model, request, thread, tool
from app.events.envelope import GENESIS, Event
from app.events.ports import Appended
from app.events.recorder import Scope
from app.protocols.telemetry.meters import Metering
from app.protocols.telemetry.open_runs import OpenRuns
from app.views.run import Run
from app.wiring.store import Store, open_store


@pytest.fixture
async def store(tmp_path: Path) -> AsyncIterator[Store]:
    async with open_store(Settings(data_dir=tmp_path)) as store:
        await store.recorder.record(Scope(DEFAULT_TENANT, "thr_1"), thread.ThreadCreated())
        yield store


def _values(metrics: Metrics) -> dict[str, float]:
    """Samples by name and labels, as Prometheus would read them; process figures left out."""
    lines = [line for line in metrics.render().decode().splitlines() if line.startswith("holdfast_")]
    return {name: float(value) for name, value in (line.rsplit(" ", 1) for line in lines)}


async def _record(store: Store, *story: Payload, run: str = "run_1") -> None:
    scope = Scope(DEFAULT_TENANT, "thr_1", run)
    for payload in story:
        recorded = await store.recorder.record(scope, payload)
        assert isinstance(recorded, Appended), recorded


def _failed_model(**more: Any) -> model.ModelFailed:
    error = {"code": "PROVIDER_TIMEOUT", "message": "too slow"}
    payload = {"messageId": "m", "model": "main", "provider": "openai", "error": error, "durationMs": 1500}
    return model.ModelFailed.model_validate(payload | more)


def _completed_model(**usage: Any) -> model.ModelCompleted:
    return model.ModelCompleted.model_validate(
        {"messageId": "m2", "model": "main", "provider": "openai", "text": "x", "toolCalls": [], "finishReason": "stop",
         "usage": usage, "firstTokenMs": 40, "durationMs": 300}
    )  # fmt: skip


@pytest.mark.requirement("HK-12", "G13")
async def test_a_run_is_counted_from_acceptance_to_its_end(store: Store) -> None:
    metrics = Metrics()
    metering = Metering(metrics)
    store.log.on_commit = metering.committed
    await _record(
        store, request.RequestQueued(agent="helper", input="hi"), request.RequestStarted(executor="e", epoch=1)
    )
    assert metering.open_runs == 1
    await _record(store, _failed_model(), model.ModelRetryScheduled(
        message_id="m", model="main", provider="openai", attempt=1, delay_ms=5, reason="timeout"
    ))  # fmt: skip
    await _record(store, _completed_model(inputTokens=7, outputTokens=3, cachedTokens=2, costUsd=0.25))
    await _record(store, request.RequestCompleted(output="x"))
    found = _values(metrics)
    assert metering.open_runs == 0
    assert (
        found.items()
        >= {
            'holdfast_runs_submitted_total{agent="helper"}': 1.0,
            'holdfast_runs_ended_total{agent="helper",status="completed"}': 1.0,
            "holdfast_run_queue_seconds_count": 1.0,
            'holdfast_run_seconds_count{agent="helper",status="completed"}': 1.0,
            'holdfast_model_calls_total{model="main",outcome="failed"}': 1.0,
            'holdfast_model_calls_total{model="main",outcome="completed"}': 1.0,
            'holdfast_model_retries_total{model="main"}': 1.0,
            'holdfast_model_tokens_total{kind="input",model="main"}': 7.0,
            'holdfast_model_tokens_total{kind="cached",model="main"}': 2.0,
            'holdfast_model_cost_usd_total{model="main"}': 0.25,
            'holdfast_step_seconds_count{step="model"}': 2.0,
            "holdfast_events_appended_total": 6.0,
        }.items()
    )


async def test_a_failed_run_is_counted_by_its_code(store: Store) -> None:
    metrics = Metrics()
    store.log.on_commit = Metering(metrics).committed
    error = {"code": "BUDGET_EXCEEDED", "message": "no more"}
    await _record(store, request.RequestQueued(agent="helper"), request.RequestFailed.model_validate({"error": error}))
    assert _values(metrics)['holdfast_run_errors_total{code="BUDGET_EXCEEDED"}'] == 1


async def test_tool_calls_guard_findings_and_pauses_are_counted(store: Store) -> None:
    metrics = Metrics()
    store.log.on_commit = Metering(metrics).committed
    await _record(
        store,
        request.RequestQueued(agent="helper"),
        tool.ToolGuarded.model_validate(
            {"callId": "c", "tool": "made_up_by_a_model", "outcome": "repaired", "round": "model",
             "findings": [{"kind": "wrong_type", "path": "/a", "message": "m"}] * 2,
             "repairs": [{"kind": "coerced", "path": "/a"}]}
        ),
        tool.ToolResulted.model_validate({"callId": "c", "tool": "add", "ok": True, "output": 1, "durationMs": 20}),
        interrupt.InterruptRaised(interrupt_id="i", kind="approval", title="?", expires_at="2027-01-01T00:00:00.000Z"),
        interrupt.InterruptExpired(interrupt_id="i"),
    )  # fmt: skip
    found = _values(metrics)
    assert (
        found.items()
        >= {
            'holdfast_guard_findings_total{kind="wrong_type"}': 2.0,
            'holdfast_tool_repairs_total{round="model"}': 1.0,
            'holdfast_tool_calls_total{outcome="ok",tool="add"}': 1.0,
            'holdfast_tool_seconds_count{tool="add"}': 1.0,
            'holdfast_interrupts_total{kind="approval"}': 1.0,
            'holdfast_interrupts_closed_total{outcome="expired"}': 1.0,
        }.items()
    )
    assert [name for name in found if "made_up" in name] == []


def test_the_time_that_people_took_is_no_time_of_the_run() -> None:
    metrics, runs = Metrics(), OpenRuns()
    metering = Metering(metrics, runs)
    raised = b'{"interruptId":"int_%d","kind":"approval","title":"?","expiresAt":"2027-01-01T00:00:00.000Z"}'
    story = (
        ("runtime.request.queued", b'{"agent":"a"}', "run_1", 0),
        ("runtime.request.started", b"{}", "run_1", 1_000),
        ("runtime.request.queued", b'{"agent":"b","parentRunId":"run_1"}', "run_2", 2_000),
        ("runtime.interrupt.raised", raised % 1, "run_2", 3_000),
        ("runtime.interrupt.raised", raised % 2, "run_1", 4_000),
        ("runtime.interrupt.resolved", b'{"interruptId":"int_1"}', "run_2", 50_000),
        ("runtime.interrupt.expired", b'{"interruptId":"int_2"}', "run_1", 63_000),
        ("runtime.request.completed", b'{"output":"x"}', "run_1", 65_000),
    )
    for kind, payload, run, at in story:
        metering.committed([_event(kind, payload, run, at)], 0.001)
    # 64 s from claim to end, of which 60 s passed between the first question and the last answer.
    assert _values(metrics)['holdfast_run_seconds_sum{agent="a",status="completed"}'] == 4


def test_a_run_from_before_a_restart_keeps_its_agent_but_has_no_duration() -> None:
    metrics, runs = Metrics(), OpenRuns()
    metering = Metering(metrics, runs)
    runs.claimed("default", Run("run_1", "thr_1", agent="a", created_at=1, started_at=2))
    metering.committed([_event("runtime.request.completed", b'{"output":"x"}', "run_1", 9)], 0.001)
    found = _values(metrics)
    assert found['holdfast_runs_ended_total{agent="a",status="completed"}'] == 1
    assert not any(name.startswith("holdfast_run_seconds_count") for name in found)


@pytest.mark.requirement("G13", "S6")
def test_label_values_are_bounded_and_none_names_a_tenant() -> None:
    metrics = Metrics()
    family = metrics.counter("things", "Things.", "kind")
    for number in range(MAX_CHILDREN + 50):
        family.of(f"kind-{number}").inc()
    found = _values(metrics)
    totals = {name: value for name, value in found.items() if "_total" in name}
    assert (len(totals), totals[f'holdfast_things_total{{kind="{OTHER}"}}']) == (MAX_CHILDREN + 1, 50)


@pytest.mark.requirement("G13")
def test_open_runs_that_never_end_are_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("app.protocols.telemetry.open_runs.MAX_OPEN_RUNS", 10)
    metering = Metering(Metrics())
    for number in range(25):
        metering.committed([_event("runtime.request.queued", b'{"agent":"a"}', run=f"run_{number}")], 0.001)
    assert metering.open_runs == 10


def test_an_event_that_cannot_be_folded_does_not_reach_the_writer() -> None:
    metrics = Metrics()
    metering = Metering(metrics)
    metering.committed([_event("runtime.model.completed", b"{}"), _event("runtime.request.queued", b"{}")], 0.001)
    assert _values(metrics)["holdfast_events_appended_total"] == 2


def _event(type: str, payload: bytes, run: str = "run_1", at: int = 0) -> Event:
    return Event("evt_1", "default", "thr_1", run, 1, 1, type, "system", at, payload, None, GENESIS, GENESIS)


def test_counters_and_histograms_are_written_as_prometheus_reads_them() -> None:
    metrics = Metrics()
    metrics.counter("things", "Things.", "kind").of("round").inc(2)
    took = metrics.plain_histogram("took_seconds", "How long.", (0.1, 1, 2.5))
    for seconds in (0.1, 0.5, 7.0):  # a bound belongs to its bucket
        took.observe(seconds)
    found = _values(metrics)
    buckets = {bound: found[f'holdfast_took_seconds_bucket{{le="{bound}"}}'] for bound in ("0.1", "1.0", "2.5", "+Inf")}
    assert buckets == {"0.1": 1, "1.0": 2, "2.5": 2, "+Inf": 3}
    assert (found["holdfast_took_seconds_count"], found["holdfast_took_seconds_sum"]) == (3, 7.6)
    assert found['holdfast_things_total{kind="round"}'] == 2
    # Since when it counts, which is how a restart is distinguished from a fall.
    assert found["holdfast_took_seconds_created"] > 0 and found['holdfast_things_created{kind="round"}'] > 0
    families = text_string_to_metric_families(metrics.render().decode())
    kinds = {family.name: family.type for family in families if family.name.startswith("holdfast_")}
    assert (kinds["holdfast_things"], kinds["holdfast_took_seconds"]) == ("counter", "histogram")
