"""The leases that this process has on runs: made, renewed, and given back.

Every append of a run carries the epoch of its lease, so an owner that lost it appends nothing. Leaves to the store:
who gets a lease. Leaves to the executor: what becomes of a run whose lease is lost.
"""

from collections.abc import Iterable, Sequence
from typing import Final

from app.core.ids import new_id
from app.events.ports import ClaimRun
from app.runtime.ports import Leases
from app.runtime.schedule.held_run import HeldRun
from app.runtime.schedule.queue import RunRef
from app.runtime.schedule.suspects import Suspicion
from app.views.run import Run

LEASE_SECONDS: Final = 15.0
MAX_SWEEP_SECONDS: Final = 2.0
"""How often runs without an owner are looked for."""


def sweep_seconds(within: float) -> float:
    return min(MAX_SWEEP_SECONDS, within / 8)


class RunLeases:
    def __init__(self, leases: Leases, within: float = LEASE_SECONDS) -> None:
        """`within` is the time within which another process takes over the runs of one that died: the time until its
        leases run out, and until somebody looks."""
        self._leases = leases
        self.sweep_seconds = sweep_seconds(within)
        self._seconds = within - min(MAX_SWEEP_SECONDS, self.sweep_seconds)
        self.renew_seconds = self._seconds / 3
        """Two renewals may fail before a lease is lost."""
        self.owner = new_id("key").replace("key_", "executor_")
        self._cut_off: dict[tuple[str, str], int] = {}
        """Runs that the store cut off, with the epoch of a lease that may still be ours."""

    def first(self, run_id: str) -> ClaimRun:
        """Of a run that is claimed by the commit that accepts it."""
        return ClaimRun(run_id, self.owner, 1, self._seconds, claimed_at_submit=True)

    def following(self, run: Run, suspicion: Suspicion) -> ClaimRun:
        return ClaimRun(
            run.id,
            self.owner,
            run.epoch + 1,
            self._seconds,
            suspect=suspicion.suspect,
            deaths=suspicion.deaths,
            previous=suspicion.previous,
        )

    async def renew(self, held: Iterable[HeldRun]) -> set[tuple[str, str]]:
        """(tenant, run) of those whose lease is lost."""
        claimed = [(one.ref.tenant, one.ref.run_id, one.epoch) for one in held if one.epoch]
        kept = await self._leases.renew(claimed, self._seconds)
        return {(tenant, run_id) for tenant, run_id, _ in claimed} - kept

    def cut_off(self, ref: RunRef, epoch: int) -> None:
        """The store failed in the middle of the run: its lease is given back as soon as the store answers."""
        self._cut_off[ref.tenant, ref.run_id] = epoch

    async def give_back_cut_off(self) -> None:
        """No worker has those runs, so nobody should have to wait for their leases to expire."""
        if self._cut_off:
            given = dict(self._cut_off)
            await self._leases.release(self.owner, [(*run, epoch) for run, epoch in given.items()])
            for run in given:
                self._cut_off.pop(run, None)

    async def give_back(self, held: Sequence[HeldRun]) -> None:
        """Also of runs that have ended: their leases do not count any more, and checking would cost more."""
        left = [(one.ref.tenant, one.ref.run_id, one.epoch or one.requested_epoch) for one in held]
        left += [(*run, epoch) for run, epoch in self._cut_off.items()]
        if left:
            await self._leases.release(self.owner, left)
