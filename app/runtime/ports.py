"""What the runtime asks of the store: leases kept alive, and the runs that nobody works on."""

from collections.abc import Mapping, Sequence
from typing import Protocol


class Leases(Protocol):
    async def renew(self, held: Sequence[tuple[str, str, int]], seconds: float) -> set[tuple[str, str]]:
        """(tenant, run, epoch) in; those still held out."""
        ...

    async def release(self, tenant: str, run_id: str, owner: str, epoch: int) -> None: ...


class WorkspaceArchive(Protocol):
    """The files of a workspace by its digest."""

    async def put(self, digest: str, files: Mapping[str, bytes]) -> None: ...

    async def get(self, digest: str) -> dict[str, bytes] | None: ...


class Backlog(Protocol):
    async def runs_without_an_owner(self, limit: int) -> list[tuple[str, str, str, str]]:
        """(tenant, run, thread, status), oldest first."""
        ...
