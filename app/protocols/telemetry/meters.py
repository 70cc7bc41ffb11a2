"""Metrics as a fold of committed events: runs, steps, model and tool calls, guard, people; and of the commits.

Nothing else in the program counts these: what is measured is what the log says happened, once each, however often a
run was resumed. Most events are pieces of text and cost one look into a dictionary. Leaves to others: sizes of queues
(their owners), rendering (`core.metrics`).
"""

from collections.abc import Callable, Sequence
from typing import Any, Final

import structlog

from app.core.metrics import MAX_CHILDREN, Counter, Metrics
from app.core.recent import RecentDict
from app.core.value import value
from app.events.catalog import execution, interrupt, memory, model, policy, request, tool
from app.events.catalog.log import LogCompacted
from app.events.envelope import Event
from app.protocols.telemetry.open_runs import OpenRun, OpenRuns
from app.protocols.telemetry.run_lines import RunLines

_COMMIT_SECONDS: Final = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0, 2.5)
_BATCH: Final = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000)
_WAIT_SECONDS: Final = (0.005, 0.01, 0.05, 0.1, 0.5, 1, 5, 10, 30, 60, 300, 1800)
_RUN_SECONDS: Final = (0.05, 0.1, 0.5, 1, 2.5, 5, 10, 30, 60, 120, 300, 600, 1800, 3600)
_STEP_SECONDS: Final = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300)

log = structlog.get_logger("holdfast.metrics")


@value(frozen=True, slots=True)
class _OfModel:
    """The counters that every answer of a model raises, found by its name at once."""

    calls: Counter
    input: Counter
    output: Counter


