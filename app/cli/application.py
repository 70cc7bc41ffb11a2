"""`holdfast`: the command line, put together. Exit codes: 0 done, 1 it failed or was found wrong, 2 wrong usage."""

import os
from pathlib import Path
from typing import Annotated

import typer

from app.cli import keys as key_commands
from app.cli import log as log_commands
from app.cli.audit import audit
from app.cli.check import check
from app.cli.loop import run_loop
from app.cli.new import new
from app.core.settings import Settings

app = typer.Typer(name="holdfast", no_args_is_help=True, pretty_exceptions_enable=False, add_completion=True)
app.add_typer(log_commands.app, name="log")
app.add_typer(key_commands.app, name="keys")
app.command()(audit)
app.command()(check)
app.command()(new)


@app.command()
def serve(
    host: Annotated[str | None, typer.Option(help="Address to listen on.")] = None,
    port: Annotated[int | None, typer.Option(help="Port to listen on; 0 takes a free one.")] = None,
    data_dir: Annotated[Path | None, typer.Option(help="Folder of the embedded database.")] = None,
    database_url: Annotated[str | None, typer.Option(help="postgresql://... for shared mode.")] = None,
    workspace: Annotated[Path | None, typer.Option(help="Folder of the workspace to serve.")] = None,
    profile: Annotated[str | None, typer.Option(help="Profile that overrides the workspace's models.")] = None,
) -> None:
    """Start the server."""
    from app.cli.serve import serve as serve_forever

    async def work() -> None:
        settings = Settings.load(os.environ, host=host, port=port, data_dir=data_dir, database_url=database_url,
                                 workspace=workspace, profile=profile)  # fmt: skip
        await serve_forever(settings)

    run_loop(work())
