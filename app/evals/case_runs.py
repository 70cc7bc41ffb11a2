"""Runs the cases of an evaluation: each as an ordinary run on a thread of its own, with labels to find it by.

A case whose run exists is not run again: of the same evaluation after a crash, or of an earlier one if nothing about it
changed. Nobody answers questions of such a run: one that waits for a person is cancelled. Leaves to others: scores.
"""

import asyncio
from typing import Final

from app.core.errors import Failure
from app.core.principal import Principal
from app.core.value import value
from app.evals.cases import Case
from app.events.catalog import interrupt, request
from app.events.follow import FellBehind, follow
from app.events.hub import EventSource
from app.runtime.intake.ports import RunClient, RunLifecycle
from app.runtime.intake.rejection import Rejected
from app.runtime.intake.submission import Submission
from app.views.ports import Reader, RunFilter
from app.views.run import Run
from app.workspace.compiled import CompiledWorkspace

EVAL_LABEL: Final = "holdfast.eval"
CASE_LABEL: Final = "holdfast.case"
CASE_SECONDS: Final = 900.0
"""What one case may take before its run is cancelled."""
_BUSY: Final = frozenset({"QUEUE_FULL", "RUNS_PER_MINUTE", "RUN_QUEUE_FULL", "TENANT_QUEUE_FULL", "OVERLOADED"})
_TRIES: Final = 300
_PAUSE_SECONDS: Final = 1.0
_STOPS: Final = request.TERMINAL | {interrupt.InterruptRaised.type}


@value(frozen=True, slots=True)
class Plan:
    evaluation_id: str
    agent: str
    model_plan: str | None
    workspace: CompiledWorkspace
    use_cache: bool


class CaseRuns:
    def __init__(self, service: RunClient, lifecycle: RunLifecycle, reader: Reader, hub: EventSource) -> None:
        self._service, self._lifecycle, self._reader, self._hub = service, lifecycle, reader, hub

    async def run(self, who: Principal, plan: Plan, case: Case, key: str) -> tuple[Run | Failure, bool]:
        """The ended run of the case, and whether it is an earlier evaluation's. `key` stands for all that matters."""
        found = await self._found(who.tenant, plan, key)
        if found is not None:
            return found, found.labels.get(EVAL_LABEL) != plan.evaluation_id
        submitted = await self._submit(who, plan, case, key)
        if isinstance(submitted, Failure):
            return submitted, False
        return await self._ended(who, submitted), False

    async def _found(self, tenant: str, plan: Plan, key: str) -> Run | None:
        labels = {CASE_LABEL: key} if plan.use_cache else {CASE_LABEL: key, EVAL_LABEL: plan.evaluation_id}
        runs, _ = await self._reader.list_runs(tenant, RunFilter(status="completed", labels=labels), None, 1)
        return runs[0] if runs else None

    async def _submit(self, who: Principal, plan: Plan, case: Case, key: str) -> Run | Failure:
        wanted = Submission(
            plan.agent,
            case.input,
            labels={EVAL_LABEL: plan.evaluation_id, CASE_LABEL: key},
            metadata={"case": case.id},
            model_plan=plan.model_plan,
            idempotency_key=f"{plan.evaluation_id}:{case.id}",
            body_hash=key,
            workspace=plan.workspace,
        )
        tries = 0
        while isinstance(taken := await self._service.submit(who, wanted), Rejected):
            tries += 1
            if tries == _TRIES or not _is_busy(taken):
                return taken.failure
            await asyncio.sleep(_PAUSE_SECONDS)
        return taken

    async def _ended(self, who: Principal, run: Run) -> Run | Failure:
        try:
            async with asyncio.timeout(CASE_SECONDS):
                while not await self._follow(who.tenant, run):
                    pass
        except TimeoutError:
            pass
        found = await self._reader.run(who.tenant, run.id)
        if found is not None and not found.terminal:
            await self._lifecycle.cancel(who, run.id, "an evaluation cannot answer")
            found = await self._reader.run(who.tenant, run.id)
        return found or Failure("RUN_NOT_FOUND", "The run of the case was deleted.")

    async def _follow(self, tenant: str, run: Run) -> bool:
        """Whether it has ended or waits for a person."""
        try:
            async for batch in follow(self._hub, self._reader.events, tenant, run.thread_id, run.first_seq - 1):
                if any(event.run_id == run.id and event.type in _STOPS for event in batch):
                    return True
        except FellBehind:
            return False
        return True  # the server stops


def _is_busy(refused: Rejected) -> bool:
    return refused.failure.retryable or refused.failure.code in _BUSY
