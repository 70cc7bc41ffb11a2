"""`holdfast compact`: shrinks the SQLite database file to the size of its content; the server must be stopped."""

import os
from pathlib import Path
from typing import Annotated

import typer


def compact(
    data_dir: Annotated[Path | None, typer.Option(help="Data folder with the SQLite database.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Return the free space of the SQLite database to the disk. The server must be stopped.

    This needs as much free space as the database. Afterwards, `HOLDFAST_SQLITE_VACUUM=incremental` keeps the file small
    while the server runs.
    """
    from app.cli.command_session import print_json
    from app.cli.loop import run_loop
    from app.core.settings import Settings
    from app.wiring.upkeep import compact as compact_database

    async def work() -> None:
        settings = Settings.load(os.environ, data_dir=data_dir)
        before, after = compact_database(settings)
        if as_json:
            print_json({"bytesBefore": before, "bytesAfter": after})
        else:
            typer.echo(f"{settings.sqlite_path}: {before / 1024**2:.1f} MiB before, {after / 1024**2:.1f} MiB now")

    run_loop(work())