class Metering:
    def __init__(self, metrics: Metrics, runs: OpenRuns | None = None, lines: RunLines | None = None) -> None:
        """Without `lines` nothing is logged about runs."""
        self._open, self._lines = OpenRuns() if runs is None else runs, lines
        self._of_model = RecentDict[str, _OfModel](MAX_CHILDREN)
        self._broken = False
        self._commits(metrics)
        self._runs(metrics)
        self._models(metrics)
        self._tools(metrics)
        self._people(metrics)
        self._folds: dict[str, Callable[[Event, dict[str, Any]], None]] = {
            request.RequestQueued.type: self._queued,
            request.RequestStarted.type: self._started,
            request.RequestCompleted.type: self._ended_as("completed"),
            request.RequestFailed.type: self._ended_as("failed"),
            request.RequestCancelled.type: self._ended_as("cancelled"),
            request.RequestResumed.type: self._resumed,
            model.ModelCompleted.type: self._model_completed,
            memory.MemoryEmbeddingCompleted.type: self._embedded,
            model.ModelFailed.type: self._model_failed,
            model.ModelRetryScheduled.type: self._model_retried,
            tool.ToolResulted.type: self._tool_resulted,
            tool.ToolGuarded.type: self._guarded,
            interrupt.InterruptRaised.type: self._raised,
            interrupt.InterruptResolved.type: self._closed_as("resolved"),
            interrupt.InterruptExpired.type: self._closed_as("expired"),
            policy.HookFired.type: self._hook_fired,
            policy.SchemaViolated.type: self._schema_violated,
            policy.GateEvaluated.type: self._gate_evaluated,
            execution.BudgetExceeded.type: self._budget_exceeded,
            LogCompacted.type: self._log_compacted,
        }

    def committed(self, events: Sequence[Event], seconds: float) -> None:
        """Called after each commit, on the log's own task: it never raises and never waits."""
        self._appended.inc(len(events))
        self._batch.observe(len(events))
        self._commit.observe(seconds)
        for event in events:
            fold = self._folds.get(event.type)
            if fold is not None:
                try:
                    fold(event, event.payload)
                except Exception:
                    # A metric is never worth the log. Said once: the next event would say the same.
                    if not self._broken:
                        self._broken = True
                        log.exception("metrics.fold_failed", type=event.type)

    @property
    def open_runs(self) -> int:
        return len(self._open)

    # -- what there is -------------------------------------------------------------------------------

    def _commits(self, metrics: Metrics) -> None:
        self._appended = metrics.plain_counter("events_appended", "Events committed to the log.")
        self._dropped = metrics.plain_counter("deltas_dropped", "Deltas dropped by retention (`retention.deltaDays`).")
        self._batch = metrics.plain_histogram("commit_batch_events", "Events per commit.", _BATCH)
        self._commit = metrics.plain_histogram(
            "commit_seconds", "Duration of a commit, sync included.", _COMMIT_SECONDS
        )

    def _runs(self, metrics: Metrics) -> None:
        self._submitted = metrics.counter("runs_submitted", "Runs accepted.", "agent")
        self._ended = metrics.counter("runs_ended", "Runs that ended, and how.", "agent", "status")
        self._errors = metrics.counter("run_errors", "Runs that failed, by code.", "code")
        self._resumptions = metrics.counter("runs_resumed", "Claims of a run that had begun before.", "reason")
        self._wait = metrics.plain_histogram(
            "run_queue_seconds", "From the acceptance of a run to its first claim.", _WAIT_SECONDS
        )
        self._run = metrics.histogram(
            "run_seconds",
            "From a run's first claim to its end, without the time that people took.",
            _RUN_SECONDS,
            "agent",
            "status",
        )
        self._step = metrics.histogram("step_seconds", "Duration of a step of a run.", _STEP_SECONDS, "step")

    def _models(self, metrics: Metrics) -> None:
        self._calls = metrics.counter("model_calls", "Attempts at a model, and how they ended.", "model", "outcome")
        self._tokens = metrics.counter("model_tokens", "Tokens as the provider counted them.", "model", "kind")
        self._cost = metrics.counter("model_cost_usd", "Cost by the workspace's prices, in US dollars.", "model")
        self._retries = metrics.counter("model_retries", "Attempts scheduled after a failed one.", "model")
        self._first_token = metrics.histogram(
            "model_first_token_seconds", "From the request to the first token.", _STEP_SECONDS, "model"
        )

    def _tools(self, metrics: Metrics) -> None:
        self._tool_calls = metrics.counter("tool_calls", "Tool calls that were dispatched.", "tool", "outcome")
        self._tool = metrics.histogram("tool_seconds", "Duration of a tool call.", _STEP_SECONDS, "tool")
        self._guard = metrics.counter("guard_calls", "Tool calls in which the guard found something.", "outcome")
        self._findings = metrics.counter("guard_findings", "What the guard found in tool calls.", "kind")
        self._repairs = metrics.counter("tool_repairs", "Repairs made to tool calls.", "round")

    def _people(self, metrics: Metrics) -> None:
        self._interrupts = metrics.counter("interrupts", "Interrupts raised: waits for a person or a client.", "kind")
        self._answers = metrics.counter("interrupts_closed", "Interrupts that were answered or expired.", "outcome")
        self._hooks = metrics.counter("hooks_fired", "Decisions of hooks.", "hook", "decision")
        self._verdicts = metrics.counter("gate_verdicts", "Verdicts of gates.", "gate", "mode", "outcome")
        self._violations = metrics.counter("schema_violations", "Payloads refused at a boundary.", "schema")
        self._budgets = metrics.counter("budgets_exceeded", "Budgets that ended a run.", "budget", "scope")

    # -- folds ---------------------------------------------------------------------------------------

    def _queued(self, event: Event, payload: dict[str, Any]) -> None:
        agent = payload.get("agent") or payload.get("workflow") or "(tool)"
        self._submitted.inc(agent)
        self._open.add(event.tenant, event.run_id or "", OpenRun(agent, event.at, parent=payload.get("parentRunId")))

    def _started(self, event: Event, payload: dict[str, Any]) -> None:
        run = self._open.of(event)
        if run is not None and run.started_at is None:
            run.started_at = event.at
            self._wait.observe(max(0, event.at - run.queued_at) / 1000)
            if self._lines is not None:
                self._lines.started(event, run)

    def _resumed(self, event: Event, payload: dict[str, Any]) -> None:
        self._resumptions.inc(payload["reason"])

    def _ended_as(self, status: str) -> Callable[[Event, dict[str, Any]], None]:
        def ended(event: Event, payload: dict[str, Any]) -> None:
            run = self._open.end(event)
            agent = run.agent if run is not None else "(unknown)"
            self._ended.inc(agent, status)
            code = payload["error"]["code"] if status == "failed" else None
            if code is not None:
                self._errors.inc(code)
            if run is not None and (worked := run.worked_ms(event.at)) is not None:
                self._run.observe(worked / 1000, agent, status)
            if self._lines is not None:
                self._lines.ended(event, run, status, code)

        return ended

    def _model_completed(self, event: Event, payload: dict[str, Any]) -> None:
        name, usage = payload["model"], payload["usage"]
        if (run := self._open.of(event)) is not None:
            run.input_tokens += usage.get("inputTokens") or 0
            run.output_tokens += usage.get("outputTokens") or 0
        counters = self._of_model.get(name) or self._counters_of(name)
        counters.calls.value += 1
        counters.input.value += usage.get("inputTokens") or 0
        counters.output.value += usage.get("outputTokens") or 0
        if cached := usage.get("cachedTokens"):
            self._tokens.inc(name, "cached", by=cached)
        if cost := usage.get("costUsd"):
            self._cost.inc(name, by=cost)
        if (first := payload.get("firstTokenMs")) is not None:
            self._first_token.observe(first / 1000, name)
        self._took("model", payload)

    def _counters_of(self, model: str) -> _OfModel:
        completed, given = self._calls.of(model, "completed"), self._tokens.of(model, "input")
        found = _OfModel(completed, given, self._tokens.of(model, "output"))
        self._of_model.put(model, found)
        return found

    def _embedded(self, event: Event, payload: dict[str, Any]) -> None:
        name, usage = payload["model"], payload["usage"]
        if (run := self._open.of(event)) is not None:
            run.input_tokens += usage.get("inputTokens") or 0
        self._calls.inc(name, "completed", by=payload["requestCount"])
        self._tokens.inc(name, "input", by=usage.get("inputTokens") or 0)
        if cost := usage.get("costUsd"):
            self._cost.inc(name, by=cost)

    def _model_failed(self, event: Event, payload: dict[str, Any]) -> None:
        self._calls.inc(payload["model"], "abandoned" if payload.get("abandoned") else "failed")
        self._took("model", payload)

    def _model_retried(self, event: Event, payload: dict[str, Any]) -> None:
        self._retries.inc(payload["model"])

    def _tool_resulted(self, event: Event, payload: dict[str, Any]) -> None:
        # Only a call that passed the gate has a result, so the name is one of the workspace's tools.
        self._tool_calls.inc(payload["tool"], "ok" if payload["ok"] else "failed")
        if (took := payload.get("durationMs")) is not None:
            self._tool.observe(took / 1000, payload["tool"])
        self._took("tool", payload)

    def _guarded(self, event: Event, payload: dict[str, Any]) -> None:
        # Never by name: a model may have made it up.
        self._guard.inc(payload["outcome"])
        for finding in payload["findings"]:
            self._findings.inc(finding["kind"])
        if payload["outcome"] == "repaired":
            self._repairs.inc(payload.get("round") or "deterministic", by=len(payload.get("repairs") or (1,)))

    def _raised(self, event: Event, payload: dict[str, Any]) -> None:
        self._interrupts.inc(payload["kind"])
        for run in self._open.line_of(event):
            run.wait(payload["interruptId"], event.at)
        if self._lines is not None:
            self._lines.waits(event, self._open.of(event), payload["kind"], payload["interruptId"])

    def _closed_as(self, outcome: str) -> Callable[[Event, dict[str, Any]], None]:
        def closed(event: Event, payload: dict[str, Any]) -> None:
            self._answers.inc(outcome)
            for run in self._open.line_of(event):
                run.answered(payload["interruptId"], event.at)

        return closed

    def _hook_fired(self, event: Event, payload: dict[str, Any]) -> None:
        self._hooks.inc(payload["hook"], payload["decision"])
        self._took("hook", payload)

    def _gate_evaluated(self, event: Event, payload: dict[str, Any]) -> None:
        outcome = "passed" if payload["passed"] else "error" if "error" in payload else "failed"
        self._verdicts.inc(payload["gate"], payload["mode"], outcome)

    def _schema_violated(self, event: Event, payload: dict[str, Any]) -> None:
        self._violations.inc(payload["schemaName"])

    def _budget_exceeded(self, event: Event, payload: dict[str, Any]) -> None:
        self._budgets.inc(payload["budget"], payload["scope"])

    def _log_compacted(self, event: Event, payload: dict[str, Any]) -> None:
        self._dropped.inc(payload["deltas"])

    def _took(self, step: str, payload: dict[str, Any]) -> None:
        if (took := payload.get("durationMs")) is not None:
            self._step.observe(took / 1000, step)
