"""Judges runs that have ended by the shadow gates of their agent: after the run, and without any effect on it.

That a run is due is stored with its end, and its verdicts take that note away in one commit with themselves. So a
verdict is recorded once, whatever is killed in between, and the run and its latency stay as they are.
"""

import asyncio
import contextlib
from collections.abc import Sequence
from typing import Final

import structlog

from app.core.clock import Clock
from app.evals.declared import Gates
from app.evals.judges import Judges
from app.evals.verdicts import record_verdicts, recorded
from app.events.ports import EvaluationDone, Refused, StoreError
from app.events.recorder import Recorder, Scope
from app.policy.evaluator import NotEvaluated
from app.policy.gates import FAILED, Evaluation, GateRule, Verdict, judge
from app.runtime.run.run_records import read_record
from app.runtime.workspaces import WorkspaceHistory
from app.views.judgement_ports import DueEvaluation, DueEvaluations, Judgements
from app.views.ports import Reader
from app.views.run import Run

AT_ONCE: Final = 4
"""Runs that are judged at the same time: what is at work for clients goes first."""
LOOK_SECONDS: Final = 5.0
"""Between two looks for what nobody announced: another server's, or one that ended with its server."""
TAKEN_SECONDS: Final = 600.0
"""How long others leave a run to whoever took it."""
MAX_TRIES: Final = 3
"""A run whose judgement was begun so often and never ended has one that kills the server."""

log = structlog.get_logger("holdfast.evals")


class ShadowGates:
    def __init__(
        self,
        due: DueEvaluations,
        judgements: Judgements,
        reader: Reader,
        recorder: Recorder,
        workspaces: WorkspaceHistory,
        gates: Gates,
        judges: Judges,
        clock: Clock,
    ) -> None:
        self._due, self._judgements, self._reader = due, judgements, reader
        self._recorder, self._workspaces = recorder, workspaces
        self._gates, self._judges, self._clock = gates, judges, clock
        self._announced = asyncio.Event()
        self._looking: asyncio.Task[None] | None = None
        self._judging: set[asyncio.Task[None]] = set()

    def announce(self) -> None:
        """A run has ended that is to be judged."""
        self._announced.set()

    def start(self) -> None:
        self._announced.set()
        self._looking = asyncio.create_task(self._look_forever(), name="holdfast-shadow-gates")

    async def close(self) -> None:
        """What is not judged by now stays due."""
        tasks = [*self._judging, *([self._looking] if self._looking else [])]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _look_forever(self) -> None:
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(LOOK_SECONDS):
                    await self._announced.wait()
            try:
                await self._look()
            except StoreError as error:
                self._announced.clear()
                log.warning("gates.store_failed", code=error.code)
                await asyncio.sleep(LOOK_SECONDS)

    async def _look(self) -> None:
        while True:
            if len(self._judging) >= AT_ONCE:
                await asyncio.wait(self._judging, return_when=asyncio.FIRST_COMPLETED)
            self._announced.clear()
            taken = await self._due.take(AT_ONCE - len(self._judging), TAKEN_SECONDS)
            for one in taken:
                task = asyncio.create_task(self._judge(one), name=f"judge {one.run_id}")
                self._judging.add(task)
                task.add_done_callback(self._judging.discard)
            if not taken:
                return

    async def _judge(self, due: DueEvaluation) -> None:
        try:
            await self._judge_run(due)
        except StoreError as error:
            log.warning("gates.store_failed", run=due.run_id, code=error.code)
        except Exception:
            log.exception("gates.shadow_failed", run=due.run_id)

    async def _judge_run(self, due: DueEvaluation) -> None:
        run = await self._reader.run(due.tenant, due.run_id)
        rules = await self._rules(run)
        if run is None or not rules:
            await self._due.drop(due.tenant, due.run_id)
            return
        known = await self._judgements.of_runs(due.tenant, [run.id])
        rules = [rule for rule in rules if recorded(rule, known) is None]  # somebody may have asked for it before
        if not rules:
            await self._due.drop(due.tenant, due.run_id)
            return
        verdicts = await self._verdicts(due, run, rules)
        scope, done = Scope(due.tenant, due.thread_id), [EvaluationDone(run.id)]
        answer = await record_verdicts(self._recorder, scope, run.id, verdicts, self._clock, done)
        if isinstance(answer, Refused) and answer.failure.code.startswith("IDEMPOTENCY_KEY"):
            await self._judge_run(due)  # somebody asked for one meanwhile: that one counts
        elif isinstance(answer, Refused) and answer.failure.code != "EVALUATION_DONE":
            log.warning("gates.not_recorded", run=run.id, code=answer.failure.code)
            await self._due.drop(due.tenant, due.run_id)

    async def _rules(self, run: Run | None) -> Sequence[GateRule]:
        workspace = await self._workspaces.of(run.workspace_digest) if run is not None else None
        agent = workspace.acting(run.agent, run.workflow) if run is not None and workspace is not None else None
        if run is None or workspace is None or agent is None:
            return ()
        return [rule for rule in self._gates.of(workspace, agent).shadow if rule.takes(run.id)]

    async def _verdicts(self, due: DueEvaluation, run: Run, rules: Sequence[GateRule]) -> list[Verdict]:
        if due.tries > MAX_TRIES:
            reason = f"judging the run was begun {MAX_TRIES} times and never ended"
            return [Verdict(rule, Evaluation(None, FAILED, reason)) for rule in rules]
        workspace = await self._workspaces.of(run.workspace_digest)
        assert workspace is not None
        try:
            record = await read_record(self._reader, due.tenant, run)
        except NotEvaluated as error:
            return [Verdict(rule, Evaluation(None, FAILED, str(error))) for rule in rules]
        return await judge(rules, record, self._judges.of(due.tenant, workspace), self._clock)
