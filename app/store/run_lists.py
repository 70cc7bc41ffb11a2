"""Lists of runs, newest first: one index leads, by what the list asks for, and the rest is looked at row by row.

Every query reads a bounded number of rows, whatever the tables have grown to; where most rows do not fit, a page is
short and says where to go on.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from app.core import json
from app.store.codec import decode
from app.store.engine import Database, Row, Sql, Tx
from app.views.ports import RunFilter, RunPlace
from app.views.run import Run

MAX_SCANNED: Final = 5000
"""Rows that one page looks at."""
LABEL_LENGTH: Final = 200
"""Characters of a label's name or value that the index keeps; the record is looked at for the rest."""
NOT_INDEXED: Final = frozenset({"openai.api", "openai.request"})
"""Labels that every run of an OpenAI client has from us: the first says the same of nearly all of them, and by the
second nobody looks for a run. A list that is filtered by them alone reads the runs in their order."""
_AT_ONCE: Final = 500
_START: Final = RunPlace(2**62, "")

AT_WORK: Final = "{active:r} AND r.status IN ('queued', 'running')"
"""In the words of the index `runs_active`, which would not be used otherwise."""
RUN_COLUMNS: Final = "r.id, r.thread_id, r.first_seq, r.last_seq, r.run_seq, r.state"
_SELECT: Final = f"SELECT {RUN_COLUMNS}, r.status, r.agent, t.deleted_at, r.created_at FROM runs r"
_THREADS: Final = "JOIN threads t ON t.key = r.thread_key"
# Only what is newer than the place where a list goes on is bounded here; its oldest end is found by looking. With both
# ends SQLite would rather follow the index by time.
_REST: Final = "AND (r.created_at, r.id) < ($2, $3) ORDER BY r.created_at DESC, r.id DESC LIMIT $4"

_BY_TIME: Final = Sql(f"{_SELECT} {_THREADS} WHERE r.tenant = $1 {_REST}")


def _within(column: str) -> str:
    """The rows of one value of a column, as a range of its index instead of an equality.

    With an equality Postgres, planning for any value at once, may follow the index by time and read every run there is
    to find the few of a rare value. A range of `(column, created_at, id)` is ordered by that column's index alone.
    """
    order = f"r.{column} DESC, r.created_at DESC, r.id DESC"
    return f"r.{column} >= $5 AND (r.{column}, r.created_at, r.id) < ($5, $2, $3) ORDER BY {order} LIMIT $4"


_BY_AGENT: Final = Sql(f"{_SELECT} {_THREADS} WHERE r.tenant = $1 AND {_within('agent')}")
# Both repeat the condition of their partial index, or SQLite would not use it.
_RESTING: Final = Sql(f"{_SELECT} {_THREADS} WHERE r.tenant = $1 AND {{resting:r}} AND {_within('status')}")
_WORKING: Final = Sql(
    # Few at any time, by the limits of the queue, so they are sorted; no other index may look better to SQLite.
    f"{_SELECT} {_THREADS} WHERE r.tenant || '' = $1 AND r.status = $5 "
    "AND {active:r} AND (r.created_at + 0, r.id) < ($2, $3) "
    "ORDER BY r.created_at + 0 DESC, r.id DESC LIMIT $4"
)
_BY_LABEL: Final = Sql(
    f"{_SELECT.replace('FROM runs r', 'FROM run_labels l JOIN runs r ON r.tenant = l.tenant AND r.id = l.run_id')} "
    f"{_THREADS} WHERE l.tenant = $1 AND l.name = $5 AND l.value = $6 AND (l.created_at, l.run_id) < ($2, $3) "
    "ORDER BY l.created_at DESC, l.run_id DESC LIMIT $4"
)
# Within a thread runs are created in the order of their first events.
_OF_THREAD: Final = Sql(
    f"{_SELECT} {_THREADS} WHERE r.thread_key = (SELECT key FROM threads WHERE tenant = $1 AND id = $5) "
    "AND r.first_seq < COALESCE((SELECT b.first_seq FROM runs b WHERE b.tenant = $1 AND b.id = $3), "
    "CAST($2 AS BIGINT)) ORDER BY r.first_seq DESC LIMIT $4"
)
_PLACE: Final = Sql("SELECT created_at FROM runs WHERE tenant = $1 AND id = $2")


