"""Jobs: what the index of runs with queue attributes holds, and lists of them, newest first.

Every query reads a bounded number of rows; where most do not fit, a page is short and says where to go on.
"""

from collections.abc import Sequence
from typing import Any, Final

from app.store.engine import Database, Row, Sql, Tx
from app.store.run_lists import MAX_SCANNED, RUN_COLUMNS, run_of
from app.views.job import job_key
from app.views.job_changes import due_at, is_background, is_delayed, last_started_at, project_line
from app.views.ports import JobFilter, RunPlace
from app.views.run import Run

PUT_JOB: Final = Sql(
    "INSERT INTO jobs (tenant, run_id, thread_key, status, type, priority, project_id, session_id, due_at, delayed, "
    "key, created_at, serial, started_at) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14) "
    "ON CONFLICT (tenant, run_id) DO UPDATE SET status = excluded.status, due_at = excluded.due_at, "
    "delayed = excluded.delayed, started_at = excluded.started_at"
)
_FROM: Final = (
    f"SELECT {RUN_COLUMNS}, j.created_at, j.status, j.type, j.priority, j.project_id, j.session_id FROM jobs j "
    "JOIN runs r ON r.tenant = j.tenant AND r.id = j.run_id "
    "JOIN threads t ON t.key = j.thread_key AND t.deleted_at IS NULL WHERE j.tenant = $1"
)
_REST: Final = "AND (j.created_at, j.run_id) < ($2, $3) ORDER BY j.created_at DESC, j.run_id DESC LIMIT $4"
_BY_TIME: Final = Sql(f"{_FROM} {_REST}")
_OF_PROJECT: Final = Sql(f"{_FROM} AND j.project_id = $5 {_REST}")
_START: Final = RunPlace(2**62, "")
_AT_ONCE: Final = 500


def job_row(tenant: str, thread_key: int | None, run: Run) -> Row:
    it: dict[str, Any] = run.job or {}
    named = it.get("dedupeKey")
    key = job_key(it.get("dedupe", ""), it.get("projectId"), it["type"], named) if named is not None else None
    place = (it.get("projectId"), it.get("sourceSessionId"))
    waits = (due_at(run), int(is_delayed(run)))
    kind = (run.status, it["type"], int(is_background(run)))
    in_line = (1, last_started_at(run)) if project_line(run) is not None else (0, None)
    return (tenant, run.id, thread_key, *kind, *place, *waits, key, run.created_at, *in_line)


async def list_jobs(
    database: Database, tenant: str, wanted: JobFilter, after: RunPlace | None, limit: int
) -> tuple[list[Run], RunPlace | None]:
    """A page and where to go on, or None at the end."""
    place, found, scanned, size = after or _START, list[Run](), 0, limit
    sql, extra = (_BY_TIME, ()) if wanted.project_id is None else (_OF_PROJECT, (wanted.project_id,))

    async def page(tx: Tx) -> Sequence[Row]:
        return await tx.rows(sql, tenant, place.created_at, place.id, size, *extra)

    while scanned < MAX_SCANNED:
        rows = await database.look(page)
        for row in rows:
            place = RunPlace(row[6], row[0])
            if _fits(row, wanted):
                found.append(run_of(row))
                if len(found) == limit:
                    return found, place
        if len(rows) < size:
            return found, None
        scanned += size
        size = _AT_ONCE
    return found, place


def _fits(row: Row, wanted: JobFilter) -> bool:
    status, type_, priority, _, session = row[7:12]
    return (
        wanted.status in (None, status)
        and wanted.type in (None, type_)
        and wanted.session_id in (None, session)
        and wanted.priority in (None, "background" if priority else "interactive")
    )
