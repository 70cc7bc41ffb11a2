"""Evaluations: an agent is run on each case of a dataset, its runs are scored, and the report is kept.

The start and the end of an evaluation are events; its runs are ordinary runs with labels. One whose server died goes on
where it was: a case that has its run is not run again. A run of an earlier evaluation is used again if nothing about it
changed. Leaves to others: scores (the evaluators), what the scores add up to (`reports`).
"""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import field
from hashlib import sha256
from typing import Any, Final

import structlog

from app.core import json
from app.core.clock import Clock, iso
from app.core.errors import Failure
from app.core.ids import new_id
from app.core.json import JsonObject
from app.core.principal import Principal
from app.core.value import mutable, value
from app.evals.case_runs import EVAL_LABEL, CaseRuns, Plan
from app.evals.cases import Case
from app.evals.datasets import Datasets, DatasetVersion
from app.evals.declared import Gates
from app.evals.fingerprint import agent_fingerprint
from app.evals.judges import Judges
from app.evals.reports import shortened, summary, totals
from app.events.catalog.evaluation import EvaluationCompleted, EvaluationStarted
from app.events.envelope import Event
from app.events.ports import BlobDraft, KeyUnused, Refused, StoreError
from app.events.recorder import PayloadEntry
from app.policy.evaluator import NotEvaluated
from app.policy.gates import FAILED, Evaluation, evaluate
from app.runtime.intake.ledger import EVALS_THREAD, Ledger
from app.runtime.run.run_records import read_record
from app.runtime.workspaces import WorkspaceHistory
from app.views.ports import Reader, RunFilter
from app.views.run import Run
from app.workspace.compiled import CompiledWorkspace

MAX_PARALLEL: Final = 64
MAX_ACTIVE: Final = 4
"""Evaluations of one tenant at once."""
QUIET_MS: Final = 60_000
"""Without a new run for so long, an evaluation that has not ended and is not at work here has lost its server."""
_MIME: Final = "application/json"
_EVER: Final = 2**62
_PAGE: Final = 1000
_ROUTE: Final = "evals"

log = structlog.get_logger("holdfast.evals")


@value(frozen=True, slots=True)
class EvaluationRequest:
    dataset: str
    agent: str
    version: int | None = None
    model_plan: str | None = None
    thresholds: Mapping[str, float] = field(default_factory=dict)
    """Empty takes the evaluators of the agent's gates with their scores."""
    baseline: str | None = None
    """An evaluation's id, or `latest`: the last one of the same dataset and agent that has ended."""
    parallel: int = 4
    use_cache: bool = True


@mutable(slots=True)
class _Progress:
    task: "asyncio.Task[None] | None" = None
    done: int = 0
    total: int = 0
    cancelled: bool = False


