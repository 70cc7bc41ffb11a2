"""Finds the server of a command: the one at a URL, the one that uses the data folder, or a temporary one.

A running server holds the lock of its data folder and has written its URL into the lock file. If none is running, a
command that needs a server starts one in its own process, on a free loopback port, until the command ends.
"""

import contextlib
import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Final, Self

from app.cli.client import Client, open_client
from app.core.errors import HoldfastError
from app.core.settings import Settings
from app.core.value import value
from app.wiring.upkeep import running_server

URL_VARIABLE: Final = "HOLDFAST_URL"
KEY_VARIABLE: Final = "HOLDFAST_API_KEY"


@value(frozen=True, slots=True)
class ServerTarget:
    """The server to use; `url` is None if none is running."""

    url: str | None
    key: str | None
    data_dir: Path | None
    database_url: str | None
    workspace: Path | None
    server_named: bool = True
    """False if the server was found by the lock of the data folder; it is then on this machine."""

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
        """Flags take precedence over variables; a folder or database given as a flag over HOLDFAST_URL."""
        if url is None and data_dir is None and database_url is None:
            url = os.environ.get(URL_VARIABLE)
        found = cls(url, key or os.environ.get(KEY_VARIABLE), data_dir, database_url, workspace)
        if url is None:
            settings = found.settings()
            running = running_server(settings)
            if running:
                found = cls(running.get("url"), found.key, data_dir, database_url, workspace, server_named=False)
        return found

    def settings(self) -> Settings:
        return Settings.load(
            os.environ, data_dir=self.data_dir, database_url=self.database_url, workspace=self.workspace
        )


@contextlib.asynccontextmanager
async def connect_or_start(target: ServerTarget) -> AsyncIterator[Client]:
    if target.url is not None:
        async with open_connection(target.url, target.key) as client:
            yield client
        return
    from app.wiring.web import serving

    async with serving(target.settings()) as url, open_connection(url, target.key) as client:
        yield client


@contextlib.asynccontextmanager
async def open_connection(url: str, key: str | None) -> AsyncIterator[Client]:
    import httpx2

    async with open_client(url, key) as http:
        try:
            yield Client(http)
        except (httpx2.TransportError, httpx2.InvalidURL) as error:
            raise HoldfastError("NOT_READY", f"The server at {url} does not respond.") from error
