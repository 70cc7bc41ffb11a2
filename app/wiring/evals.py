"""What judges runs and keeps datasets, over an open store: everything that the routes for evaluations need."""

import contextlib
from collections.abc import AsyncIterator

from app.core.clock import Clock
from app.evals.case_runs import CaseRuns
from app.evals.collection import Collection
from app.evals.datasets import Datasets
from app.evals.declared import Gates
from app.evals.evaluations import Evaluations
from app.evals.judges import Judges
from app.evals.run_judgements import RunJudgements
from app.evals.services import EvalServices
from app.policy.redaction import CurrentRedaction
from app.runtime.intake.ledger import EVALS_THREAD, Ledger
from app.runtime.intake.ports import RunClient, RunLifecycle
from app.runtime.workspaces import WorkspaceHistory
from app.store.judgements import JudgementTable
from app.wiring.store import Store


@contextlib.asynccontextmanager
async def open_evals(
    store: Store,
    service: RunClient,
    lifecycle: RunLifecycle,
    history: WorkspaceHistory,
    gates: Gates,
    judges: Judges,
    clock: Clock,
    redaction: CurrentRedaction,
) -> AsyncIterator[EvalServices]:
    judgements = JudgementTable(store.database)
    ledger = Ledger(store.recorder, EVALS_THREAD, "Evaluations")
    datasets = Datasets(ledger, store.reader, redaction.clean)
    case_runs = CaseRuns(service, lifecycle, store.reader, store.hub)
    evaluations = Evaluations(ledger, store.reader, datasets, history, case_runs, gates, judges, clock)
    try:
        yield EvalServices(
            RunJudgements(store.recorder, store.reader, judgements, gates, judges, clock),
            Collection(store.reader, judgements),
            datasets,
            evaluations,
        )
    finally:
        await evaluations.close()
