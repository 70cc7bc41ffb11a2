"""The checks of `holdfast doctor` and `/api/doctor`: one function per subject, each returning results with a remedy.

The checks change nothing: no migration, no lock, no call to a provider that costs money. They connect to MCP servers
and, behind a proxy or with a CA file, also to the hosts of models. Leaves to others: whether a server runs, and
printing the results (`cli.doctor`), doing it for a running server (`server_checkup`).
"""

import asyncio
import os
import resource
import shutil
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

from app.core.errors import Failure
from app.core.settings import Settings
from app.core.value import value
from app.events.ports import StoreError
from app.outside.process import MISSING
from app.outside.sandbox_report import sandbox_status
from app.wiring.kinds import kind_catalog
from app.wiring.upkeep import database_state, pgvector_version, stored_grants
from app.workspace.compile import compile
from app.workspace.compiled import Compiled
from app.workspace.files import read_folder
from app.workspace.secrets import env_names

if TYPE_CHECKING:
    from app.wiring.upkeep import SchemaState

LOW_DISK_BYTES: Final = 1024**3
NO_DISK_BYTES: Final = 100 * 1024**2
FEW_FILES: Final = 4096
"""Fewer open files than this is a warning; each connection is a file."""
SKEW_SECONDS: Final = 5.0


@value(frozen=True, slots=True)
class CheckResult:
    about: str
    level: Literal["ok", "warning", "wrong"]
    message: str
    remedy: str | None = None

    def as_json(self) -> dict[str, Any]:
        return {"about": self.about, "level": self.level, "message": self.message, "remedy": self.remedy}


async def examine(settings: Settings, environ: Mapping[str, str]) -> list[CheckResult]:
    found = [CheckResult("settings", "ok", "valid")]
    found += await _database(settings)
    found += _workspace(settings, environ)
    found += await _vectors(settings)
    found += await _mcp_servers(settings)
    found += await _outgoing(settings, environ)
    found += _disk(settings.data_dir)
    found += _limits(settings)
    found.append(await _sandbox(settings))
    return found


async def _database(settings: Settings) -> list[CheckResult]:
    where = "Postgres" if settings.is_postgres else str(settings.sqlite_path)
    if not settings.is_postgres and not settings.sqlite_path.exists():
        return [CheckResult("database", "ok", f"{where} will be created at the first start")]
    before = time.time()
    try:
        schema, newest, now_ms = await database_state(settings)
    except StoreError as error:
        return [CheckResult("database", "wrong", f"{where}: {error.failure.message}", error.remedy)]
    found = [CheckResult("database", "ok", f"{where} responds"), _migrations(schema, newest)]
    skew = max(before - now_ms / 1000, now_ms / 1000 - time.time(), 0.0)
    if skew > SKEW_SECONDS:
        found.append(
            CheckResult(
                "clock",
                "warning",
                f"the database's clock differs by {skew:.0f} s",
                "Synchronise both clocks with NTP. Timestamps and expiries depend on them.",
            )
        )
    elif time.gmtime().tm_year < 2025:
        found.append(
            CheckResult(
                "clock", "wrong", "the system clock is years behind", "Set it; keys and approvals expire by it."
            )
        )
    else:
        found.append(CheckResult("clock", "ok", "agrees with the database's clock"))
    return found


def _migrations(schema: "SchemaState", newest: str) -> CheckResult:
    revision = schema.revision
    if revision == newest:
        return CheckResult("migrations", "ok", f"revision {revision}, up to date")
    if not schema.is_supported:
        return CheckResult(
            "migrations",
            "wrong",
            f"revision {revision} is unknown to this version",
            "Use a version of Holdfast at least as new as the one that wrote the database.",
        )
    if schema.is_newer:
        message = f"revision {revision} of a newer version, which supports this one ({newest})"
        return CheckResult("migrations", "warning", message, "Finish the upgrade of all servers.")
    return CheckResult(
        "migrations",
        "warning",
        f"revision {revision or 'none'}, the newest is {newest}",
        "Back up, then start the server, which migrates the database.",
    )


def _workspace(settings: Settings, environ: Mapping[str, str]) -> list[CheckResult]:
    folder = settings.workspace
    if not folder.is_dir():
        return [
            CheckResult(
                "workspace",
                "wrong",
                f"{folder} is not a folder",
                f"Create it with `holdfast new {folder}`, or set HOLDFAST_WORKSPACE.",
            )
        ]
    result = compile(read_folder(folder), kind_catalog(), profile=settings.profile)
    if not isinstance(result, Compiled):
        return [
            CheckResult(
                "workspace",
                "wrong",
                f"{folder} has {len(result.errors)} errors",
                f"See them with `holdfast check {folder}`.",
            )
        ]
    space, warnings = result.workspace, result.diagnostics.warnings
    found = [
        CheckResult(
            "workspace",
            "warning",
            f"{folder} compiles with {len(warnings)} warnings",
            f"See them with `holdfast check {folder}`.",
        )
        if warnings
        else CheckResult("workspace", "ok", f"{folder}: {len(space.agents)} agents, digest {space.digest[:12]}")
    ]
    for name, model in sorted(space.models.items()):
        missing = [env for env in _names(model.spec.model_dump(mode="json")) if env not in environ]
        found.append(
            CheckResult(
                "providers",
                "wrong",
                f"model {name} ({model.spec.provider}): {missing[0]} is not set",
                f"Set {missing[0]} in the server's environment, or choose a profile without it.",
            )
            if missing
            else CheckResult("providers", "ok", f"model {name} ({model.spec.provider}) is configured")
        )
    for name, webhook in sorted(space.webhooks.items()):
        missing = [env for env in env_names(webhook.spec.secret) if env not in environ]
        found.append(
            CheckResult(
                "webhooks",
                "wrong",
                f"webhook {name}: {missing[0]} is not set, so nothing is sent to it",
                f"Set {missing[0]} in the server's environment to the secret that signs its deliveries.",
            )
            if missing
            else CheckResult("webhooks", "ok", f"webhook {name} is configured")
        )
    return found


