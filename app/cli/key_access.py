"""How `holdfast keys` reaches the keys: over HTTP where a server runs, else in the database."""

import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, Final, Protocol

from app.cli.client import Client, path_of
from app.cli.connection import ServerTarget, open_connection
from app.core.clock import SystemClock
from app.core.errors import Failure, HoldfastError
from app.core.keys import key_json
from app.protocols.auth.bootstrap import FILE_NAME
from app.runtime.intake.keys import DAY_MS, Grant, Keys
from app.wiring.store import open_keys as keys_of
from app.wiring.store import open_store

_ACTOR: Final = "user:local"
_PAGE: Final = 1000


class KeyAccess(Protocol):
    async def create(self, tenant: str, name: str, roles: list[str], scopes: list[str], days: float | None) -> Any: ...

    async def list(self, tenant: str, after: str) -> list[Any]: ...

    async def revoke(self, tenant: str, key_id: str) -> Any: ...


@contextlib.asynccontextmanager
async def open_keys(data_dir: Path | None, database_url: str | None) -> AsyncIterator[KeyAccess]:
    target = ServerTarget.find(data_dir=data_dir, database_url=database_url)
    if target.url is not None:
        async with open_connection(target.url, target.key or _bootstrap_token(target)) as client:
            yield OverHttp(client)
    else:
        async with open_store(target.settings()) as store:
            yield InProcess(keys_of(store, SystemClock()))


def _bootstrap_token(target: ServerTarget) -> str | None:
    """Of a server without an admin key that uses this data folder: it makes the first one."""
    if target.server_named:
        return None
    with contextlib.suppress(OSError):
        return (target.settings().data_dir / FILE_NAME).read_text(encoding="ascii").strip()
    return None


class InProcess:
    def __init__(self, keys: Keys) -> None:
        self._keys = keys

    async def create(self, tenant: str, name: str, roles: list[str], scopes: list[str], days: float | None) -> Any:
        lifetime = None if days is None else round(days * DAY_MS)
        made = await self._keys.create(Grant(name, tenant, roles, scopes, lifetime), _ACTOR)
        if isinstance(made, Failure):
            raise HoldfastError(made.code, made.message)
        return {**key_json(made.key), "key": made.secret}

    async def list(self, tenant: str, after: str) -> list[Any]:
        return [key_json(key) for key in await self._keys.list(tenant, after, _PAGE)]

    async def revoke(self, tenant: str, key_id: str) -> Any:
        revoked = await self._keys.revoke(tenant, key_id, _ACTOR)
        if isinstance(revoked, Failure):
            raise HoldfastError(revoked.code, revoked.message)
        return key_json(revoked)


class OverHttp:
    def __init__(self, client: Client) -> None:
        self._client = client

    async def create(self, tenant: str, name: str, roles: list[str], scopes: list[str], days: float | None) -> Any:
        body = {"name": name, "tenant": tenant, "roles": roles, "scopes": scopes, "expiresInDays": days}
        return await self._client.post("/api/keys", body)

    async def list(self, tenant: str, after: str) -> list[Any]:
        page = await self._client.get("/api/keys", tenant=tenant, after=after, limit=_PAGE)
        items: list[Any] = page["items"]
        return items

    async def revoke(self, tenant: str, key_id: str) -> Any:
        return await self._client.call("DELETE", path_of("keys", key_id), tenant=tenant)
