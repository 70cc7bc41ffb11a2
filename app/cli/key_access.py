"""Access to API keys for `holdfast keys`: over HTTP if a server is running, otherwise in the database."""

import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any, Final, Protocol

from app.cli.client import Client, path_of
from app.cli.connection import ServerTarget, open_connection
from app.protocols.auth.bootstrap import FILE_NAME
from app.wiring.local import open_local_keys

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
            yield RemoteKeys(client)
    else:
        async with open_local_keys(target.settings()) as keys:
            yield keys


def _bootstrap_token(target: ServerTarget) -> str | None:
    """The one-time token of a server without an admin key that uses this data folder."""
    if target.server_named:
        return None
    with contextlib.suppress(OSError):
        return (target.settings().data_dir / FILE_NAME).read_text(encoding="ascii").strip()
    return None


class RemoteKeys:
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
