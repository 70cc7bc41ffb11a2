"""The one workspace that all servers on a database use: the one that was loaded last, by whichever of them.

A server whose files change records that it loaded them and keeps them in the database; the others load them from there.
One that cannot says so and takes no new runs, until it can. Leaves to others: saying that there is another one (the
bus), and files (`workspaces`).
"""

import asyncio
from typing import Final

import structlog

from app.core.principal import DEFAULT_TENANT
from app.events.catalog.ledger import WorkspaceLoaded
from app.runtime.workspaces import CurrentWorkspace, WorkspaceHistory
from app.views.ports import Reader

_PAGE: Final = 1000
_MAX_SEQ: Final = 2**62

log = structlog.get_logger("holdfast.workspace")


class WorkspaceInForce:
    def __init__(self, current: CurrentWorkspace, history: WorkspaceHistory, reader: Reader, ledger: str) -> None:
        """`ledger` is the thread in which loaded workspaces are recorded."""
        self._current, self._history, self._reader, self._ledger = current, history, reader, ledger
        self._one = asyncio.Lock()

    async def look(self) -> None:
        """Use what is in force now, if another server loaded it since."""
        async with self._one:
            current = self._current
            digest, seq = await self._newest(current.recorded_seq)
            if digest is None:
                return
            if digest == current.current.digest:
                current.unavailable = None
                return
            workspace = await self._history.of(digest)
            if workspace is not None:
                await current.adopt(workspace, seq)
            elif current.unavailable != digest and seq > current.recorded_seq:
                current.unavailable = digest
                log.error(
                    "workspace.unavailable",
                    digest=digest,
                    effect="this server takes no new runs",
                    remedy="install what the workspace needs, or deploy the same files and packages to every server",
                )

    async def _newest(self, after: int) -> tuple[str | None, int]:
        digest: str | None = None
        while True:
            types = [WorkspaceLoaded.type]
            page = await self._reader.events_of(DEFAULT_TENANT, self._ledger, types, after, _MAX_SEQ, _PAGE)
            if not page:
                return digest, after
            digest, after = page[-1].payload["digest"], page[-1].seq
