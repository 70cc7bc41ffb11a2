"""Which server a command talks to: one named by its address, the one that holds the data folder, or one of its own.

The data folder's lock tells whether a server runs: it holds the lock and has written into it where it listens. Where
none does, a command that needs one starts it in this process, on a free port of the loopback, for as long as it takes.
"""

import contextlib
import os
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Self

from app.cli.client import Client, open_client
from app.core.errors import HoldfastError
from app.core.settings import Settings
from app.store.folder import DataFolder

URL_VARIABLE: Final = "HOLDFAST_URL"
KEY_VARIABLE: Final = "HOLDFAST_API_KEY"


@dataclass(frozen=True, slots=True)
class Place:
    """Where to look: `url` is None when no server is known to run."""

    url: str | None
    key: str | None
    data_dir: Path | None
    database_url: str | None
    workspace: Path | None
    server_named: bool = True
    """False for the server that was found by the data folder's lock: it is on this machine."""

    @classmethod
    def find(
        cls,
        *,
        url: str | None = None,
        key: str | None = None,
        data_dir: Path | None = None,
        database_url: str | None = None,
        workspace: Path | None = None,
    ) -> Self:
        """Flags win over variables; a named folder or database wins over the variable's address."""
        if url is None and data_dir is None and database_url is None:
            url = os.environ.get(URL_VARIABLE)
        found = cls(url, key or os.environ.get(KEY_VARIABLE), data_dir, database_url, workspace)
        if url is None:
            settings = found.settings()
            running = None if settings.is_postgres else DataFolder(settings.data_dir).running_server()
            if running:
                found = cls(running.get("url"), found.key, data_dir, database_url, workspace, server_named=False)
        return found

    def settings(self) -> Settings:
        return Settings.load(
            os.environ, data_dir=self.data_dir, database_url=self.database_url, workspace=self.workspace
        )


@contextlib.asynccontextmanager
async def connected(place: Place) -> AsyncIterator[Client]:
    if place.url is not None:
        async with reached(place.url, place.key) as client:
            yield client
        return
    from app.wiring.web import serving

    async with serving(place.settings()) as url, reached(url, place.key) as client:
        yield client


@contextlib.asynccontextmanager
async def reached(url: str, key: str | None) -> AsyncIterator[Client]:
    import httpx2

    async with open_client(url, key) as http:
        try:
            yield Client(http)
        except (httpx2.TransportError, httpx2.InvalidURL) as error:
            raise HoldfastError("NOT_READY", f"the server at {url} does not answer") from error
