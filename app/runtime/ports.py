"""What the runtime asks of the store: leases kept alive, and the runs that nobody works on."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol


@dataclass(frozen=True, slots=True)
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


class BlobStore(Protocol):
    async def put(self, tenant: str, thread_id: str, data: bytes, mime: str) -> dict[str, Any]: ...


class WorkspaceArchive(Protocol):
    """The files of a workspace by its digest."""

    async def put(self, digest: str, files: Mapping[str, bytes]) -> None: ...

    async def get(self, digest: str) -> dict[str, bytes] | None: ...


class OpenChildren(Protocol):
    async def open_children(self, tenant: str, thread_id: str) -> list[str]:
        """Runs of subagents on the thread that have not ended. They all belong to the one root run that is active."""
        ...


class Backlog(OpenChildren, Protocol):
    async def overdue_interrupts(self, now: str, limit: int) -> list[tuple[str, str, str | None, str]]:
        """(tenant, thread, run, interrupt) that are open beyond their time."""
        ...

    async def runs_without_an_owner(self, limit: int) -> list[tuple[str, str, str, str]]:
        """(tenant, run, thread, status), oldest first."""
        ...

    async def runs_with_commands(self, tenant: str, threads: Sequence[tuple[int, str]]) -> list[str]:
        """The runs that were sent a command after that `seq` of their thread."""
        ...
