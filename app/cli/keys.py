"""`holdfast keys`: create, list and revoke API keys.

Asks the server that holds the data folder (or that HOLDFAST_URL names) with the key in HOLDFAST_KEY; when none does,
works on the database itself, which is how the first key comes to be.
"""

import contextlib
import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Annotated, Any, Final, Protocol
from urllib.parse import quote

import httpx2
import typer

from app.cli.access import expect_success, server_url
from app.cli.loop import run_loop
from app.core import json
from app.core.access import ROLES, SCOPES
from app.core.clock import SystemClock
from app.core.errors import Failure, HoldfastError
from app.core.keys import key_json
from app.core.principal import DEFAULT_TENANT
from app.core.settings import Settings
from app.runtime.keys import DAY_MS, Grant, Keys
from app.wiring import open_keys, open_store

app = typer.Typer(no_args_is_help=True, help="API keys: create, list, revoke.")

DataDir = Annotated[Path | None, typer.Option(help="Folder of the embedded database.")]
DatabaseUrl = Annotated[str | None, typer.Option(help="postgresql://... of a shared database.")]
Tenant = Annotated[str, typer.Option(help="Whose keys.")]

_ACTOR: Final = "user:local"
_TIMEOUT: Final = 30.0
_PAGE: Final = 1000


class KeyAccess(Protocol):
    async def create(self, tenant: str, name: str, roles: list[str], scopes: list[str], days: float | None) -> Any: ...

    async def list(self, tenant: str, after: str) -> list[Any]: ...

    async def revoke(self, tenant: str, key_id: str) -> Any: ...


@app.command()
def create(
    name: Annotated[str, typer.Argument(help="What the key is for.")],
    role: Annotated[list[str] | None, typer.Option(help=f"One of {', '.join(ROLES)}; may be repeated.")] = None,
    scope: Annotated[list[str] | None, typer.Option(help=f"One of {', '.join(SCOPES)}; may be repeated.")] = None,
    tenant: Tenant = DEFAULT_TENANT,
    expires_in_days: Annotated[
        float | None, typer.Option(help="Without it the key counts until it is revoked.")
    ] = None,
    data_dir: DataDir = None,
    database_url: DatabaseUrl = None,
) -> None:
    """Create a key. Its secret is printed once, alone on standard output."""

    async def work() -> None:
        async with _open(data_dir, database_url) as keys:
            made = await keys.create(tenant, name, role or [], scope or [], expires_in_days)
        typer.echo(f"{made['id']} of tenant {made['tenant']}; the key is shown only now:", err=True)
        typer.echo(made["key"])

    run_loop(work())


@app.command(name="list")
def list_keys(tenant: Tenant = DEFAULT_TENANT, data_dir: DataDir = None, database_url: DatabaseUrl = None) -> None:
    """The keys of a tenant as JSON lines, revoked ones included; never their secrets."""

    async def work() -> None:
        after = ""
        async with _open(data_dir, database_url) as keys:
            while page := await keys.list(tenant, after):
                for key in page:
                    typer.echo(json.dumps(key).decode())
                after = page[-1]["id"]

    run_loop(work())


@app.command()
def revoke(
    key_id: Annotated[str, typer.Argument(help="The key's id, as `list` shows it.")],
    tenant: Tenant = DEFAULT_TENANT,
    data_dir: DataDir = None,
    database_url: DatabaseUrl = None,
) -> None:
    """Revoke a key. Connections that it opened are closed within half a minute."""

    async def work() -> None:
        async with _open(data_dir, database_url) as keys:
            revoked = await keys.revoke(tenant, key_id)
        typer.echo(f"{revoked['id']} was revoked at {revoked['revokedAt']}")

    run_loop(work())


@contextlib.asynccontextmanager
async def _open(data_dir: Path | None, database_url: str | None) -> AsyncIterator[KeyAccess]:
    settings = Settings.load(os.environ, data_dir=data_dir, database_url=database_url)
    url = server_url(settings)
    if url is None:
        async with open_store(settings) as store:
            yield InProcess(open_keys(store, SystemClock()))
        return
    headers = {"authorization": f"Bearer {key}"} if (key := os.environ.get("HOLDFAST_KEY")) else {}
    async with httpx2.AsyncClient(base_url=url, headers=headers, timeout=_TIMEOUT) as client:
        try:
            yield OverHttp(client)
        except (httpx2.TransportError, OSError) as error:
            raise HoldfastError("NOT_READY", f"the server at {url} does not answer") from error


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
    def __init__(self, client: httpx2.AsyncClient) -> None:
        self._client = client

    async def create(self, tenant: str, name: str, roles: list[str], scopes: list[str], days: float | None) -> Any:
        body = {"name": name, "tenant": tenant, "roles": roles, "scopes": scopes, "expiresInDays": days}
        return self._told(await self._client.post("/api/keys", json=body))

    async def list(self, tenant: str, after: str) -> list[Any]:
        query: dict[str, str | int] = {"tenant": tenant, "after": after, "limit": _PAGE}
        items: list[Any] = self._told(await self._client.get("/api/keys", params=query))["items"]
        return items

    async def revoke(self, tenant: str, key_id: str) -> Any:
        path = f"/api/keys/{quote(key_id, safe='')}"
        return self._told(await self._client.delete(path, params={"tenant": tenant}))

    def _told(self, answer: httpx2.Response) -> Any:
        expect_success(answer.status_code, answer.content)
        return json.loads(answer.content)
