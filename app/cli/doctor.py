"""`holdfast doctor`: checks everything a server needs, and says how to fix problems."""

from pathlib import Path
from typing import Annotated

import typer

_STYLES = {"ok": ("✓", "green"), "warning": ("!", "yellow"), "wrong": ("✗", "red")}


def doctor(
    data_dir: Annotated[Path | None, typer.Option(help="Data folder with the SQLite database.")] = None,
    database_url: Annotated[str | None, typer.Option(help="URL of a Postgres database (postgresql://...).")] = None,
    workspace: Annotated[Path | None, typer.Option(help="Folder of the workspace.")] = None,
    profile: Annotated[str | None, typer.Option(help="Profile that overrides the workspace's models.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print only problems.")] = False,
) -> None:
    """Check settings, database, migrations, workspace, providers, disk, clock, limits and sandbox; change nothing.

    The exit code is 1 if something is wrong, but not for warnings.
    """
    import os

    from app.cli.checkup import CheckResult, examine
    from app.cli.command_session import print_json
    from app.cli.loop import run_loop
    from app.core.settings import Settings, SettingsError

    found: list[CheckResult] = []

    async def work() -> None:
        try:
            settings = Settings.load(
                os.environ, data_dir=data_dir, database_url=database_url, workspace=workspace, profile=profile
            )
        except SettingsError as error:
            remedy = "See docs/configuration.md for all settings."
            found.extend(CheckResult("settings", "wrong", one, remedy) for one in error.failure.detail["problems"])
        else:
            found.extend(await examine(settings, os.environ))

    run_loop(work())
    bad = [one for one in found if one.level == "wrong"]
    if as_json:
        print_json({"ok": not bad, "findings": [one.as_json() for one in found]})
    else:
        for one in found:
            if not quiet or one.level != "ok":
                _print(one.about, one.level, one.message, one.remedy)
    if bad:
        raise typer.Exit(1)


def _print(about: str, level: str, message: str, remedy: str | None) -> None:
    mark, colour = _STYLES[level]
    typer.echo(f"{typer.style(mark, fg=colour)} {about:<11} {message}")
    if remedy is not None:
        typer.echo(f"  {'':<11} {remedy}")
