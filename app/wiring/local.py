"""What commands do on the database itself, while no server runs: the log, and the API keys.

Needs no workspace: a log can be read and a key revoked although the workspace does not compile.
"""

import contextlib
from collections.abc import AsyncIterator
from typing import Any, Final

from app.core import json
from app.core.clock import SystemClock
from app.core.errors import Failure, HoldfastError
from app.core.keys import key_json
from app.core.principal import DEFAULT_TENANT
from app.core.settings import Settings
from app.events.chain import Head
from app.events.follow import follow
from app.protocols.dialects import agent_os, native
from app.runtime.intake.keys import DAY_MS, Grant, Keys
from app.store.importer import import_thread
from app.views.thread import Thread
from app.wiring.store import Store, open_keys, open_store

_ACTOR: Final = "user:local"
_PAGE: Final = 500
_KEYS_PAGE: Final = 1000


@contextlib.asynccontextmanager
async def open_local_log(settings: Settings) -> "AsyncIterator[LocalLog]":
    async with open_store(settings) as store:
        yield LocalLog(store)


@contextlib.asynccontextmanager
async def open_local_keys(settings: Settings) -> "AsyncIterator[LocalKeys]":
    async with open_store(settings) as store:
        yield LocalKeys(open_keys(store, SystemClock()))


class LocalLog:
    def __init__(self, store: Store) -> None:
        self._store = store

    async def _thread(self, thread_id: str) -> Thread:
        thread = await self._store.reader.thread(DEFAULT_TENANT, thread_id)
        if not isinstance(thread, Thread) or thread.deleted_at is not None:
            raise HoldfastError("THREAD_NOT_FOUND", f"There is no thread {thread_id}.")
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


class LocalKeys:
    def __init__(self, keys: Keys) -> None:
        self._keys = keys

    async def create(self, tenant: str, name: str, roles: list[str], scopes: list[str], days: float | None) -> Any:
        lifetime = None if days is None else round(days * DAY_MS)
        made = await self._keys.create(Grant(name, tenant, roles, scopes, lifetime), _ACTOR)
        if isinstance(made, Failure):
            raise HoldfastError(made.code, made.message)
        return {**key_json(made.key), "key": made.secret}

    async def list(self, tenant: str, after: str) -> list[Any]:
        return [key_json(key) for key in await self._keys.list(tenant, after, _KEYS_PAGE)]

    async def revoke(self, tenant: str, key_id: str) -> Any:
        revoked = await self._keys.revoke(tenant, key_id, _ACTOR)
        if isinstance(revoked, Failure):
            raise HoldfastError(revoked.code, revoked.message)
        return key_json(revoked)
