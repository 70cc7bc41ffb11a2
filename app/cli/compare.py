"""`holdfast compare`: runs one workspace through every installed backend and says where they differ."""

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from app.wiring.comparison import CompareCase


def compare(
    workspace: Annotated[Path, typer.Argument(help="Folder of the workspace, with the cases in compare.json.")],
    agents: Annotated[str | None, typer.Option("--agents", help="Only these agents, separated by commas.")] = None,
    backends: Annotated[
        str | None, typer.Option("--backends", help="Only these backends, separated by commas. Default: all installed.")
    ] = None,
    repeat: Annotated[int, typer.Option("--repeat", min=1, max=10_000, help="Runs of each case on each backend.")] = 20,
    text: Annotated[
        str | None, typer.Option("--input", help="Send this to each agent instead of the cases of the workspace.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Run one workspace through every installed backend and compare success, tool calls, speed and output."""
    from app.cli.loop import run_loop
    from app.core import json
    from app.wiring.comparison import comparable
    from app.wiring.comparison import compare as run_all

    chosen = _names(backends) or comparable()
    unknown = [name for name in chosen if name not in comparable()]
    if unknown:
        installed = ", ".join(comparable())
        typer.echo(f"Not installed: {', '.join(unknown)}. Backends that can be compared here: {installed}.", err=True)
        raise typer.Exit(2)
    cases = _cases(workspace, _names(agents), text)
    report: dict[str, Any] = {}

    async def work() -> None:
        report.update(await run_all(workspace, cases, chosen, repeat, _progress))

    _quiet()
    run_loop(work())
    if as_json:
        sys.stdout.write(json.pretty(report).decode())
    else:
        _print(report)
    raise typer.Exit(0 if all(each["successRate"] == 1 for each in report["backends"]) else 1)


def _names(text: str | None) -> list[str]:
    return [name.strip() for name in text.split(",") if name.strip()] if text else []


def _cases(workspace: Path, agents: list[str], text: str | None) -> "list[CompareCase]":
    from app.core.errors import Failure
    from app.wiring.comparison import CompareCase, read_cases

    if text is not None:
        return [CompareCase(agent, text) for agent in agents or _agents(workspace)]
    cases = read_cases(workspace, agents)
    if isinstance(cases, Failure):
        typer.echo(f"{cases.message} Write one, or use --input.", err=True)
        raise typer.Exit(2)
    if not cases:
        typer.echo("No case is left to run: check --agents and compare.json.", err=True)
        raise typer.Exit(2)
    return cases


def _agents(workspace: Path) -> list[str]:
    from app.cli.check import check_folder
    from app.wiring.kinds import kind_catalog
    from app.workspace.compiled import Compiled

    result = check_folder(workspace, kind_catalog(), None)
    if not isinstance(result, Compiled):
        typer.echo(f"The workspace has mistakes; see: holdfast check {workspace}", err=True)
        raise typer.Exit(1)
    return sorted(result.workspace.agents)


def _quiet() -> None:
    """The server's own log would drown the report."""
    import logging

    import structlog

    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.ERROR))


def _progress(backend: str, done: int, of: int) -> None:
    if sys.stderr.isatty():
        end = "\n" if done == of else ""
        sys.stderr.write(f"\r{backend}: {done} of {of} runs{end}")
        sys.stderr.flush()
    elif done == of:
        sys.stderr.write(f"{backend}: {of} runs\n")


def _print(report: dict[str, Any]) -> None:
    from rich.console import Console
    from rich.table import Table

    console = Console()
    table = Table(title=f"{report['workspace']}: {report['repeat']} runs of each case")
    for heading in ("backend", "success", "arguments", "skill", "mean ms", "CPU ms", "output", "what it did"):
        table.add_column(heading)
    for each in report["backends"]:
        first = each["cases"][0]
        rates = (each["successRate"], each["toolArgumentMatchRate"], each["skillResolutionRate"])
        table.add_row(
            each["backend"],
            *("-" if rate is None else f"{rate:.0%}" for rate in rates),
            f"{each['meanMs']:.1f}",
            f"{each['meanCpuMs']:.1f}",
            first["outputShape"],
            " ".join(first["traceNodes"]),
        )
    console.print(table)
    for found in report["differences"]:
        console.print(f"\n{found['agent']}, {found['input']!r}: [bold]{found['what']}[/bold] differs", highlight=False)
        for group in found["values"]:
            console.print(f"  {', '.join(group['backends'])}: {group['value']}", highlight=False, markup=False)
