"""`holdfast check`: says everything that is wrong with a workspace, without a server."""

import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from app.wiring.connections import ConnectionAttempt
    from app.workspace.catalog import KindCatalog
    from app.workspace.compiled import Compiled
    from app.workspace.diagnostics import Diagnostics


def check(
    path: Annotated[Path | None, typer.Argument(help="Folder of the workspace. Default: the configured one.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    graph: Annotated[bool, typer.Option("--graph", help="Also print which document uses which.")] = False,
    profile: Annotated[
        str | None,
        typer.Option("--profile", envvar="HOLDFAST_PROFILE", help="Profile that overrides the models."),
    ] = None,
    connect: Annotated[
        bool, typer.Option("--connect", help="Also connect to the model providers, MCP servers and HTTP hosts.")
    ] = False,
) -> None:
    """Check a workspace and print every mistake with file, line and hint."""
    from app.core import json
    from app.core.settings import Settings
    from app.wiring.kinds import kind_catalog
    from app.workspace.compiled import Compiled

    folder = path if path is not None else Settings.load(os.environ).workspace
    result = check_folder(folder, kind_catalog(), profile)
    attempts = _connect(result) if connect and isinstance(result, Compiled) else []
    if as_json:
        report = report_json(folder, result, graph=graph)
        if connect:
            report["connections"] = [attempt.as_json() for attempt in attempts]
        sys.stdout.write(json.pretty(report).decode())
    else:
        typer.echo(report_text(folder, result, graph=graph, colour=sys.stdout.isatty()))
        if connect:
            typer.echo(_connections_text(result, attempts))
    good = isinstance(result, Compiled) and all(attempt.ok for attempt in attempts)
    raise typer.Exit(0 if good else 1)


def _connect(result: "Compiled") -> "list[ConnectionAttempt]":
    from app.cli.loop import run_loop
    from app.core.settings import Settings
    from app.wiring.connections import try_connections

    attempts: list[ConnectionAttempt] = []

    async def work() -> None:
        attempts.extend(await try_connections(result.workspace, Settings.load(os.environ), os.environ))

    run_loop(work())
    return attempts


def _connections_text(result: "Compiled | Diagnostics", attempts: "list[ConnectionAttempt]") -> str:
    from app.workspace.compiled import Compiled
    from app.workspace.diagnostics import printable

    if not isinstance(result, Compiled):
        return "No connection was tried, because the workspace has errors."
    if not attempts:
        return "There is nothing to connect to: the workspace has no remote model, MCP server or HTTP tool."
    return "\n".join(["", *(printable(attempt.as_text()) for attempt in attempts)])


def check_folder(folder: Path, catalog: "KindCatalog", profile: str | None) -> "Compiled | Diagnostics":
    from app.workspace.compile import compile
    from app.workspace.files import read_folder

    return compile(read_folder(folder), catalog, profile=profile)


def report_json(folder: Path, result: "Compiled | Diagnostics", *, graph: bool) -> dict[str, Any]:
    from app.workspace import graph as graphs
    from app.workspace.compiled import Compiled

    diagnostics = result.diagnostics if isinstance(result, Compiled) else result
    report: dict[str, Any] = {
        "workspace": str(folder),
        "ok": isinstance(result, Compiled),
        "digest": result.workspace.digest if isinstance(result, Compiled) else None,
        "errors": len(diagnostics.errors),
        "warnings": len(diagnostics.warnings),
        "diagnostics": diagnostics.as_json(),
    }
    if graph:
        report["graph"] = graphs.as_json(result.workspace) if isinstance(result, Compiled) else []
    return report


def report_text(folder: Path, result: "Compiled | Diagnostics", *, graph: bool, colour: bool) -> str:
    from app.workspace import graph as graphs
    from app.workspace.compiled import Compiled

    diagnostics = result.diagnostics if isinstance(result, Compiled) else result
    parts = [diagnostics.as_text(colour=colour)] if len(diagnostics) else []
    counts = f"{_count(len(diagnostics.errors), 'error')}, {_count(len(diagnostics.warnings), 'warning')}"
    if isinstance(result, Compiled):
        space = result.workspace
        if graph:
            parts.append(graphs.as_text(space))
        what = ", ".join(
            _count(len(found), word)
            for word, found in (
                ("agent", space.agents),
                ("model", space.models),
                ("tool", space.tools),
                ("skill", space.skills),
            )
        )
        parts.append(f"{folder} is good: {what}; {counts}\ndigest {space.digest}")
    else:
        parts.append(f"{folder} cannot be loaded: {counts}")
    return "\n\n".join(parts)


def _count(number: int, word: str) -> str:
    return f"{number} {word}" if number == 1 else f"{number} {word}s"