def label_key(name: str, value: str) -> tuple[str, str]:
    """As both databases can keep and index it."""
    return name.replace("\0", "")[:LABEL_LENGTH], value.replace("\0", "")[:LABEL_LENGTH]


def run_of(row: Row) -> Run:
    id, thread_id, first_seq, last_seq, run_seq, state = row[:6]
    return decode(Run, state, id=id, thread_id=thread_id, first_seq=first_seq, last_seq=last_seq, run_seq=run_seq)


async def list_runs(
    database: Database, tenant: str, filter_: RunFilter, after: RunPlace | None, limit: int, *, deleted: bool = False
) -> tuple[list[Run], RunPlace | None]:
    """A page and where to go on, or None at the end. With `deleted` also the runs of deleted threads."""
    sql, extra = _leading(filter_)
    place, found, scanned = after or _START, list[Run](), 0
    if filter_.thread_id is None and filter_.created_until <= place.created_at:
        place = RunPlace(filter_.created_until, "")
    size = limit
    while scanned < MAX_SCANNED:
        rows = await _page(database, sql, tenant, place, size, extra)
        for row in rows:
            place = RunPlace(row[9], row[0])
            if place.created_at < filter_.created_from:
                return found, None
            if (run := _fitting(row, filter_, deleted)) is not None:
                found.append(run)
                if len(found) == limit:
                    return found, place
        if len(rows) < size:
            return found, None
        scanned += size
        size = _AT_ONCE
    return found, place


async def runs_before(database: Database, tenant: str, filter_: RunFilter, before: str | None, limit: int) -> list[Run]:
    """As a list, for whoever needs every run that fits: looks on until there are enough, deleted threads included."""
    place: RunPlace | None = None
    if before is not None:
        rows = await database.look(lambda tx: tx.rows(_PLACE, tenant, before))
        if not rows:
            return []
        place = RunPlace(rows[0][0], before)
    found: list[Run] = []
    while True:
        page, place = await list_runs(database, tenant, filter_, place, limit - len(found), deleted=True)
        found += page
        if place is None or len(found) == limit:
            return found


async def _page(
    database: Database, sql: Sql, tenant: str, place: RunPlace, size: int, extra: Sequence[str]
) -> Sequence[Row]:
    async def work(tx: Tx) -> Sequence[Row]:
        return await tx.rows(sql, tenant, place.created_at, place.id, size, *extra)

    return await database.look(work)


def _leading(filter_: RunFilter) -> tuple[Sql, Sequence[str]]:
    """The index that leaves the fewest rows, as far as that can be known: most runs have completed."""
    if filter_.thread_id is not None:
        return _OF_THREAD, (filter_.thread_id,)
    if labels := [label for label in filter_.labels.items() if label[0] not in NOT_INDEXED]:
        return _BY_LABEL, label_key(*min(labels))
    if filter_.status is not None and (filter_.status != "completed" or filter_.agent is None):
        return (_WORKING if filter_.status in ("queued", "running") else _RESTING), (filter_.status,)
    if filter_.agent is not None:
        return _BY_AGENT, (filter_.agent,)
    return _BY_TIME, ()


def _fitting(row: Row, filter_: RunFilter, deleted: bool) -> Run | None:
    status, agent, deleted_at = row[6:9]
    if (deleted_at is not None and not deleted) or filter_.status not in (None, status):
        return None
    if row[9] >= filter_.created_until:
        return None
    if filter_.agent not in (None, agent):
        return None
    run = run_of(row)
    if filter_.workflow not in (None, run.workflow) or not _contains(run, filter_.text):
        return None
    return run if filter_.labels.items() <= run.labels.items() else None


def _contains(run: Run, text: str | None) -> bool:
    if text is None:
        return True
    said = run.input if isinstance(run.input, str) else json.dumps(run.input).decode()
    return text.casefold() in said.casefold()


def label_rows(tenant: str, thread_key: int | None, run: Run) -> Iterator[Row]:
    """What the index keeps of a run's labels."""
    labels: Mapping[str, str] = run.labels
    for name, value in sorted({label_key(*label) for label in labels.items() if label[0] not in NOT_INDEXED}):
        yield tenant, name, value, run.created_at, run.id, thread_key
