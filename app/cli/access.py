"""How the command line reaches a log: over HTTP where a server runs, else by opening the database.

The data folder's lock tells which: a server holds it and has written into it where it listens.
"""

import contextlib
import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, Final, Protocol
from urllib.parse import quote, urlencode

import httpx2

from app.core import json
from app.core.error_codes import CODES
from app.core.errors import HoldfastError
from app.core.principal import DEFAULT_TENANT
from app.core.settings import Settings
from app.events.chain import Head
from app.events.follow import follow
from app.protocols.dialects import agent_os, native
from app.runtime.service import SYSTEM_THREADS
from app.store.folder import DataFolder
from app.store.importer import import_thread
from app.views.thread import Thread
from app.wiring import Store, open_store

_PAGE: Final = 500
_TIMEOUT: Final = 30.0
_TRY_AGAIN_LATER: Final = 1013


class LogAccess(Protocol):
    def export(self, thread_id: str, format: str) -> AsyncIterator[bytes]: ...

    def threads(self) -> AsyncIterator[str]: ...

    def events(self, thread_id: str, after: int, follow: bool) -> AsyncIterator[dict[str, Any]]: ...

    async def put(self, export: native.Export) -> Head: ...


@contextlib.asynccontextmanager
async def open_log(data_dir: Path | None, database_url: str | None, *, own: bool = False) -> AsyncIterator[LogAccess]:
    """With `own`, only the database itself will do: what a server holds is then a clear error."""
    settings = Settings.load(os.environ, data_dir=data_dir, database_url=database_url)
    url = None if own else server_url(settings)
    if url is not None:
        headers = {"authorization": f"Bearer {key}"} if (key := os.environ.get("HOLDFAST_KEY")) else {}
        async with httpx2.AsyncClient(base_url=url, headers=headers, timeout=_TIMEOUT) as client:
            try:
                yield OverHttp(client)
            except (httpx2.TransportError, OSError) as error:
                raise HoldfastError("NOT_READY", f"the server at {url} does not answer") from error
    else:
        async with open_store(settings) as store:
            yield InProcess(store)


def server_url(settings: Settings) -> str | None:
    """Where the server is that has to be asked; None if the database may be opened."""
    url = os.environ.get("HOLDFAST_URL")
    if url is None and not settings.is_postgres:
        running = DataFolder(settings.data_dir).running_server()
        url = running.get("url") if running else None
    return url


class InProcess:
    def __init__(self, store: Store) -> None:
        self._store = store

    async def _thread(self, thread_id: str) -> Thread:
        thread = await self._store.reader.thread(DEFAULT_TENANT, thread_id)
        if not isinstance(thread, Thread) or thread.deleted_at is not None:
            raise HoldfastError("THREAD_NOT_FOUND", f"there is no thread {thread_id}")
        return thread

    async def export(self, thread_id: str, format: str) -> AsyncIterator[bytes]:
        thread = await self._thread(thread_id)
        dialect = agent_os.export if format == "agent-os" else native.export
        async for line in dialect(self._store.reader, DEFAULT_TENANT, thread):
            yield line

    async def threads(self) -> AsyncIterator[str]:
        after = ""
        while page := await self._store.reader.threads_of(DEFAULT_TENANT, after, _PAGE):
            for thread in page:
                yield thread.id
            after = page[-1].id

    async def events(self, thread_id: str, after: int, wait: bool) -> AsyncIterator[dict[str, Any]]:
        thread = await self._thread(thread_id)
        if not wait and after >= thread.last_seq:
            return
        batches = follow(self._store.hub, self._store.reader.events, DEFAULT_TENANT, thread_id, after)
        async with contextlib.aclosing(batches):
            async for batch in batches:
                for event in batch:
                    yield json.loads(event.wire())
                if not wait and batch[-1].seq >= thread.last_seq:
                    return

    async def put(self, export: native.Export) -> Head:
        return await import_thread(self._store.database, export.events, export.blobs, export.head)


class OverHttp:
    def __init__(self, client: httpx2.AsyncClient) -> None:
        self._client = client

    async def _get(self, path: str, **params: Any) -> dict[str, Any]:
        answer = await self._client.get(path, params=params)
        expect_success(answer.status_code, answer.content)
        told: dict[str, Any] = json.loads(answer.content)
        return told

    async def export(self, thread_id: str, format: str) -> AsyncIterator[bytes]:
        path = f"{_path(thread_id)}/export"
        async with self._client.stream("GET", path, params={"format": format}) as answer:
            if answer.status_code != 200:
                expect_success(answer.status_code, await answer.aread())
            # Cut at newlines only: the client's own lines also end at U+2028, which JSON text may contain.
            rest = b""
            async for chunk in answer.aiter_bytes():
                *lines, rest = (rest + chunk).split(b"\n")
                for line in lines:
                    yield line

    async def threads(self) -> AsyncIterator[str]:
        after: str | None = ""
        while after is not None:
            page = await self._get("/api/threads", after=after, limit=_PAGE)
            for thread in page["items"]:
                yield thread["id"]
            after = page["nextCursor"]

    async def events(self, thread_id: str, after: int, wait: bool) -> AsyncIterator[dict[str, Any]]:
        if wait:
            async for frame in self._frames(thread_id, after):
                yield frame
            return
        cursor: int | str | None = after
        while cursor is not None:
            page = await self._get(f"{_path(thread_id)}/events", after=cursor, limit=_PAGE)
            for event in page["items"]:
                yield event
            cursor = page["nextCursor"]

    async def _frames(self, thread_id: str, after: int) -> AsyncIterator[dict[str, Any]]:
        """Live frames. A reader that fell behind comes back where it stopped."""
        from websockets.asyncio.client import connect
        from websockets.exceptions import ConnectionClosed, InvalidHandshake

        await self._get(_path(thread_id))  # the stream itself takes any id
        base = str(self._client.base_url).rstrip("/").replace("http", "ws", 1)
        # Of the client's headers only the key: the others are those of an ordinary request.
        headers = {name: value for name, value in self._client.headers.items() if name == "authorization"}
        # A ledger's own news goes out without a thread; other threads' followers hear it too, and leave it.
        names = (thread_id, None) if thread_id.startswith(SYSTEM_THREADS) else (thread_id,)
        while True:
            query = urlencode({"threadId": thread_id, "afterSeq": after})
            try:
                async with connect(f"{base}/api/stream?{query}", additional_headers=headers) as socket:
                    while True:
                        frame = json.loads(await socket.recv())
                        if frame.get("seq", 0) > after and frame["threadId"] in names:
                            after = frame["seq"]
                            yield frame
            except InvalidHandshake as refused:
                raise HoldfastError("NOT_READY", "the server refused the stream") from refused
            except ConnectionClosed as closed:
                if closed.rcvd is None or closed.rcvd.code != _TRY_AGAIN_LATER:
                    raise HoldfastError("NOT_READY", "the server closed the stream") from None

    async def put(self, export: native.Export) -> Head:
        raise HoldfastError("DATA_DIR_LOCKED", "stop the server before importing")


def _path(thread_id: str) -> str:
    return f"/api/threads/{quote(thread_id, safe='')}"


def expect_success(status: int, body: bytes) -> None:
    if status in (200, 201):
        return
    error = json.loads(body)["error"]
    # A newer server may know codes that we do not.
    raise HoldfastError(error["code"] if error["code"] in CODES else "INTERNAL", error["message"])
