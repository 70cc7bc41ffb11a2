"""What `holdfast doctor` looks at: one function per subject, each giving what it found with a remedy.

Reads only: no migration, no lock, no call to a provider that would cost something; MCP servers are connected to, and
behind a proxy or with a CA file also the hosts of models.
Leaves printing to `doctor`.
"""

import asyncio
import os
import resource
import shutil
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal

from app.cli.client import open_client
from app.core import json
from app.core.errors import Failure
from app.core.settings import Settings
from app.events.ports import StoreError
from app.outside.process import MISSING
from app.outside.sandbox_report import sandbox_status
from app.store.folder import DataFolder
from app.store.migrate import NEWEST, known_revisions, standing
from app.wiring.kinds import kind_catalog
from app.workspace.compile import compile
from app.workspace.compiled import Compiled
from app.workspace.files import read_folder
from app.workspace.secrets import env_names

LOW_DISK_BYTES: Final = 1024**3
NO_DISK_BYTES: Final = 100 * 1024**2
FEW_FILES: Final = 4096
"""A socket is a file: this many sockets and no more."""
SKEW_SECONDS: Final = 5.0
_NETWORK_SECONDS: Final = 3.0


@dataclass(frozen=True, slots=True)
class Finding:
    about: str
    level: Literal["ok", "warning", "wrong"]
    message: str
    remedy: str | None = None

    def as_json(self) -> dict[str, Any]:
        return {"about": self.about, "level": self.level, "message": self.message, "remedy": self.remedy}


async def examine(settings: Settings, environ: Mapping[str, str]) -> list[Finding]:
    found = [Finding("settings", "ok", "they fit together")]
    found += await _server(settings)
    found += await _database(settings)
    found += _workspace(settings, environ)
    found += await _mcp_servers(settings)
    found += await _outgoing(settings, environ)
    found += _disk(settings.data_dir)
    found += _limits(settings)
    found.append(await _sandbox(settings))
    return found


async def _server(settings: Settings) -> list[Finding]:
    """The one that holds the data folder, if any; on Postgres nobody knows where replicas listen."""
    running = None if settings.is_postgres else DataFolder(settings.data_dir).running_server()
    if running is None:
        return [Finding("server", "ok", "none runs on this data folder")]
    url = running.get("url")
    if url is None:
        return [Finding("server", "warning", "a process holds the data folder and does not listen",
                        "Wait until it has started, or find it with `fuser` on the folder's lock file.")]  # fmt: skip
    try:
        async with open_client(url, None) as client:
            started = time.time()
            answer = await client.get("/readyz", timeout=_NETWORK_SECONDS)
    except Exception as error:
        return [Finding("server", "wrong", f"{url} does not answer: {type(error).__name__}",
                        "Look at its log; stop it with SIGTERM and start it again.")]  # fmt: skip
    if answer.status_code != 200:
        code = json.loads(answer.content).get("code")
        return [Finding("server", "wrong", f"{url} is not ready: {code}", f"See docs/errors.md#{code}.")]
    took = (time.time() - started) * 1000
    return [Finding("server", "ok", f"{url} is ready, answered in {took:.0f} ms")]


async def _database(settings: Settings) -> list[Finding]:
    where = "Postgres" if settings.is_postgres else str(settings.sqlite_path)
    if not settings.is_postgres and not settings.sqlite_path.exists():
        return [Finding("database", "ok", f"{where} will be made at the first start")]
    before = time.time()
    try:
        revision, now_ms = await standing(settings)
    except StoreError as error:
        return [Finding("database", "wrong", f"{where}: {error.failure.message}", error.remedy)]
    found = [Finding("database", "ok", f"{where} answers"), _migrations(revision)]
    skew = max(before - now_ms / 1000, now_ms / 1000 - time.time(), 0.0)
    if skew > SKEW_SECONDS:
        found.append(Finding("clock", "warning", f"the database's clock differs by {skew:.0f} s",
                             "Let NTP set both clocks: timestamps and expiries go by them, order never."))  # fmt: skip
    elif time.gmtime().tm_year < 2025:
        found.append(
            Finding("clock", "wrong", "the clock is years behind", "Set it, or keys and approvals expire wrongly.")
        )
    else:
        found.append(Finding("clock", "ok", "ours and the database's agree"))
    return found


def _migrations(revision: str | None) -> Finding:
    if revision == NEWEST:
        return Finding("migrations", "ok", f"at revision {revision}, the newest")
    if revision is not None and revision not in known_revisions():
        return Finding("migrations", "wrong", f"at revision {revision}, which this version does not know",
                       "Start a version of Holdfast at least as new as the one that wrote it.")  # fmt: skip
    return Finding("migrations", "warning", f"at revision {revision or 'none'}, the newest is {NEWEST}",
                   "Back up, then start the server: it migrates by itself.")  # fmt: skip


