"""The Grafana dashboard, made from a table of rows and panels; `make generate` writes it."""

from dataclasses import dataclass
from typing import Any, Final

_WIDTH: Final = 24
_HEIGHT: Final = 8


@dataclass(frozen=True, slots=True)
class Panel:
    title: str
    queries: tuple[tuple[str, str], ...]
    """Expression and legend."""
    unit: str = "short"


def _rate(metric: str, by: str = "", selector: str = "") -> str:
    return f"sum{f' by ({by})' if by else ''} (rate(holdfast_{metric}_total{selector}[$__rate_interval]))"


def _by(metric: str, label: str) -> tuple[str, str]:
    return _rate(metric, label), f"{{{{{label}}}}}"


def _quantile(q: float, metric: str, by: str = "") -> str:
    inside = f"sum by (le{f', {by}' if by else ''}) (rate(holdfast_{metric}_bucket[$__rate_interval]))"
    return f"histogram_quantile({q}, {inside})"


def _quantiles(metric: str, by: str = "") -> tuple[tuple[str, str], ...]:
    name = f" {{{{{by}}}}}" if by else ""
    return ((_quantile(0.5, metric, by), f"p50{name}"), (_quantile(0.99, metric, by), f"p99{name}"))


ROWS: Final[dict[str, tuple[Panel, ...]]] = {
    "Runs": (
        Panel("Runs ended", ((_rate("runs_ended", "status"), "{{status}}"),), "ops"),
        Panel("Runs by agent", ((_rate("runs_submitted", "agent"), "{{agent}}"),), "ops"),
        Panel("Duration", _quantiles("run_seconds", "agent"), "s"),
        Panel("Wait in the queue", _quantiles("run_queue_seconds"), "s"),
        Panel("Active runs", (("holdfast_runs_running", "running"), ("holdfast_runs_wanted", "waiting for a worker"))),
        Panel("Failures by code", ((_rate("run_errors", "code"), "{{code}}"),), "ops"),
    ),
    "Models": (
        Panel("Calls", ((_rate("model_calls", "model, outcome"), "{{model}} {{outcome}}"),), "ops"),
        Panel("First token", _quantiles("model_first_token_seconds", "model"), "s"),
        Panel("Tokens", ((_rate("model_tokens", "model, kind"), "{{model}} {{kind}}"),), "ops"),
        Panel("Cost per hour", ((f"3600 * {_rate('model_cost_usd', 'model')}", "{{model}}"),), "currencyUSD"),
        Panel("Retries", ((_rate("model_retries", "model"), "{{model}}"),), "ops"),
        Panel("Breakers (2 is open)", (("max by (model) (holdfast_breaker)", "{{model}}"),)),
    ),
    "Tools and approvals": (
        Panel("Tool calls", ((_rate("tool_calls", "tool, outcome"), "{{tool}} {{outcome}}"),), "ops"),
        Panel("Duration", _quantiles("tool_seconds", "tool"), "s"),
        Panel("Guard", (_by("guard_findings", "kind"), _by("tool_repairs", "round"))),
        Panel("Pauses", (_by("interrupts", "kind"), _by("interrupts_closed", "outcome"))),
        Panel("Steps", _quantiles("step_seconds", "step"), "s"),
        Panel("Hooks and budgets", (_by("hooks_fired", "decision"), _by("budgets_exceeded", "budget"))),
    ),
    "Log and host": (
        Panel("Events appended", ((_rate("events_appended"), "events"),), "ops"),
        Panel("Commit", _quantiles("commit_seconds"), "s"),
        Panel("Events per commit", _quantiles("commit_batch_events")),
        Panel("Readers", (("holdfast_subscribers", "subscribers"), (_rate("readers_dropped"), "dropped"))),
        Panel("Backfills", ((_rate("backfills"), "backfills"),), "ops"),
        Panel("Event loop lag", _quantiles("loop_lag_seconds"), "s"),
        Panel("Database", (("holdfast_database", "{{what}}"),)),
        Panel("Disk", (("holdfast_disk_free_bytes", "free"), ("holdfast_database_bytes", "database")), "bytes"),
        Panel("Memory", (("process_resident_memory_bytes", "resident"),), "bytes"),
        Panel("Events waiting", (("holdfast_events_waiting", "waiting"),)),
    ),
}  # fmt: skip


def dashboard() -> dict[str, Any]:
    panels: list[dict[str, Any]] = []
    top = 0
    for title, row in ROWS.items():
        panels.append({"type": "row", "title": title, "gridPos": _place(0, top, _WIDTH, 1), "id": len(panels) + 1})
        top += 1
        for index, panel in enumerate(row):
            across, down = index % 3, index // 3
            place = _place(across * 8, top + down * _HEIGHT, 8, _HEIGHT)
            panels.append(_panel(panel, place, len(panels) + 1))
        top += -(-len(row) // 3) * _HEIGHT
    return {
        "title": "Holdfast",
        "uid": "holdfast",
        "schemaVersion": 39,
        "refresh": "15s",
        "time": {"from": "now-1h", "to": "now"},
        "panels": panels,
    }


def _place(x: int, y: int, w: int, h: int) -> dict[str, int]:
    return {"x": x, "y": y, "w": w, "h": h}


def _panel(panel: Panel, place: dict[str, int], number: int) -> dict[str, Any]:
    source = {"type": "prometheus", "uid": "prometheus"}
    return {
        "type": "timeseries",
        "title": panel.title,
        "id": number,
        "gridPos": place,
        "datasource": source,
        "fieldConfig": {"defaults": {"unit": panel.unit, "min": 0}, "overrides": []},
        "targets": [
            {"refId": chr(ord("A") + index), "expr": expression, "legendFormat": legend, "datasource": source}
            for index, (expression, legend) in enumerate(panel.queries)
        ],
    }
