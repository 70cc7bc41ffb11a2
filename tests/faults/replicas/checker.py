"""Reads the database and what readers saw, and says what is wrong. Shares no code with the server: plain SQL."""

import asyncio
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import pairwise

import asyncpg

from tests.faults.replicas.clients import TERMINAL, Wish


@dataclass(slots=True)
class Verdict:
    acknowledged: int = 0
    events: int = 0
    takeovers: int = 0
    lost: list[str] = field(default_factory=list)
    """Acknowledged runs that are not there."""
    stuck: list[str] = field(default_factory=list)
    """Runs that have not ended."""
    doubled: list[str] = field(default_factory=list)
    """Runs with two ends, tools that acted twice, epochs that two owners had."""
    broken: list[str] = field(default_factory=list)
    """Threads with a gap, or whose hashes do not link."""
    inexact: list[str] = field(default_factory=list)
    """Readers whose transcript is not what is stored."""

    def counts(self) -> dict[str, int]:
        return {
            "acknowledged": self.acknowledged, "events": self.events, "taken over": self.takeovers,
            "lost": len(self.lost), "doubled": len(self.doubled), "stuck": len(self.stuck),
            "broken": len(self.broken), "inexact streams": len(self.inexact),
        }  # fmt: skip

    def __str__(self) -> str:
        return ", ".join(f"{count} {name}" for name, count in self.counts().items())

    def assert_sound(self) -> None:
        wrong = {name: getattr(self, name) for name in ("lost", "stuck", "doubled", "broken", "inexact")}
        assert not any(wrong.values()), {name: found[:5] for name, found in wrong.items() if found}


async def all_ended(url: str) -> None:
    """Returns when no run is left that has not ended."""
    connection = await asyncpg.connect(url)
    try:
        while await connection.fetchval("SELECT 1 FROM runs WHERE status IN ('queued', 'running', 'waiting') LIMIT 1"):  # noqa: ASYNC110
            await asyncio.sleep(0.2)  # the checker does not listen to what it checks
    finally:
        await connection.close()


async def check(url: str, wishes: Iterable[Wish], acted: Iterable[tuple[str, str, str]]) -> Verdict:
    """`acted` is a line for each time that a tool acted: run, call and key."""
    verdict = Verdict()
    connection = await asyncpg.connect(url)
    try:
        for wish in wishes:
            if wish.run_id is not None:
                verdict.acknowledged += 1
                await _check_run(connection, wish, wish.run_id, verdict)
    finally:
        await connection.close()
    calls: dict[str, set[str]] = {}
    keys: dict[str, set[str]] = {}
    for run_id, call, key in acted:
        calls.setdefault(run_id, set()).add(call)
        keys.setdefault(call, set()).add(key)
    # Each of these runs asks for one call: a second one would be a second effect, as would a second key of one call.
    verdict.doubled += [f"{run_id}: {len(made)} calls" for run_id, made in calls.items() if len(made) > 1]
    verdict.doubled += [f"{call}: {len(used)} keys" for call, used in keys.items() if len(used) > 1]
    return verdict


async def _check_run(
    connection: "asyncpg.Connection[asyncpg.Record]", wish: Wish, run_id: str, verdict: Verdict
) -> None:
    run = await connection.fetchrow("SELECT status, thread_key FROM runs WHERE id = $1", run_id)
    if run is None:
        verdict.lost.append(run_id)
        return
    if run["status"] not in ("completed", "failed", "cancelled"):
        verdict.stuck.append(f"{run_id} is {run['status']}")
    if run["status"] == "failed":
        verdict.broken.append(f"{run_id} failed")
    if run["status"] == "cancelled" and not wish.cancelled:
        verdict.broken.append(f"{run_id} was cancelled by nobody")
    rows = await connection.fetch(
        "SELECT seq, id, run_id, type, hash, prev_hash, convert_from(payload, 'UTF8')::json ->> 'epoch' AS epoch "
        "FROM events WHERE thread_key = $1 UNION ALL "
        "SELECT seq, 'evt_' || encode(uuid, 'hex'), $2, 'delta', hash, NULL, NULL FROM deltas WHERE thread_key = $1 "
        "ORDER BY seq",
        run["thread_key"],
        run_id,
    )
    verdict.events += len(rows)
    if [row["seq"] for row in rows] != list(range(1, len(rows) + 1)):
        verdict.broken.append(f"{wish.thread_id} has gaps")
    for before, row in pairwise(rows):
        if row["prev_hash"] is not None and row["prev_hash"] != before["hash"]:
            verdict.broken.append(f"{wish.thread_id} does not link at {row['seq']}")
    ends = [row["seq"] for row in rows if row["type"] in TERMINAL and row["run_id"] == run_id]
    if ends != [rows[-1]["seq"]]:
        verdict.doubled.append(f"{run_id} ends at {ends} of {len(rows)}")
    epochs = [int(row["epoch"]) for row in rows if row["epoch"] is not None]
    verdict.takeovers += max(0, len(epochs) - 1)
    if epochs != list(range(1, len(epochs) + 1)):
        verdict.doubled.append(f"{run_id} has the epochs {epochs}")
    stored = [(row["seq"], row["id"]) for row in rows if row["run_id"] == run_id]
    if wish.seen != stored:
        verdict.inexact.append(f"{run_id}: saw {len(wish.seen)} of {len(stored)}")
