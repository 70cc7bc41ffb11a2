"""What commands do with the database and the data folder as a whole: find their server, copy, shrink, convert, purge.

Loads little until it is used: most commands only look for a running server. Leaves to `local`: what is in the log.
"""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from app.core.errors import HoldfastError
from app.core.settings import Settings
from app.store.folder import DataFolder

if TYPE_CHECKING:
    from app.store.migrate import SchemaState as SchemaState
    from app.tools.grants import GrantVault
    from app.workspace.compiled import CompiledWorkspace


def running_server(settings: Settings) -> dict[str, Any] | None:
    """What the server that uses the data folder says of itself; of servers on Postgres nothing is known."""
    return None if settings.is_postgres else DataFolder(settings.data_dir).running_server()


def back_up(settings: Settings, target: Path) -> int:
    """Copies the data folder; answers the size of the database in bytes."""
    from app.store.backup import back_up as copy

    if settings.is_postgres:
        message = "`holdfast backup` copies SQLite databases only; use pg_dump for Postgres"
        raise HoldfastError("INVALID_REQUEST", message)
    return copy(settings.data_dir, target)


def compact(settings: Settings) -> tuple[int, int]:
    """Returns free space to the disk; answers the size of the database before and after, in bytes."""
    from app.store.vacuum import compact as compact_file

    if settings.is_postgres:
        message = "`holdfast compact` works on SQLite databases only; use VACUUM FULL for Postgres"
        raise HoldfastError("INVALID_REQUEST", message)
    if not settings.sqlite_path.is_file():
        raise HoldfastError("NOT_FOUND", f"there is no database in {settings.data_dir}")
    folder = DataFolder(settings.data_dir)
    folder.take()
    try:
        return compact_file(settings.sqlite_path)
    finally:
        folder.release()


async def partition(settings: Settings) -> tuple[int, int | None]:
    """How many partitions the log has now, and how many rows were moved; None if it had them already."""
    from app.store.partitions import PARTITIONS
    from app.store.partitions import partition as convert

    if settings.direct_url is None:
        raise HoldfastError("INVALID_REQUEST", "`holdfast partition` works on Postgres databases only")
    return PARTITIONS, await convert(settings.direct_url)


async def purge_memory(settings: Settings) -> str:
    """Removes what forgotten records left in unused parts of the files; answers what was done."""
    from app.store.memory_purge import purge_memory as purge

    return await purge(settings)


async def database_state(settings: Settings) -> "tuple[SchemaState, str, int]":
    """The schema of the database, the newest revision that this version knows, and the time by the database."""
    from app.store.migrate import NEWEST, standing

    schema, now_ms = await standing(settings)
    return schema, NEWEST, now_ms


async def pgvector_version(url: str) -> tuple[str | None, str]:
    """The version of pgvector that a Postgres offers, if any, and what to do where there is none."""
    from app.store.memory_pgvector import REMEDY, offered_version

    return await offered_version(url), REMEDY


async def stored_grants(settings: Settings, workspace: "CompiledWorkspace") -> "GrantVault | None":
    """Logins to MCP servers as they are stored now, for whoever checks the servers; None where none can be read."""
    if not any(named.spec.oauth is not None for named in workspace.mcp_servers.values()):
        return None
    from app.core.signing import Signer, open_signer
    from app.store.grant_snapshot import GrantSnapshot, read_grants
    from app.tools.grants import GrantVault

    made = settings.secret_file is not None or (settings.data_dir / "secret").exists()
    try:
        if made:  # a check makes no secret
            return GrantVault(await read_grants(settings), open_signer(settings), read_only=True)
    except HoldfastError:
        pass  # the check of the database, or of the settings, reports it
    return GrantVault(GrantSnapshot({}), Signer([b"nothing is sealed with it"]), read_only=True)
