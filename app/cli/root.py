"""`holdfast` itself and `serve`, without the other commands: a server that starts needs none of them.

Only small modules are imported here. Leaves to `application` the other commands.
"""

from pathlib import Path
from types import ModuleType
from typing import Annotated

import typer

_EPILOG = (
    "Exit codes: 0 success; 1 failure or problem found; 2 wrong usage; 3 a run waits for a person; 130 interrupted."
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
    """A server that runs AI agents for other programs, and its command line.

    Commands use the server at --url or HOLDFAST_URL, or the one that uses the data folder, or start a temporary one.
    Results are written to standard output, everything else to standard error.
    """


@app.command()
def serve(
    host: Annotated[str | None, typer.Option(help="Address to listen on (HOLDFAST_HOST).")] = None,
    port: Annotated[int | None, typer.Option(help="Port to listen on; 0 selects a free one (HOLDFAST_PORT).")] = None,
    data_dir: Annotated[Path | None, typer.Option(help="Data folder (HOLDFAST_DATA_DIR).")] = None,
    database_url: Annotated[
        str | None, typer.Option(help="postgresql://... to use Postgres (HOLDFAST_DATABASE_URL).")
    ] = None,
    workspace: Annotated[
        Path | None, typer.Option(help="Folder of the workspace to serve (HOLDFAST_WORKSPACE).")
    ] = None,
    profile: Annotated[
        str | None, typer.Option(help="Profile that overrides the workspace's models (HOLDFAST_PROFILE).")
    ] = None,
    workers: Annotated[
        int | None, typer.Option(help="Processes that serve the port together; requires Postgres (HOLDFAST_WORKERS).")
    ] = None,
) -> None:
    """Start the server."""
    import gc
    import os
    import sys

    # Objects created during the start are permanent, so collecting garbage would only delay it. `serve` enables it.
    gc.disable()
    # structlog would load rich for coloured tracebacks, which a server's log does not have.
    loaded: dict[str, ModuleType | None] = sys.modules  # type: ignore[assignment]  # None: cannot be imported
    hidden = loaded.setdefault("rich", None) is None
    import structlog  # noqa: F401

    if hidden:
        del loaded["rich"]

    from app.cli.loop import run_loop
    from app.core.settings import Settings

    async def work() -> None:
        settings = Settings.load(
            os.environ,
            host=host,
            port=port,
            data_dir=data_dir,
            database_url=database_url,
            workspace=workspace,
            profile=profile,
            workers=workers,
        )
        if settings.workers > 1:
            from app.cli.supervisor import supervise

            await supervise(settings)
        else:
            from app.cli.serve import serve as serve_forever

            await serve_forever(settings)

    run_loop(work())
