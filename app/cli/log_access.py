"""Access to the log for `holdfast log`: over HTTP if a server is running, otherwise in the database.

Unlike other commands, it starts no server, so a log can be read although the workspace no longer compiles.
"""

import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, Final, Protocol

from app.cli.client import Client, expect_success, path_of
from app.cli.connection import ServerTarget, open_connection
from app.core.errors import HoldfastError
from app.events.chain import Head
from app.protocols.dialects import native
from app.wiring.local import open_local_log

_PAGE: Final = 500


class LogAccess(Protocol):
    def export(self, thread_id: str, format: str) -> AsyncIterator[bytes]: ...

    def threads(self) -> AsyncIterator[str]: ...

    def events(self, thread_id: str, after: int, follow: bool) -> AsyncIterator[dict[str, Any]]: ...

    async def put(self, export: native.Export) -> Head: ...


@contextlib.asynccontextmanager
async def open_log(
    data_dir: Path | None,
    database_url: str | None,
    url: str | None = None,
    key: str | None = None,
    *,
    own: bool = False,
) -> AsyncIterator[LogAccess]:
    """With `own`, always open the database, which fails with a clear error while a server uses it."""
    target = ServerTarget.find(url=url, key=key, data_dir=data_dir, database_url=database_url)
    if target.url is not None and not own:
        async with open_connection(target.url, target.key) as client:
            yield RemoteLog(client)
    else:
        async with open_local_log(target.settings()) as log:
            yield log


class RemoteLog:
    def __init__(self, client: Client) -> None:
        self._client = client

    async def export(self, thread_id: str, format: str) -> AsyncIterator[bytes]:
        path = f"{path_of('threads', thread_id)}/export"
        async with self._client.http.stream("GET", path, params={"format": format}) as answer:
            if answer.status_code != 200:
                expect_success(answer.status_code, await answer.aread())
            # Cut at newlines only: the client's own lines also end at U+2028, which JSON text may contain.
            rest = b""
            async for chunk in answer.aiter_bytes():
                *lines, rest = (rest + chunk).split(b"\n")
                for line in lines:
                    yield line

    async def threads(self) -> AsyncIterator[str]:
        async for thread in self._client.pages("/api/threads"):
            yield thread["id"]

    async def events(self, thread_id: str, after: int, wait: bool) -> AsyncIterator[dict[str, Any]]:
        path = path_of("threads", thread_id)
        if wait:
            await self._client.get(path)  # the stream itself takes any id
            async with contextlib.aclosing(self._client.events(thread_id, after)) as frames:
                async for frame in frames:
                    yield frame
            return
        cursor: int | str | None = after
        while cursor is not None:
            page = await self._client.get(f"{path}/events", after=cursor, limit=_PAGE)
            for event in page["items"]:
                yield event
            cursor = page["nextCursor"]

    async def put(self, export: native.Export) -> Head:
        raise HoldfastError("DATA_DIR_LOCKED", "Stop the server before you import a thread.")
