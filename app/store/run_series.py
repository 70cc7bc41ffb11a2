"""Runs over time, for plots: how many began in each interval and how they stand, and what the newest ones used.

Counts come from an index of the runs; tokens and cost are in their records, so they are summed of the newest only.
Leaves to others: which intervals there are (`http.stats`).
"""

from collections import defaultdict
from typing import Final

from app.store.engine import Database, Sql
from app.store.run_lists import RUN_COLUMNS, run_of
from app.views.ports import RunSeries, SeriesPoint

MAX_COUNTED: Final = 500_000
"""Runs that are counted at most; an index of them is read, about 0.2 s."""
MAX_SUMMED: Final = 5000
"""Records that are decoded for their usage, about 0.1 s."""

_COUNTS: Final = Sql(
    "SELECT b, status, COUNT(*) FROM (SELECT created_at / $3 AS b, status FROM runs WHERE tenant = $1 "
    "AND created_at >= $2 ORDER BY created_at DESC LIMIT $4) r GROUP BY b, status"
)
_NEWEST: Final = Sql(
    f"SELECT {RUN_COLUMNS}, r.created_at FROM runs r WHERE r.tenant = $1 AND r.created_at >= $2 "
    "ORDER BY r.created_at DESC LIMIT $3"
)
_ACTIVE: Final = Sql("SELECT r.status, COUNT(*) FROM runs r WHERE r.tenant || '' = $1 AND {active:r} GROUP BY r.status")
_WAITING: Final = Sql(
    "SELECT COUNT(*) FROM (SELECT 1 FROM interrupts WHERE tenant = $1 AND status = 'open' AND id < 'tmr' LIMIT $2) i"
)


async def run_series(database: Database, tenant: str, since: int, step: int) -> RunSeries:
    """`since` is the beginning of an interval of `step` milliseconds."""
    counts = await database.look(lambda tx: tx.rows(_COUNTS, tenant, since, step, MAX_COUNTED))
    newest = await database.look(lambda tx: tx.rows(_NEWEST, tenant, since, MAX_SUMMED))
    active = await database.look(lambda tx: tx.rows(_ACTIVE, tenant))
    waiting = await database.look(lambda tx: tx.rows(_WAITING, tenant, MAX_COUNTED))
    points: defaultdict[int, SeriesPoint] = defaultdict(SeriesPoint)
    for place, status, number in counts:
        points[int(place) * step].count(status, number)
    for row in newest:
        points[row[6] // step * step].add(run_of(row).usage)
    summed_since = newest[-1][6] if len(newest) == MAX_SUMMED else since
    return RunSeries(dict(points), {row[0]: row[1] for row in active}, waiting[0][0], summed_since)
