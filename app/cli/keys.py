"""`holdfast keys`: create, list and revoke API keys.

Uses the API of a running server. If none is running, it opens the database, for example to create the first key.
"""

from pathlib import Path
from typing import Annotated

import typer

from app.cli.loop import run_loop
from app.core.access import ROLES, SCOPES
from app.core.principal import DEFAULT_TENANT

app = typer.Typer(no_args_is_help=True, help="API keys: create, list, revoke.")

DataDir = Annotated[Path | None, typer.Option(help="Data folder with the SQLite database.")]
DatabaseUrl = Annotated[str | None, typer.Option(help="URL of a Postgres database (postgresql://...).")]
Tenant = Annotated[str, typer.Option(help="Tenant of the keys.")]


@app.command()
def create(
    name: Annotated[str, typer.Argument(help="Name of the key, for example the program that uses it.")],
    role: Annotated[list[str] | None, typer.Option(help=f"One of {', '.join(ROLES)}; may be repeated.")] = None,
    scope: Annotated[list[str] | None, typer.Option(help=f"One of {', '.join(SCOPES)}; may be repeated.")] = None,
    tenant: Tenant = DEFAULT_TENANT,
    expires_in_days: Annotated[float | None, typer.Option(help="Days until the key expires. Default: never.")] = None,
    data_dir: DataDir = None,
    database_url: DatabaseUrl = None,
) -> None:
    """Create a key. It is printed once, alone on standard output."""
    from app.cli.key_access import open_keys

    async def work() -> None:
        async with open_keys(data_dir, database_url) as keys:
            made = await keys.create(tenant, name, role or [], scope or [], expires_in_days)
        typer.echo(f"Created {made['id']} for tenant {made['tenant']}. The key is shown only once:", err=True)
        typer.echo(made["key"])

    run_loop(work())


@app.command(name="list")
def list_keys(tenant: Tenant = DEFAULT_TENANT, data_dir: DataDir = None, database_url: DatabaseUrl = None) -> None:
    """List the keys of a tenant as JSON lines, including revoked ones, without the keys themselves."""
    from app.cli.key_access import open_keys
    from app.core import json

    async def work() -> None:
        after = ""
        async with open_keys(data_dir, database_url) as keys:
            while page := await keys.list(tenant, after):
                for key in page:
                    typer.echo(json.dumps(key).decode())
                after = page[-1]["id"]

    run_loop(work())


@app.command()
def revoke(
    key_id: Annotated[str, typer.Argument(help="The key's id, as shown by `keys list`.")],
    tenant: Tenant = DEFAULT_TENANT,
    data_dir: DataDir = None,
    database_url: DatabaseUrl = None,
) -> None:
    """Revoke a key. Connections that it opened are closed within half a minute."""
    from app.cli.key_access import open_keys

    async def work() -> None:
        async with open_keys(data_dir, database_url) as keys:
            revoked = await keys.revoke(tenant, key_id)
        typer.echo(f"{revoked['id']} was revoked at {revoked['revokedAt']}")

    run_loop(work())
