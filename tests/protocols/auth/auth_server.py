"""A server with authentication in the test's own loop, and callers of it."""

import contextlib
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx2
from fastapi import FastAPI

from app.core.errors import Failure
from app.core.settings import Settings
from app.runtime.intake.keys import DAY_MS, Grant
from app.wiring.runtime import Holdfast
from tests.server import in_process


@dataclass(frozen=True, slots=True)
class AuthServer:
    url: str
    holdfast: Holdfast
    app: FastAPI
    _clients: list[httpx2.AsyncClient] = field(default_factory=list)

    @property
    def stream_url(self) -> str:
        return self.url.replace("http", "ws", 1) + "/api/stream"

    def client(self, headers: Mapping[str, str] | None = None) -> httpx2.AsyncClient:
        client = httpx2.AsyncClient(base_url=self.url, headers=headers, timeout=20, verify=False)
        self._clients.append(client)
        return client

    async def key(self, role: str = "member", tenant: str = "default", **more: Any) -> str:
        made = await self.holdfast.keys.create(Grant(f"{role} of {tenant}", tenant, [role], **more), "user:test")
        assert not isinstance(made, Failure)
        return made.secret

    async def caller(self, role: str = "member", tenant: str = "default", **more: Any) -> httpx2.AsyncClient:
        return self.client(bearer(await self.key(role, tenant, **more)))

    async def ledger(self, tenant: str = "default") -> list[tuple[str, dict[str, Any]]]:
        events = await self.holdfast.store.reader.events(tenant, "sys_ledger", 0, 1000)
        return [(event.type, event.payload) for event in events]


def bearer(secret: str) -> dict[str, str]:
    return {"authorization": f"Bearer {secret}"}


@contextlib.asynccontextmanager
async def open_auth_server(folder: Path, **settings: Any) -> AsyncIterator[AuthServer]:
    made = Settings(data_dir=folder / "data", **({"auth": "keys"} | settings))
    async with in_process(made) as started:
        server = AuthServer(started.url, started.holdfast, started.app)
        try:
            yield server
        finally:
            for client in server._clients:
                await client.aclose()


__all__ = ["DAY_MS", "AuthServer", "bearer", "open_auth_server"]
