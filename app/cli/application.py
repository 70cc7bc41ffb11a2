"""`holdfast`: the command line, put together.

Exit codes: 0 done; 1 it failed, was refused, or something was found wrong; 2 wrong usage; 3 the run waits for a person
whom nobody can ask here; 130 interrupted. Only light modules are imported here: `--help` and completion must be quick.
"""

from pathlib import Path
from typing import Annotated

import typer

from app.cli import approvals, keys, log, runs, threads, tools
from app.cli.agents import agents
from app.cli.audit import audit
from app.cli.backup import backup
from app.cli.check import check
from app.cli.compact import compact
from app.cli.doctor import doctor
from app.cli.new import new
from app.cli.talk import chat, run

_EPILOG = (
    "Exit codes: 0 done; 1 failed, refused or found wrong; 2 wrong usage; 3 a run waits for a person; 130 interrupted."
)

app = typer.Typer(
    name="holdfast", no_args_is_help=True, pretty_exceptions_enable=False, add_completion=True, epilog=_EPILOG
)


def _version(wanted: bool) -> None:
    if wanted:
        from app import __version__

        typer.echo(__version__)
        raise typer.Exit


@app.callback()
def holdfast(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Runs AI agents for other programs, and never loses an event.

    Commands talk to the server of --url or HOLDFAST_URL, to the one that holds the data folder, or start one for as
    long as they need it. Results go to standard output, everything else to standard error.
    """


@app.command()
def serve(
    host: Annotated[str | None, typer.Option(help="Address to listen on; HOLDFAST_HOST.")] = None,
    port: Annotated[int | None, typer.Option(help="Port to listen on, 0 takes a free one; HOLDFAST_PORT.")] = None,
    data_dir: Annotated[Path | None, typer.Option(help="Folder of the embedded database; HOLDFAST_DATA_DIR.")] = None,
    database_url: Annotated[
        str | None, typer.Option(help="postgresql://... for shared mode; HOLDFAST_DATABASE_URL.")
    ] = None,
    workspace: Annotated[
        Path | None, typer.Option(help="Folder of the workspace to serve; HOLDFAST_WORKSPACE.")
    ] = None,
    profile: Annotated[
        str | None, typer.Option(help="Profile that overrides the workspace's models; HOLDFAST_PROFILE.")
    ] = None,
) -> None:
    """Start the server."""
    import gc
    import os

    # Whatever is loaded from here on stays: looking for garbage in it only delays the start. `serve` ends this.
    gc.disable()

    from app.cli.loop import run_loop
    from app.cli.serve import serve as serve_forever
    from app.core.settings import Settings

    async def work() -> None:
        settings = Settings.load(os.environ, host=host, port=port, data_dir=data_dir, database_url=database_url,
                                 workspace=workspace, profile=profile)  # fmt: skip
        await serve_forever(settings)

    run_loop(work())


app.command()(run)
app.command()(chat)
app.command()(agents)
app.add_typer(runs.app, name="runs")
app.add_typer(threads.app, name="threads")
app.add_typer(approvals.app, name="approvals")
app.add_typer(tools.app, name="tools")
app.add_typer(log.app, name="log")
app.command()(audit)
app.add_typer(keys.app, name="keys")
app.command()(check)
app.command()(new)
app.command()(doctor)
app.command()(backup)
app.command()(compact)
