"""Verdicts of gates and feedback on runs, as queries need them; and the runs that shadow gates are still to judge.

Both are written by the log (`materialize`), in the transaction of the event that says so; here they are read, and a
run that is due is taken for a while by whoever is going to judge it.
"""

from collections.abc import Sequence
from typing import Final

from app.store.codec import decode
from app.store.engine import Database, Row, Sql, Tx
from app.views.judgement import GATE, RunJudgement
from app.views.judgement_ports import DueEvaluation, GateRate

_TAKE: Final = Sql(
    "UPDATE due_evaluations SET until = {now} + $1, tries = tries + 1 WHERE (tenant, run_id) IN "
    "(SELECT d.tenant, d.run_id FROM due_evaluations d WHERE d.until <= {now} ORDER BY d.until LIMIT $2 {lock}) "
    "RETURNING tenant, run_id, thread_id, tries"
)
_GIVE_BACK: Final = Sql("UPDATE due_evaluations SET until = 0 WHERE until > 0")
_DROP: Final = Sql("DELETE FROM due_evaluations WHERE tenant = $1 AND run_id = $2")
_OF_RUNS: Final = Sql(
    "SELECT j.state FROM judgements j WHERE j.tenant = $1 AND j.run_id {in:$2} ORDER BY j.run_id, j.at, j.id"
)
_RATES: Final = Sql(
    "SELECT r.agent, j.name, j.mode, COUNT(*), SUM(j.passed), SUM(CASE WHEN j.score IS NULL THEN 1 ELSE 0 END), "
    "AVG(j.score), MIN(j.at), MAX(j.at) FROM judgements j JOIN runs r ON r.tenant = j.tenant AND r.id = j.run_id "
    "WHERE j.tenant = $1 AND j.source = $2 AND j.at >= $3 AND (CAST($4 AS TEXT) IS NULL OR r.agent = $4) "
    "GROUP BY r.agent, j.name, j.mode ORDER BY r.agent, j.name, j.mode"
)


class DueEvaluationTable:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def take(self, limit: int, seconds: float) -> list[DueEvaluation]:
        """For this number of seconds nobody else takes them; the verdicts end that for good."""
        rows = await self._database.write(lambda tx: tx.rows(_TAKE, round(seconds * 1000), limit))
        return [DueEvaluation(*row) for row in rows]

    async def drop(self, tenant: str, run_id: str) -> None:
        """There is nothing left to judge: the run or its thread is gone."""
        await self._database.write(lambda tx: tx.rows(_DROP, tenant, run_id))

    async def give_back_all(self) -> None:
        """Embedded start-up: whoever took them is dead."""
        await self._database.write(lambda tx: tx.rows(_GIVE_BACK))


class JudgementTable:
    def __init__(self, database: Database) -> None:
        self._database = database

    async def of_runs(self, tenant: str, run_ids: Sequence[str]) -> list[RunJudgement]:
        """By run, oldest first."""

        async def work(tx: Tx) -> Sequence[Row]:
            return await tx.rows(_OF_RUNS, tenant, list(run_ids))

        return [decode(RunJudgement, row[0]) for row in await self._database.look(work)] if run_ids else []

    async def rates(self, tenant: str, since: int, agent: str | None) -> list[GateRate]:
        rows = await self._database.read(lambda tx: tx.rows(_RATES, tenant, GATE, since, agent))
        return [
            GateRate(agent_, name, mode, int(count), int(passed or 0), int(errors or 0), mean, first, last)
            for agent_, name, mode, count, passed, errors, mean, first, last in rows
        ]
