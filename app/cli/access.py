"""How the command line reaches a log: over HTTP where a server runs, else by opening the database.

The data folder's lock tells which: a server holds it and has written into it where it listens.
"""

import contextlib
import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, Final, Protocol

import httpx2

from app.core import json
from app.core.errors import HoldfastError
from app.core.principal import DEFAULT_TENANT
from app.core.settings import Settings
from app.events.chain import Head
from app.events.follow import follow
from app.protocols.dialects import agent_os, native
from app.store.folder import DataFolder
from app.store.importer import import_thread
from app.views.thread import Thread
from app.wiring import Store, open_store

_PAGE: Final = 500
_TIMEOUT: Final = 30.0


class LogAccess(Protocol):
    def export(self, thread_id: str, format: str) -> AsyncIterator[bytes]: ...

    def threads(self) -> AsyncIterator[str]: ...

    def events(self, thread_id: str, after: int, follow: bool) -> AsyncIterator[dict[str, Any]]: ...

    async def put(self, export: native.Export) -> Head: ...


@contextlib.asynccontextmanager
async def open_log(data_dir: Path | None, database_url: str | None, *, own: bool = False) -> AsyncIterator[LogAccess]:
    """With `own`, only the database itself will do: what a server holds is then a clear error."""
    settings = Settings.load(os.environ, data_dir=data_dir, database_url=database_url)
    url = os.environ.get("HOLDFAST_URL")
    if url is None and not settings.is_postgres and not own:
        running = DataFolder(settings.data_dir).running_server()
        url = running.get("url") if running else None
    if url is not None and not own:
        headers = {"authorization": f"Bearer {key}"} if (key := os.environ.get("HOLDFAST_KEY")) else {}
        async with httpx2.AsyncClient(base_url=url, headers=headers, timeout=_TIMEOUT) as client:
            yield OverHttp(client)
    else:
        async with open_store(settings) as store:
            yield InProcess(store)


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
        async for line in dialect(self._store.reader, DEFAULT_TENANT, thread_id, thread.last_seq):
            yield line

    async def threads(self) -> AsyncIterator[str]:
        after = ""
        while page := await self._store.reader.threads_of(DEFAULT_TENANT, after, _PAGE):
            for thread in page:
                yield thread.id
            after = page[-1].id

    async def events(self, thread_id: str, after: int, wait: bool) -> AsyncIterator[dict[str, Any]]:
        thread = await self._thread(thread_id)
        async for batch in follow(self._store.hub, self._store.reader.events, DEFAULT_TENANT, thread_id, after):
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
        _expect_success(answer.status_code, answer.content)
        told: dict[str, Any] = json.loads(answer.content)
        return told

    async def export(self, thread_id: str, format: str) -> AsyncIterator[bytes]:
        path = f"/api/threads/{thread_id}/export"
        async with self._client.stream("GET", path, params={"format": format}) as answer:
            if answer.status_code != 200:
                _expect_success(answer.status_code, await answer.aread())
            async for line in answer.aiter_lines():
                if line:
                    yield line.encode()

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
            page = await self._get(f"/api/threads/{thread_id}/events", after=cursor, limit=_PAGE)
            for event in page["items"]:
                yield event
            cursor = page["nextCursor"]

    async def _frames(self, thread_id: str, after: int) -> AsyncIterator[dict[str, Any]]:
        from websockets.asyncio.client import connect

        url = str(self._client.base_url).rstrip("/").replace("http", "ws", 1) + "/api/stream"
        async with connect(url, additional_headers=dict(self._client.headers)) as socket:
            await socket.send(json.dumps({"type": "subscribe", "threadId": thread_id, "afterSeq": after}).decode())
            async for message in socket:
                frame = json.loads(message)
                if "seq" in frame:
                    yield frame

    async def put(self, export: native.Export) -> Head:
        raise HoldfastError("DATA_DIR_LOCKED", "stop the server before importing")


def _expect_success(status: int, body: bytes) -> None:
    if status == 200:
        return
    error = json.loads(body)["error"]
    raise HoldfastError(error["code"], error["message"])
