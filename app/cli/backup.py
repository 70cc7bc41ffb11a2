"""`holdfast backup`: copies the data folder of a running or stopped server."""

import os
from pathlib import Path
from typing import Annotated

import typer


def backup(
    target: Annotated[Path, typer.Argument(metavar="DIR", help="Folder to create. It can be served as a data folder.")],
    data_dir: Annotated[Path | None, typer.Option(help="Data folder with the SQLite database.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print nothing.")] = False,
) -> None:
    """Copy the data folder (SQLite), also while the server runs. To restore, serve the copy.

    The copy is checked page by page. `holdfast log verify --data-dir DIR` also checks its hash chains.
    """
    from app.cli.command_session import print_json
    from app.cli.loop import run_loop
    from app.core.settings import Settings
    from app.wiring.upkeep import back_up

    async def work() -> None:
        settings = Settings.load(os.environ, data_dir=data_dir)
        size = back_up(settings, target)
        if as_json:
            print_json({"target": str(target), "databaseBytes": size})
        elif not quiet:
            typer.echo(f"copied {settings.data_dir} to {target}, {size / 1024**2:.1f} MiB")

    run_loop(work())
