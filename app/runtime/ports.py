"""What the runtime asks of the store: leases kept alive, and the runs that nobody works on."""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from app.core.value import value


@value(frozen=True, slots=True)
class LastLease:
    """Who had a run last, and what became of that."""

    owner: str
    epoch: int
    given_back: bool
    """By a drain, or because the run ended or waits. Otherwise its owner died with it, or is alive."""
    suspect: int = 0
    deaths: int = 0


class Leases(Protocol):
    async def renew(self, held: Sequence[tuple[str, str, int]], seconds: float) -> set[tuple[str, str]]:
        """(tenant, run, epoch) in; those still held out."""
        ...

    async def release(self, owner: str, held: Sequence[tuple[str, str, int]]) -> None:
        """Gives back (tenant, run, epoch) in as few commits as possible."""
        ...

    async def find(self, tenant: str, run_id: str) -> LastLease | None: ...

    async def had_company(self, owner: str) -> bool:
        """Whether an owner that died had more than one run at work then."""
        ...


@value(frozen=True, slots=True)
class DaySpent:
    """What a tenant has used of a day; None while nobody has begun to count it. Costs in billionths of a dollar."""

    day: int
    tokens: int | None
    cost: int | None


class SharedDays(Protocol):
    """A tenant's day, counted over all servers of a database."""

    async def reserve(
        self, tenant: str, tokens: int, cost: int, most_tokens: int | None, most_cost: int | None
    ) -> int | None:
        """The day, or None if it does not fit or nobody has begun to count the day."""
        ...

    async def spent(self, tenant: str) -> DaySpent: ...

    async def begin(self, tenant: str, day: int, tokens: int, cost: int) -> None: ...

    async def settle(self, tenant: str, day: int, tokens: int, cost: int) -> None:
        """Corrects what was reserved by so much."""
        ...


class SharedRunRates(Protocol):
    """A tenant's new runs, counted over all servers of a database."""

    async def take(self, tenant: str, per_minute: int) -> float | None:
        """None if a run was taken, else how much of one there is."""
        ...

    async def give_back(self, tenant: str, per_minute: int) -> None: ...


class BlobStore(Protocol):
    async def put(self, tenant: str, thread_id: str, data: bytes, mime: str) -> dict[str, Any]: ...


class WorkspaceArchive(Protocol):
    """The files of a workspace by its digest."""

    async def put(self, digest: str, files: Mapping[str, bytes]) -> None: ...

    async def get(self, digest: str) -> dict[str, bytes] | None: ...


class OpenChildren(Protocol):
    async def open_children(self, tenant: str, thread_id: str, root_run_id: str) -> list[str]:
        """Runs of a run's subagents, at any depth, that have not ended."""
        ...


class Backlog(OpenChildren, Protocol):
    async def overdue_interrupts(self, now: str, limit: int) -> list[tuple[str, str, str | None, str]]:
        """(tenant, thread, run, interrupt) that are open beyond their time."""
        ...

    async def runs_without_an_owner(self, limit: int) -> list[tuple[str, str, str, bool]]:
        """(tenant, run, thread, whether it is background work) of those whose time has come, oldest first."""
        ...

    async def runs_with_commands(self, tenant: str, threads: Sequence[tuple[int, str]]) -> list[str]:
        """The runs that were sent a command after that `seq` of their thread."""
        ...
