"""Every kind of backend, provider, tool and hook, and how each of them is made."""

import asyncio
import importlib
import os
import random
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Protocol

from app.backends.contract import Backend
from app.backends.kinds.echo import EchoBackend
from app.backends.kinds.native import NativeBackend
from app.backends.kinds.plan_work_review import PlanWorkReviewBackend
from app.core.clock import Clock
from app.core.errors import Failure
from app.core.schemas import SchemaRegistry
from app.core.settings import Settings
from app.events.recorder import Narrator
from app.models.contract import ProviderDeps
from app.models.kinds import anthropic, gemini, ollama, openai, scripted
from app.models.limits import Limiter
from app.models.registry import Providers, installed_kinds
from app.models.router import ModelRouter
from app.outside.http import HttpClient
from app.outside.proxies import Proxies
from app.policy import declared as hooks
from app.policy.hooks import HookRunner
from app.policy.kinds.builtin import make_builtin as make_builtin_hook
from app.policy.kinds.command import make_command
from app.policy.kinds.python import make_python as make_python_hook
from app.tools.contract import Tool
from app.tools.declared import Maker, build
from app.tools.kinds.builtin import builtins, make_builtin
from app.tools.kinds.http import make_http
from app.tools.kinds.python import make_python
from app.tools.kinds.subprocess import make_subprocess
from app.tools.loading import load_entry
from app.tools.registry import Registry
from app.views.narration import TemplateNarrator
from app.workspace.compiled import CompiledTool, CompiledWorkspace
from app.workspace.files import WorkspaceFiles
from app.workspace.secrets import resolve_env
from app.workspace.specs.runtime import Narration


def shipped_backends() -> dict[str, Backend]:
    return {kind.kind: kind for kind in (EchoBackend(), NativeBackend(), PlanWorkReviewBackend())}


def narrator(wanted: Narration) -> Narrator | None:
    narrators = {"template": TemplateNarrator}
    return narrators[wanted.provider](wanted.style) if wanted.enabled and wanted.provider in narrators else None


def http_client(settings: Settings, environ: Mapping[str, str] = os.environ) -> HttpClient:
    return HttpClient(proxies=Proxies.from_environment(environ), ca_file=settings.ca_file)


def model_router(settings: Settings, clock: Clock, client: HttpClient) -> ModelRouter:
    def secrets(text: str) -> str | None:
        resolved = resolve_env(text, os.environ)
        return resolved if isinstance(resolved, str) else None

    kinds = {
        "openai": openai.provider,
        "anthropic": anthropic.provider,
        "gemini": gemini.provider,
        "ollama": ollama.provider,
        "scripted": scripted.provider,
    }
    providers = Providers(kinds | installed_kinds(), ProviderDeps(client, secrets, clock, asyncio.sleep))
    limiter = Limiter(clock, concurrency=settings.model_calls)
    return ModelRouter(
        providers, schemas=SchemaRegistry(), clock=clock, random=random.random, sleep=asyncio.sleep, limiter=limiter
    )


def make_hooks(settings: Settings, clock: Clock, workspace: CompiledWorkspace) -> HookRunner | list[Failure]:
    def load(entry: str, files: WorkspaceFiles, own: bool) -> Any:
        return load_entry(entry, files, own=own)

    makers: dict[str, hooks.Maker] = {
        "builtin": make_builtin_hook,
        "python": partial(make_python_hook, load=load),
        "command": partial(
            make_command, folder=settings.workspace, secret=_secrets_of(workspace), data=settings.data_dir
        ),
    }
    return hooks.build(workspace, makers, schemas=SchemaRegistry(), clock=clock)


def _secrets_of(workspace: CompiledWorkspace) -> Callable[[str], str | None]:
    """The environment as far as the Runtime lists it."""
    allowed = frozenset(workspace.runtime.env)
    return lambda name: os.environ.get(name) if name in allowed else None


class Closable(Protocol):
    async def close(self) -> None: ...


class ToolMakers:
    """Makes the tools of a compiled workspace, each kind by its own maker."""

    def __init__(self, settings: Settings, clock: Clock, client: HttpClient) -> None:
        self._settings, self._clock, self._client = settings, clock, client
        self._sessions: dict[str, Mapping[str, Any]] = {}
        """Of MCP servers by name, by the workspace's digest: tools that are made again use the same."""

    async def build(self, workspace: CompiledWorkspace) -> Registry | list[Failure]:
        data = self._settings.data_dir / "files"
        data.mkdir(mode=0o700, parents=True, exist_ok=True)
        secret = _secrets_of(workspace)
        hosts, private = frozenset(workspace.runtime.outgoing.hosts), frozenset(workspace.runtime.outgoing.private)
        mcp = await self._mcp(workspace, private, hosts, secret) if workspace.mcp_servers else None
        claim = SchemaRegistry().validator("write_claim_v1")
        shipped_tools = builtins(
            data, self._clock, write_claim=claim, client=self._client, fetch_hosts=hosts, fetch_private=private
        )
        folder = self._settings.workspace
        makers: dict[str, Maker] = {
            "python": _ready(make_python),
            "builtin": _ready(make_builtin, shipped_tools),
            "http": _ready(make_http, self._client, secret),
            "subprocess": _ready(make_subprocess, folder, data, secret, self._settings.data_dir),
        }
        if mcp is not None:
            makers["mcp"] = mcp
        return await build(workspace, makers, root=data)

    async def _mcp(
        self, workspace: CompiledWorkspace, private: frozenset[str], hosts: frozenset[str],
        secret: Callable[[str], str | None],
    ) -> Maker:  # fmt: skip
        # Imported on first use: most workspaces have no such server, and the start is quicker for it.
        await asyncio.to_thread(importlib.import_module, "app.tools.kinds.mcp")
        from app.tools.kinds.mcp import make_mcp, offers_of, server_of
        from app.tools.kinds.mcp_sessions import Sessions

        sessions = self._sessions.get(workspace.digest)
        if sessions is None:
            sessions = self._sessions[workspace.digest] = {
                name: Sessions(server_of(named, private, hosts), self._client, secret)
                for name, named in workspace.mcp_servers.items()
            }
        return partial(make_mcp, sessions=sessions, offered=await offers_of(workspace, sessions))

    async def close(self) -> None:
        for sessions in self._sessions.values():
            await asyncio.gather(*(one.close() for one in sessions.values()))


async def mcp_tools(workspace: CompiledWorkspace, name: str, client: HttpClient) -> list[str] | Failure:
    """The tools that an MCP server offers now, for whoever checks a workspace without serving it."""
    from app.tools.kinds.mcp import McpServer, server_of
    from app.tools.kinds.mcp_sessions import Sessions

    outgoing = workspace.runtime.outgoing
    server = server_of(workspace.mcp_servers[name], frozenset(outgoing.private), frozenset(outgoing.hosts))
    sessions = Sessions(server, client, _secrets_of(workspace))
    try:
        offers = await McpServer(sessions).offers()
    finally:
        await sessions.close()
    return offers if isinstance(offers, Failure) else [offer.name for offer in offers]


def _ready(make: Callable[..., Tool | Failure], *arguments: Any) -> Maker:
    """A maker that has nothing to wait for."""

    async def maker(declared: CompiledTool, workspace: CompiledWorkspace) -> Tool | Failure:
        return make(declared, workspace, *arguments)

    return maker