class Evaluations:
    def __init__(
        self,
        ledger: Ledger,
        reader: Reader,
        datasets: Datasets,
        workspaces: WorkspaceHistory,
        case_runs: CaseRuns,
        gates: Gates,
        judges: Judges,
        clock: Clock,
    ) -> None:
        self._ledger, self._reader, self._datasets, self._workspaces = ledger, reader, datasets, workspaces
        self._case_runs, self._gates, self._judges, self._clock = case_runs, gates, judges, clock
        self._active: dict[tuple[str, str], _Progress] = {}

    async def close(self) -> None:
        """Those at work go on when somebody asks for them, here or on another server."""
        tasks = [progress.task for progress in self._active.values() if progress.task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    # -- starting ------------------------------------------------------------------------------------

    async def start(self, who: Principal, asked: EvaluationRequest) -> JsonObject | Failure:
        if sum(tenant == who.tenant for tenant, _ in self._active) >= MAX_ACTIVE:
            return Failure("EVALUATION_LIMIT", f"The tenant has {MAX_ACTIVE} evaluations at work already.", True)
        dataset = await self._datasets.find(who.tenant, asked.dataset, asked.version)
        if isinstance(dataset, Failure):
            return dataset
        workspace = await self._workspaces.for_new_run()
        thresholds = self._thresholds(workspace, asked)
        if isinstance(thresholds, Failure):
            return thresholds
        baseline = await self._baseline(who.tenant, asked, dataset)
        if isinstance(baseline, Failure):
            return baseline
        started = EvaluationStarted(
            evaluation_id=new_id("evaluation"),
            dataset=dataset.name,
            version=dataset.version,
            agent=asked.agent,
            workspace_digest=workspace.digest,
            model_plan=asked.model_plan,
            thresholds=dict(thresholds),
            baseline=baseline,
            parallel=asked.parallel,
            use_cache=asked.use_cache,
        )
        answer = await self._ledger.record(who.tenant, started, actor=who.actor)
        if isinstance(answer, Refused):
            return answer.failure
        event = next(event for event in answer.events if event.type == EvaluationStarted.type)
        await self._workspaces.code(workspace)  # its files are kept, as those of a run are
        self._work(who.tenant, event)
        return await self.show(who.tenant, started.evaluation_id)

    def _thresholds(self, workspace: CompiledWorkspace, asked: EvaluationRequest) -> Mapping[str, float] | Failure:
        agent = workspace.agents.get(asked.agent)
        if agent is None:
            return Failure("AGENT_NOT_FOUND", "The workspace has no such agent.")
        if asked.model_plan is not None and asked.model_plan not in workspace.models:
            return Failure("MODEL_NOT_FOUND", "The workspace has no such model.")
        if asked.thresholds.keys() - workspace.evaluators.keys():
            return Failure("EVALUATOR_NOT_FOUND", "The workspace does not have all of the evaluators in `gates`.")
        thresholds = dict(asked.thresholds) or {gate.evaluator: gate.min_score for gate in agent.spec.gates}
        if not thresholds:
            message = "The agent has no gates, so name the evaluators in `gates`."
            return Failure("EVALUATOR_NOT_FOUND", message)
        return thresholds

    async def _baseline(self, tenant: str, asked: EvaluationRequest, dataset: DatasetVersion) -> str | Failure | None:
        if asked.baseline is None:
            return None
        for one in reversed(await self.all_of(tenant)):
            if one["status"] != "completed":
                continue
            if one["id"] == asked.baseline:
                return asked.baseline
            if asked.baseline == "latest" and (one["dataset"], one["agent"]) == (dataset.name, asked.agent):
                return str(one["id"])
        if asked.baseline == "latest":
            return None  # the first one has nothing to be compared with
        return Failure("EVALUATION_NOT_FOUND", "There is no such evaluation that has completed.")

    # -- reading -------------------------------------------------------------------------------------

    async def all_of(self, tenant: str) -> list[JsonObject]:
        """Oldest first."""
        found: dict[str, JsonObject] = {}
        for event in await self._events(tenant):
            payload = event.payload
            if event.type == EvaluationStarted.type:
                found[payload["evaluationId"]] = self._started_json(tenant, event)
            elif payload["evaluationId"] in found:
                one = found[payload["evaluationId"]]
                one["status"] = "cancelled" if payload.get("cancelled") else "completed"
                one |= {"passed": payload["passed"], "scores": payload["scores"], "finishedAt": iso(event.at)}
                one["progress"] = {"done": payload["cases"], "total": payload["cases"], "cached": payload["cached"]}
        return list(found.values())

    async def show(self, tenant: str, evaluation_id: str) -> JsonObject | Failure:
        """The evaluation; one that lost its server goes on from here."""
        found = next((one for one in await self.all_of(tenant) if one["id"] == evaluation_id), None)
        if found is None:
            return Failure("EVALUATION_NOT_FOUND", "There is no such evaluation.")
        if found["status"] == "running" and (tenant, evaluation_id) not in self._active:
            await self._resume(tenant, evaluation_id)
        return found

    async def report(self, tenant: str, evaluation_id: str) -> JsonObject | Failure:
        for event in await self._events(tenant):
            if event.type == EvaluationCompleted.type and event.payload["evaluationId"] == evaluation_id:
                digest = event.payload["report"]["$blob"]["sha256"]
                stored = await self._reader.blob(tenant, EVALS_THREAD, digest)
                if stored is not None:
                    report: JsonObject = json.loads(stored[1])
                    return report
        shown = await self.show(tenant, evaluation_id)
        if isinstance(shown, Failure):
            return shown
        return Failure("EVALUATION_RUNNING", "The evaluation has not ended yet.", True)

    async def cancel(self, tenant: str, evaluation_id: str) -> JsonObject | Failure:
        progress = self._active.get((tenant, evaluation_id))
        if progress is not None:
            progress.cancelled = True
        return await self.show(tenant, evaluation_id)

    async def _events(self, tenant: str) -> list[Event]:
        types, after = [EvaluationStarted.type, EvaluationCompleted.type], 0
        events: list[Event] = []
        while True:
            page = await self._reader.events_of(tenant, EVALS_THREAD, types, after, _EVER, _PAGE)
            events += page
            if len(page) < _PAGE:
                return events
            after = page[-1].seq

    def _started_json(self, tenant: str, event: Event) -> JsonObject:
        payload = event.payload
        progress = self._active.get((tenant, payload["evaluationId"]))
        return {
            "id": payload["evaluationId"],
            "status": "running",
            "dataset": payload["dataset"],
            "version": payload["version"],
            "agent": payload["agent"],
            "modelPlan": payload.get("modelPlan"),
            "workspaceDigest": payload["workspaceDigest"],
            "thresholds": payload["thresholds"],
            "baseline": payload.get("baseline"),
            "startedAt": iso(event.at),
            "startedBy": event.actor,
            "finishedAt": None,
            "passed": None,
            "scores": None,
            "progress": {"done": progress.done, "total": progress.total, "cached": 0} if progress else None,
        }

    # -- working -------------------------------------------------------------------------------------

    async def _resume(self, tenant: str, evaluation_id: str) -> None:
        event = next(
            event
            for event in await self._events(tenant)
            if event.type == EvaluationStarted.type and event.payload["evaluationId"] == evaluation_id
        )
        runs, _ = await self._reader.list_runs(tenant, RunFilter(labels={EVAL_LABEL: evaluation_id}), None, 1)
        newest = max([event.at, *(run.created_at for run in runs)])
        if self._clock.now_ms() - newest > QUIET_MS:
            self._work(tenant, event)

    def _work(self, tenant: str, started: Event) -> None:
        key = tenant, started.payload["evaluationId"]
        progress = self._active[key] = _Progress()
        progress.task = asyncio.create_task(self._run(tenant, started, progress), name=f"evaluation {key[1]}")
        progress.task.add_done_callback(lambda _: self._active.pop(key, None))

    async def _run(self, tenant: str, started: Event, progress: _Progress) -> None:
        try:
            report = await self._evaluate(tenant, started, progress)
            await self._finish(tenant, started, report)
        except StoreError as error:
            log.warning("evaluation.store_failed", evaluation=started.payload["evaluationId"], code=error.code)
        except Exception:
            log.exception("evaluation.failed", evaluation=started.payload["evaluationId"])

    async def _evaluate(self, tenant: str, started: Event, progress: _Progress) -> JsonObject:
        asked = started.payload
        dataset = await self._datasets.find(tenant, asked["dataset"], asked["version"])
        workspace = await self._workspaces.of(asked["workspaceDigest"])
        cases = [] if isinstance(dataset, Failure) else await self._datasets.cases(tenant, dataset)
        progress.total = len(cases)
        results: list[JsonObject] = []
        if workspace is not None:
            results = await self._results(tenant, started, cases, workspace, progress)
        before = await self.report(tenant, asked["baseline"]) if asked.get("baseline") else None
        scores = summary(results, asked["thresholds"], None if isinstance(before, Failure) else before)
        return {
            "id": asked["evaluationId"],
            "dataset": asked["dataset"],
            "version": asked["version"],
            "datasetDigest": None if isinstance(dataset, Failure) else dataset.digest,
            "agent": asked["agent"],
            "modelPlan": asked.get("modelPlan"),
            "workspaceDigest": asked["workspaceDigest"],
            "thresholds": asked["thresholds"],
            "baseline": asked.get("baseline"),
            "startedAt": iso(started.at),
            "finishedAt": iso(self._clock.now_ms()),
            "cancelled": progress.cancelled,
            "passed": bool(results) and not progress.cancelled and all(one["passed"] for one in scores.values()),
            "scores": scores,
            "totals": totals(results),
            "cases": results,
        }

    async def _results(
        self, tenant: str, started: Event, cases: Sequence[Case], workspace: CompiledWorkspace, progress: _Progress
    ) -> list[JsonObject]:
        asked = started.payload
        fingerprint = agent_fingerprint(workspace, asked["agent"], asked.get("modelPlan"))
        plan = Plan(asked["evaluationId"], asked["agent"], asked.get("modelPlan"), workspace, asked["useCache"])
        who = Principal(started.actor.removeprefix("user:"), tenant)
        known = await self._known_scores(tenant, asked["dataset"]) if asked["useCache"] else {}
        results: dict[int, JsonObject] = {}
        places = iter(enumerate(cases))

        async def work() -> None:
            for number, case in places:
                if progress.cancelled:
                    return
                key = sha256(f"{fingerprint}:{_digest_of_input(case)}".encode()).hexdigest()[:48]
                run, cached = await self._case_runs.run(who, plan, case, key)
                results[number] = await self._result(tenant, asked, case, run, cached, workspace, known)
                progress.done += 1

        workers = [asyncio.create_task(work()) for _ in range(min(asked["parallel"], len(cases)) or 1)]
        try:
            await asyncio.gather(*workers)
        finally:
            for worker in workers:
                worker.cancel()
        return [results[number] for number in sorted(results)]

    async def _result(
        self,
        tenant: str,
        asked: Mapping[str, Any],
        case: Case,
        run: Run | Failure,
        cached: bool,
        workspace: CompiledWorkspace,
        known: Mapping[tuple[str, str, str], JsonObject],
    ) -> JsonObject:
        made: JsonObject = {"id": case.id, "digest": case.digest, "cached": cached, "scores": {}}
        if isinstance(run, Failure):
            none = {"runId": None, "status": "failed", "output": None, "latencyMs": None, "costUsd": None}
            return made | none | {"error": {"code": run.code, "message": run.message}}
        evaluators = self._gates.evaluators(workspace)
        try:
            record = await read_record(self._reader, tenant, run)
        except NotEvaluated as error:
            unread = {"runId": run.id, "status": run.status, "output": None, "latencyMs": None, "costUsd": None}
            return made | unread | {"error": {"code": FAILED, "message": str(error)}}
        record.expected = case.expected
        ask = self._judges.of(tenant, workspace)
        for name in asked["thresholds"]:
            scored_by = evaluators[name]
            score = known.get((run.id, scored_by.digest, case.digest))
            if score is None and run.status == "completed":
                score = _score_json(await evaluate(scored_by, record, ask, self._clock), scored_by.digest)
            made["scores"][name] = score or {"score": None, "error": FAILED, "reason": f"the run is {run.status}"}
        made |= {"runId": run.id, "status": run.status, "error": run.error, "output": shortened(record.output)}
        return made | {"latencyMs": record.latency_ms, "costUsd": record.cost_usd}

    async def _known_scores(self, tenant: str, dataset: str) -> dict[tuple[str, str, str], JsonObject]:
        """Scores of the last evaluation of the dataset: by run, evaluator and case, as they were then."""
        ended = [one for one in await self.all_of(tenant) if one["dataset"] == dataset and one["status"] == "completed"]
        if not ended:
            return {}
        report = await self.report(tenant, ended[-1]["id"])
        if isinstance(report, Failure):
            return {}
        return {
            (case["runId"], score["definition"], case["digest"]): score
            for case in report["cases"]
            for score in case["scores"].values()
            if score.get("score") is not None and case["runId"] is not None
        }

    async def _finish(self, tenant: str, started: Event, report: JsonObject) -> None:
        content = json.dumps(report)
        digest = sha256(content).hexdigest()
        completed = EvaluationCompleted(
            evaluation_id=report["id"],
            passed=report["passed"],
            cancelled=True if report["cancelled"] else None,
            cases=report["totals"]["cases"],
            cached=report["totals"]["cached"],
            scores=report["scores"],
            report={"$blob": {"sha256": digest, "size": len(content), "mime": _MIME}},
        )
        entry = PayloadEntry(completed, blobs=(BlobDraft(digest, content, _MIME),))
        once = KeyUnused(_ROUTE, report["id"], "", "", _EVER)
        await self._ledger.record(tenant, entry, conditions=[once])


def _score_json(found: Evaluation, definition: str) -> JsonObject:
    score = found.score
    made: JsonObject = {"score": None if score is None else score.value, "definition": definition}
    made["reason"] = score.reason if score is not None else found.reason
    return made | ({"error": found.error} if found.error is not None else {})


def _digest_of_input(case: Case) -> str:
    return sha256(json.canonical({"input": case.input})).hexdigest()