def _workspace(settings: Settings, environ: Mapping[str, str]) -> list[Finding]:
    folder = settings.workspace
    if not folder.is_dir():
        return [Finding("workspace", "wrong", f"{folder} is no folder",
                        f"Make one with `holdfast new {folder}`, or set HOLDFAST_WORKSPACE.")]  # fmt: skip
    result = compile(read_folder(folder), kind_catalog(), profile=settings.profile)
    if not isinstance(result, Compiled):
        return [Finding("workspace", "wrong", f"{folder} has {len(result.errors)} errors",
                        f"See them with `holdfast check {folder}`.")]  # fmt: skip
    space, warnings = result.workspace, result.diagnostics.warnings
    found = [
        Finding("workspace", "warning", f"{folder} compiles with {len(warnings)} warnings",
                f"See them with `holdfast check {folder}`.")
        if warnings
        else Finding("workspace", "ok", f"{folder}: {len(space.agents)} agents, digest {space.digest[:12]}")
    ]  # fmt: skip
    for name, model in sorted(space.models.items()):
        missing = [env for env in _names(model.spec.model_dump(mode="json")) if env not in environ]
        found.append(
            Finding("providers", "wrong", f"model {name} ({model.spec.provider}): {missing[0]} is not set",
                    f"Set {missing[0]} in the server's environment, or choose a profile without it.")
            if missing
            else Finding("providers", "ok", f"model {name} ({model.spec.provider}) has what it needs")
        )  # fmt: skip
    return found


async def _mcp_servers(settings: Settings) -> list[Finding]:
    """Each is connected to and asked what it offers; none of its tools is called."""
    folder = settings.workspace
    result = compile(read_folder(folder), kind_catalog(), profile=settings.profile) if folder.is_dir() else None
    if not isinstance(result, Compiled) or not result.workspace.mcp_servers:
        return []
    from app.wiring.kinds import http_client, mcp_tools

    client, names = http_client(settings), sorted(result.workspace.mcp_servers)
    try:
        tried = await asyncio.gather(*(mcp_tools(result.workspace, name, client) for name in names))
    finally:
        await client.close()
    return [
        Finding("mcp", "wrong", offered.message,
                f"Start it, or correct McpServer/{name}; until then only calls of its tools fail.")
        if isinstance(offered, Failure)
        else Finding("mcp", "ok", f"the MCP server {name} offers {len(offered)} tools")
        for name, offered in zip(names, tried, strict=True)
    ]  # fmt: skip


async def _outgoing(settings: Settings, environ: Mapping[str, str]) -> list[Finding]:
    """The proxy and the CA file are tried as the server would use them; nothing where neither is configured."""
    folder = settings.workspace
    result = compile(read_folder(folder), kind_catalog(), profile=settings.profile) if folder.is_dir() else None
    if not isinstance(result, Compiled):
        return []
    from app.wiring.connections import try_outgoing

    remedy = "Check HTTPS_PROXY, HTTP_PROXY, NO_PROXY and HOLDFAST_CA_FILE; docs/configuration.md describes them."
    return [
        Finding("outgoing", "ok", f"{one.kind} {one.name} {one.message}")
        if one.ok
        else Finding("outgoing", "wrong", f"{one.kind} {one.name}: {one.message}", remedy)
        for one in await try_outgoing(result.workspace, settings, environ)
    ]


def _names(value: Any) -> list[str]:
    """Variables that a document refers to, wherever in it."""
    if isinstance(value, str):
        return env_names(value)
    children = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return [name for child in children for name in _names(child)]


def _disk(data_dir: Path) -> list[Finding]:
    folder = next(path for path in (data_dir, *data_dir.absolute().parents) if path.is_dir())
    if not os.access(folder, os.W_OK):
        return [Finding("disk", "wrong", f"{folder} cannot be written", "Give the server's user write access to it.")]
    free = shutil.disk_usage(folder).free
    told = f"{free / 1024**3:.1f} GiB free under {folder}"
    if free < LOW_DISK_BYTES:
        return [Finding("disk", "wrong" if free < NO_DISK_BYTES else "warning", told,
                        "Make room: without it the server answers 503 STORAGE_FULL until there is some.")]  # fmt: skip
    return [Finding("disk", "ok", told)]


async def _sandbox(settings: Settings) -> Finding:
    """Around tools and hooks that are programs, for the user and on the machine that this command runs as and on."""
    status = await sandbox_status()
    if not status.missing:
        return Finding("sandbox", "ok", f"complete: {', '.join(status.uses)}")
    result = compile(read_folder(settings.workspace), kind_catalog(), profile=settings.profile)
    required = isinstance(result, Compiled) and result.workspace.runtime.sandbox == "required"
    meaning = " ".join(MISSING[name] for name in status.missing)
    return Finding("sandbox", "wrong" if required else "warning", f"lacks {', '.join(status.missing)}",
                   f"{meaning} See docs/security.md for what provides each part.")  # fmt: skip


def _limits(settings: Settings) -> list[Finding]:
    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return [
        Finding("limits", "warning", f"{files} open files at most", f"Raise it (`ulimit -n {FEW_FILES * 4}`).")
        if files < FEW_FILES
        else Finding("limits", "ok", f"{files} open files, {os.cpu_count()} cores, "
                     f"{settings.max_concurrent_runs} runs at once")
    ]  # fmt: skip
