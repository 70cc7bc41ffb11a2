"""Collects cases from stored runs: only those that a filter asks for, with personal data replaced.

A case says where it came from: run, thread, the run's last `seq` and the hash of that event, which the log can be
checked against. Leaves to others: storing the dataset.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from typing import Any, Final

from app.core.clock import iso
from app.core.errors import Failure
from app.core.value import value
from app.evals.cases import MAX_CASES, Case, case_of
from app.events.blobs import restored, stored_blobs
from app.views.judgement import FEEDBACK, GATE, RunJudgement
from app.views.judgement_ports import Judgements
from app.views.ports import Reader, RunFilter, RunPlace
from app.views.run import Run

MAX_LOOKED_AT: Final = 50_000
"""Runs that one collection looks at."""
_PAGE: Final = 500

Redact = Callable[[Any], Any]


@value(frozen=True, slots=True)
class ScoreRange:
    """Of a gate's verdict or of feedback, by its name or label; None takes any."""

    name: str | None = None
    at_least: float = 0.0
    at_most: float = 1.0

    def fits(self, judgements: Sequence[RunJudgement], source: str) -> bool:
        """Whether the newest one with that name is within the range."""
        found = [one for one in judgements if one.source == source and (self.name is None or one.name == self.name)]
        return bool(found) and found[-1].score is not None and self.at_least <= found[-1].score <= self.at_most


@value(frozen=True, slots=True)
class CollectQuery:
    agent: str | None = None
    status: str | None = "completed"
    labels: Mapping[str, str] = field(default_factory=dict)
    created_from: int = 0
    created_until: int = 2**62
    score: ScoreRange | None = None
    feedback: ScoreRange | None = None
    expected: bool = True
    """Whether the run's answer becomes what is expected of the case."""
    limit: int = 1000


class Collection:
    def __init__(self, reader: Reader, judgements: Judgements) -> None:
        self._reader, self._judgements = reader, judgements

    async def collect(self, tenant: str, query: CollectQuery, redact: Redact) -> list[Case]:
        """Newest runs first; subagents' runs are left out."""
        wanted = RunFilter(
            status=query.status,
            agent=query.agent,
            labels=query.labels,
            created_from=query.created_from,
            created_until=query.created_until,
        )
        cases: list[Case] = []
        place: RunPlace | None = None
        looked = 0
        while len(cases) < min(query.limit, MAX_CASES) and looked < MAX_LOOKED_AT:
            runs, place = await self._reader.list_runs(tenant, wanted, place, _PAGE)
            looked += _PAGE
            cases += await self._cases(tenant, runs, query, redact)
            if place is None:
                break
        return cases[: query.limit]

    async def of_runs(self, tenant: str, run_ids: Sequence[str], redact: Redact) -> list[Case] | Failure:
        """Exactly these runs, in this order."""
        runs: list[Run] = []
        for run_id in dict.fromkeys(run_ids):
            run = await self._reader.run(tenant, run_id)
            if run is None:
                return Failure("RUN_NOT_FOUND", "There is no such run among those of `runIds`.")
            if not run.terminal:
                return Failure("RUN_NOT_ENDED", "One of the runs has not ended.")
            runs.append(run)
        return await self._cases(tenant, runs, None, redact)

    async def _cases(self, tenant: str, runs: Sequence[Run], query: CollectQuery | None, redact: Redact) -> list[Case]:
        roots = [run for run in runs if run.parent_run_id is None and run.agent is not None and run.terminal]
        judged: dict[str, list[RunJudgement]] = {run.id: [] for run in roots}
        for one in await self._judgements.of_runs(tenant, list(judged)):
            judged[one.run_id].append(one)
        made: list[Case] = []
        for run in roots:
            judgements = judged[run.id]
            if query is not None and query.score is not None and not query.score.fits(judgements, GATE):
                continue
            if query is not None and query.feedback is not None and not query.feedback.fits(judgements, FEEDBACK):
                continue
            case = await self._case(tenant, run, judgements, query is None or query.expected, redact)
            if case is not None:
                made.append(case)
        return made

    async def _case(
        self, tenant: str, run: Run, judgements: Sequence[RunJudgement], expected: bool, redact: Redact
    ) -> Case | None:
        """None for a run whose last event is gone or whose content is too large for a case."""
        last = await self._reader.run_events(tenant, run.id, run.last_seq - 1, 1)
        if not last:
            return None
        load = stored_blobs(self._reader, tenant, run.thread_id)
        given, output = await restored(run.input, load), await restored(run.output, load)
        metadata: dict[str, Any] = {"agent": run.agent, "status": run.status, "createdAt": iso(run.created_at)}
        if run.labels:
            metadata["labels"] = dict(run.labels)
        scores = {one.name: one.score for one in judgements if one.source == GATE and one.score is not None}
        feedback = [one for one in judgements if one.source == FEEDBACK]
        metadata |= {"scores": scores} if scores else {}
        metadata |= {"feedback": {"score": feedback[-1].score, "label": feedback[-1].name}} if feedback else {}
        clean = redact({"input": given, "output": output, "metadata": metadata})
        source = {"runId": run.id, "threadId": run.thread_id, "seq": last[0].seq, "digest": last[0].hash}
        document = {"id": run.id, **clean, "source": source}
        if expected and run.status == "completed":
            document["expected"] = clean["output"]
        case = case_of({name: value for name, value in document.items() if value is not None}, 1)
        return None if isinstance(case, Failure) else case
