"""The `holdfast` command with all its subcommands.

Exit codes: 0 success; 1 failure or problem found; 2 wrong usage; 3 the run waits for a person who cannot be asked here;
130 interrupted. Only small modules are imported here, so that `--help` and shell completion are fast.
"""

from pathlib import Path
from types import ModuleType
from typing import Annotated

import typer

from app.cli import (
    approvals,
    datasets,
    evals,
    evidence,
    extensions,
    jobs,
    journal,
    keys,
    log,
    mcp,
    memory,
    runs,
    schedules,
    skills,
    threads,
    tools,
    ui,
    webhooks,
    workflows,
)
from app.cli.agents import agents
from app.cli.audit import audit
from app.cli.backup import backup
from app.cli.chat import chat, run
from app.cli.check import check
from app.cli.compact import compact
from app.cli.compare import compare
from app.cli.doctor import doctor
from app.cli.new import new
from app.cli.partition import partition
from app.cli.tool_bench import tool_bench
from app.cli.undo import undo

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


app.command()(run)
app.command()(chat)
app.command()(agents)
app.add_typer(runs.app, name="runs")
app.command()(undo)
app.add_typer(jobs.app, name="jobs")
app.add_typer(schedules.app, name="schedules")
app.add_typer(webhooks.app, name="webhooks")
app.add_typer(extensions.app, name="extensions")
app.add_typer(mcp.app, name="mcp")
app.add_typer(threads.app, name="threads")
app.add_typer(approvals.app, name="approvals")
app.add_typer(tools.app, name="tools")
app.add_typer(workflows.app, name="workflows")
app.add_typer(memory.app, name="memory")
app.add_typer(skills.app, name="skills")
app.add_typer(log.app, name="log")
app.add_typer(journal.app, name="journal")
app.command()(audit)
app.add_typer(ui.app, name="ui")
app.add_typer(evidence.app, name="evidence")
app.add_typer(datasets.app, name="dataset")
app.add_typer(evals.app, name="eval")
app.add_typer(keys.app, name="keys")
app.command()(check)
app.command()(compare)
app.command(name="tool-bench")(tool_bench)
app.command()(new)
app.command()(doctor)
app.command()(backup)
app.command()(compact)
app.command()(partition)