async def _vectors(settings: Settings) -> list[CheckResult]:
    """Check whether Postgres can search the vectors of memories; no check if no memory has any."""
    folder = settings.workspace
    result = compile(read_folder(folder), kind_catalog(), profile=settings.profile) if folder.is_dir() else None
    if settings.database_url is None or not isinstance(result, Compiled):
        return []
    if not any(memory.spec.embedding for memory in result.workspace.memories.values()):
        return []
    try:
        version, remedy = await pgvector_version(settings.database_url)
    except StoreError:
        return []  # the check of the database says so
    if version is None:
        message = "Postgres has no pgvector: vectors of memories are compared in the server"
        return [CheckResult("memory", "warning", message, remedy)]
    return [CheckResult("memory", "ok", f"Postgres offers pgvector {version}")]


_REMEDIES: Final = {"MCP_LOGIN_REQUIRED": "Log in, for each tenant that uses it."}


async def _mcp_servers(settings: Settings) -> list[CheckResult]:
    """Connect to each MCP server and list its tools; no tool is called."""
    folder = settings.workspace
    result = compile(read_folder(folder), kind_catalog(), profile=settings.profile) if folder.is_dir() else None
    if not isinstance(result, Compiled) or not result.workspace.mcp_servers:
        return []
    from app.wiring.kinds import http_client, mcp_tools

    client, names = http_client(settings), sorted(result.workspace.mcp_servers)
    grants = await stored_grants(settings, result.workspace)
    try:
        tried = await asyncio.gather(*(mcp_tools(result.workspace, name, client, grants) for name in names))
    finally:
        await client.close()
    return [
        CheckResult(
            "mcp",
            "wrong",
            offered.message,
            f"{_REMEDIES.get(offered.code, f'Start the server, or correct McpServer/{name}.')} "
            "Until then calls of its tools fail.",
        )
        if isinstance(offered, Failure)
        else CheckResult("mcp", "ok", f"the MCP server {name} offers {len(offered)} tools")
        for name, offered in zip(names, tried, strict=True)
    ]


async def _outgoing(settings: Settings, environ: Mapping[str, str]) -> list[CheckResult]:
    """Try the proxy and the CA file as the server would use them; no check if neither is configured."""
    folder = settings.workspace
    result = compile(read_folder(folder), kind_catalog(), profile=settings.profile) if folder.is_dir() else None
    if not isinstance(result, Compiled):
        return []
    from app.wiring.connections import try_outgoing

    remedy = "Check HTTPS_PROXY, HTTP_PROXY, NO_PROXY and HOLDFAST_CA_FILE; docs/configuration.md describes them."
    return [
        CheckResult("outgoing", "ok", f"{one.kind} {one.name} {one.message}")
        if one.ok
        else CheckResult("outgoing", "wrong", f"{one.kind} {one.name}: {one.message}", remedy)
        for one in await try_outgoing(result.workspace, settings, environ)
    ]


def _names(value: Any) -> list[str]:
    """All environment variables to which a document refers."""
    if isinstance(value, str):
        return env_names(value)
    children = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return [name for child in children for name in _names(child)]


def _disk(data_dir: Path) -> list[CheckResult]:
    folder = next(path for path in (data_dir, *data_dir.absolute().parents) if path.is_dir())
    if not os.access(folder, os.W_OK):
        return [CheckResult("disk", "wrong", f"{folder} is not writable", "Give the server's user write access to it.")]
    free = shutil.disk_usage(folder).free
    message = f"{free / 1024**3:.1f} GiB free under {folder}"
    if free < LOW_DISK_BYTES:
        return [
            CheckResult(
                "disk",
                "wrong" if free < NO_DISK_BYTES else "warning",
                message,
                "Free some space. On a full disk the server rejects writes with 503 STORAGE_FULL.",
            )
        ]
    return [CheckResult("disk", "ok", message)]


async def _sandbox(settings: Settings) -> CheckResult:
    """Check the sandbox of tools and hooks that are programs, for the current user on this machine."""
    status = await sandbox_status()
    if not status.missing:
        return CheckResult("sandbox", "ok", f"complete: {', '.join(status.uses)}")
    result = compile(read_folder(settings.workspace), kind_catalog(), profile=settings.profile)
    required = isinstance(result, Compiled) and result.workspace.runtime.sandbox == "required"
    meaning = " ".join(MISSING[name] for name in status.missing)
    return CheckResult(
        "sandbox",
        "wrong" if required else "warning",
        f"incomplete: {', '.join(status.missing)}",
        f"{meaning} See docs/security.md for what provides each part.",
    )


def _limits(settings: Settings) -> list[CheckResult]:
    files, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return [
        CheckResult(
            "limits", "warning", f"at most {files} open files", f"Raise the limit with `ulimit -n {FEW_FILES * 4}`."
        )
        if files < FEW_FILES
        else CheckResult(
            "limits", "ok", f"{files} open files, {os.cpu_count()} cores, {settings.max_concurrent_runs} runs at once"
        )
    ]
