"""`holdfast doctor`: is everything there that a server needs, and what to do where it is not."""

from pathlib import Path
from typing import Annotated

import typer

_STYLES = {"ok": ("✓", "green"), "warning": ("!", "yellow"), "wrong": ("✗", "red")}


def doctor(
    data_dir: Annotated[Path | None, typer.Option(help="Folder of the embedded database.")] = None,
    database_url: Annotated[str | None, typer.Option(help="postgresql://... of a shared database.")] = None,
    workspace: Annotated[Path | None, typer.Option(help="Folder of the workspace.")] = None,
    profile: Annotated[str | None, typer.Option(help="Profile that overrides the workspace's models.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Print only what is wrong.")] = False,
) -> None:
    """Check settings, database, migrations, workspace, providers, disk, clock, limits and the sandbox; changes nothing.

    Exit code 1 when something is wrong; a warning is not.
    """
    import os

    from app.cli.checkup import Finding, examine
    from app.cli.loop import run_loop
    from app.cli.session import print_json
    from app.core.settings import Settings, SettingsError

    found: list[Finding] = []

    async def work() -> None:
        try:
            settings = Settings.load(
                os.environ, data_dir=data_dir, database_url=database_url, workspace=workspace, profile=profile
            )
        except SettingsError as error:
            remedy = "See docs/configuration.md; every variable that begins with HOLDFAST_ is checked."
            found.extend(Finding("settings", "wrong", one, remedy) for one in error.failure.detail["problems"])
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
