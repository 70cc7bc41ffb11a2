"""`holdfast partition`: puts the log of a large Postgres database into partitions; the servers must be stopped."""

import os
from typing import Annotated

import typer


def partition(
    database_url: Annotated[
        str | None, typer.Option(help="postgresql://... of the database (HOLDFAST_DATABASE_URL).")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Put the log of a Postgres database into partitions. All servers of the database must be stopped.

    New databases have partitions from the start. This needs as much free space as the log, and is one transaction: if
    it is interrupted, nothing has changed.
    """
    from app.cli.command_session import print_json
    from app.cli.loop import run_loop
    from app.core.settings import Settings
    from app.wiring.upkeep import partition as convert

    async def work() -> None:
        settings = Settings.load(os.environ, database_url=database_url)
        partitions, moved = await convert(settings)
        if as_json:
            print_json({"partitions": partitions, "rowsMoved": moved or 0, "wasPartitioned": moved is None})
        elif moved is None:
            typer.echo("The log has partitions already.")
        else:
            typer.echo(f"{moved:,} rows moved into {partitions} partitions")

    run_loop(work())
