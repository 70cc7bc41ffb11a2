"""`holdfast doctor`: checks everything a server needs, and says how to fix problems."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

if TYPE_CHECKING:
    from app.core.settings import Settings
    from app.wiring.checkup import CheckResult

_NETWORK_SECONDS: Final = 3.0
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

    from app.cli.command_session import print_json
    from app.cli.loop import run_loop
    from app.core.settings import Settings, SettingsError
    from app.wiring.checkup import CheckResult, examine

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
            found.extend(await _server(settings))
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


async def _server(settings: "Settings") -> "list[CheckResult]":
    """Check the server that uses the data folder, if any; with Postgres its URL is unknown."""
    import time

    from app.cli.client import open_client
    from app.core import json
    from app.wiring.checkup import CheckResult
    from app.wiring.upkeep import running_server

    running = running_server(settings)
    if running is None:
        return [CheckResult("server", "ok", "no server is using this data folder")]
    url = running.get("url")
    if url is None:
        return [
            CheckResult(
                "server",
                "warning",
                "a process uses the data folder but does not listen",
                "Wait until it has started, or find it with `fuser` on the folder's lock file.",
            )
        ]
    try:
        async with open_client(url, None) as client:
            started = time.time()
            answer = await client.get("/readyz", timeout=_NETWORK_SECONDS)
    except Exception as error:
        return [
            CheckResult(
                "server",
                "wrong",
                f"{url} does not respond: {type(error).__name__}",
                "Check its log. Stop it with SIGTERM and start it again.",
            )
        ]
    if answer.status_code != 200:
        code = json.loads(answer.content).get("code")
        return [CheckResult("server", "wrong", f"{url} is not ready: {code}", f"See docs/errors.md#{code}.")]
    took = (time.time() - started) * 1000
    return [CheckResult("server", "ok", f"{url} is ready, responded in {took:.0f} ms")]
