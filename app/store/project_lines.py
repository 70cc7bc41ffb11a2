"""Whose turn it is in the line of a project: one job of it runs at a time, at whichever server.

The line is what the index of jobs holds, so there is nothing to give back when a server dies: a job that runs has the
turn until it ends, waits or is to be tried again. Leaves to the log: the claim that is decided by it, which must be in
the same transaction. Leaves to the executor: trying again.
"""

from collections.abc import Iterable
from typing import Final

from app.store.decide import LineTurn
from app.store.engine import Row, Sql, Tx

INTERACTIVE_IN_A_ROW: Final = 3
BACKGROUND_MS: Final = 15_000
"""After that many interactive starts in a row, a background job goes first if it has waited for that long."""
_UNKNOWN: Final = LineTurn("", "")

EARLIER_ON_THREAD: Final = (
    "p.parent_run_id IS NULL AND p.status IN ('queued', 'running', 'waiting') "
    "AND NOT EXISTS (SELECT 1 FROM jobs d WHERE d.tenant = p.tenant AND d.run_id = p.id AND d.delayed = 1) "
    # One that waits for an artifact lets the next ones go first.
    "AND NOT (p.status = 'waiting' AND EXISTS (SELECT 1 FROM interrupts w WHERE w.thread_key = p.thread_key "
    "AND w.id > 'dlv_' AND w.id < 'dlw' AND w.run_id = p.id AND w.status = 'open'))"
)
"""What a run `p` is that another run of its thread waits for, if it comes before that."""
ANOTHER_RUNS: Final = (
    "EXISTS (SELECT 1 FROM jobs s WHERE j.serial = 1 AND s.serial = 1 AND s.tenant = j.tenant "
    "AND s.project_id = j.project_id AND s.status = 'running' AND s.run_id <> j.run_id)"
)
"""Of a job `j`: it stands in a line in which another one runs."""

# Held until the commit: of two servers that would each find a different first job, one finds out nothing.
_LOCK: Final = Sql("SELECT {try_lock:$1}")
_OF_LINE: Final = (
    "FROM jobs j JOIN runs r ON r.tenant = j.tenant AND r.id = j.run_id "
    "JOIN threads t ON t.key = j.thread_key AND t.deleted_at IS NULL "
    "WHERE j.serial = 1 AND j.tenant = $1 AND j.project_id = $2"
)
_RUNNING: Final = Sql(f"SELECT j.run_id, r.thread_id {_OF_LINE} AND j.status = 'running' LIMIT 1")
_FIRST: Final = Sql(
    f"SELECT j.run_id, r.thread_id, {{now}} - j.created_at {_OF_LINE} AND j.status = 'queued' AND j.priority = $3 "
    "AND (j.due_at IS NULL OR j.due_at <= {now}) AND NOT EXISTS (SELECT 1 FROM runs p "
    # One whose time was not yet stands in its thread's line when it is taken up, behind all who are in it.
    "WHERE p.thread_key = r.thread_key AND p.id <> r.id AND (p.first_seq < r.first_seq OR j.delayed = 1) "
    f"AND {EARLIER_ON_THREAD}) ORDER BY j.created_at, j.run_id LIMIT 1"
)
_LAST_STARTS: Final = Sql(
    "SELECT j.priority FROM jobs j WHERE j.serial = 1 AND j.tenant = $1 AND j.project_id = $2 "
    "AND j.started_at IS NOT NULL ORDER BY j.started_at DESC LIMIT $3"
)


async def load_turns(tx: Tx, lines: Iterable[tuple[str, str]]) -> dict[tuple[str, str], LineTurn]:
    """By tenant and project; a line in which nobody can go is left out."""
    turns: dict[tuple[str, str], LineTurn] = {}
    for line in sorted(lines):
        tenant, project = line
        held = await tx.rows(_LOCK, f"project line\n{tenant}\n{project}")
        turn = await _turn(tx, tenant, project) if held[0][0] else _UNKNOWN
        if turn is not None:
            turns[line] = turn
    return turns


async def _turn(tx: Tx, tenant: str, project: str) -> LineTurn | None:
    running = await tx.rows(_RUNNING, tenant, project)
    if running:
        return LineTurn(*running[0])
    interactive = await tx.rows(_FIRST, tenant, project, 0)
    background = await tx.rows(_FIRST, tenant, project, 1)
    first = interactive or background
    if interactive and background and await _is_forced(tx, tenant, project, background[0]):
        first = background
    return LineTurn(first[0][0], first[0][1]) if first else None


async def _is_forced(tx: Tx, tenant: str, project: str, background: Row) -> bool:
    if background[2] < BACKGROUND_MS:
        return False
    last = await tx.rows(_LAST_STARTS, tenant, project, INTERACTIVE_IN_A_ROW)
    return len(last) == INTERACTIVE_IN_A_ROW and not any(row[0] for row in last)
