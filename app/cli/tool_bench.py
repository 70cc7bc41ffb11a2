"""`holdfast tool-bench`: how well a model calls tools, and what the guard makes of its mistakes."""

import os
import sys
from pathlib import Path
from typing import Annotated, Any

import typer


def tool_bench(
    workspace: Annotated[Path, typer.Argument(help="Folder of the workspace, with the cases in tool-bench.json.")],
    model: Annotated[
        str | None, typer.Option("--model", help="Model of the workspace. Default: the default agent's.")
    ] = None,
    cases: Annotated[int, typer.Option("--cases", min=1, max=10_000, help="The most cases to ask.")] = 50,
    file: Annotated[Path | None, typer.Option("--file", help="Cases to use instead of the workspace's.")] = None,
    profile: Annotated[
        str | None, typer.Option("--profile", envvar="HOLDFAST_PROFILE", help="Profile that overrides the models.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Ask a model to call tools and count exact, repaired, accepted and refused calls, with repair on and off."""
    from app.cli.check import check_folder
    from app.cli.loop import run_loop
    from app.core import json
    from app.core.errors import Failure
    from app.core.settings import Settings
    from app.wiring.kinds import kind_catalog
    from app.wiring.tool_bench import CASES_FILE, bench_tools, read_cases
    from app.workspace.compiled import Compiled

    compiled = check_folder(workspace, kind_catalog(), profile)
    if not isinstance(compiled, Compiled):
        raise _stop(f"The workspace has mistakes; see: holdfast check {workspace}", 1)
    chosen = model or _default_model(compiled.workspace)
    if chosen is None or chosen not in compiled.workspace.models:
        raise _stop(
            f"The workspace has no model {chosen!r}. Models: {', '.join(sorted(compiled.workspace.models))}.", 2
        )
    found = read_cases(file or workspace / CASES_FILE, cases)
    if isinstance(found, Failure):
        raise _stop(found.message, 2)
    report: dict[str, Any] = {}

    async def work() -> None:
        settings = Settings.load(os.environ, workspace=workspace)
        result = await bench_tools(compiled.workspace, settings, chosen, found, _progress)
        if isinstance(result, Failure):
            raise _stop(f"{result.code}: {result.message}", 1)
        report.update(result)

    run_loop(work())
    if as_json:
        sys.stdout.write(json.pretty(report).decode())
    else:
        _print(report)


def _stop(message: str, code: int) -> typer.Exit:
    typer.echo(message, err=True)
    return typer.Exit(code)


def _default_model(workspace: Any) -> str | None:
    agent = workspace.agents.get(workspace.default_agent)
    plan = agent.model_plan if agent is not None else None
    return plan.primary if plan is not None else next(iter(sorted(workspace.models)), None)


def _progress(done: int, of: int) -> None:
    if sys.stderr.isatty():
        sys.stderr.write(f"\rasked {done} of {of}" + ("\n" if done == of else ""))
        sys.stderr.flush()


def _print(report: dict[str, Any]) -> None:
    from rich.console import Console
    from rich.table import Table

    table = Table(title=f"{report['model']}: {report['cases']} cases")
    columns = ("exact", "repaired", "accepted", "refused")
    for heading in ("calls", "number", "repair", *columns, "bad, no guard", "bad, guard"):
        table.add_column(heading, no_wrap=heading == "calls")
    natural = report["natural"]
    rows = [("natural", natural["asked"], natural)]
    rows += [(kind, fault["injected"], fault) for kind, fault in report["faults"].items()]
    for name, number, figures in rows:
        bad = figures["badExecutions"]
        for repair, key in (("off", "repairOff"), ("on", "repairOn")):
            first = repair == "off"
            table.add_row(
                name if first else "",
                str(number) if first else "",
                repair,
                *(str(figures[key][column]) for column in columns),
                str(bad["withoutGuard"]) if first else "",
                str(bad["withGuard"]) if first else "",
            )
    console = Console()
    console.print(table)
    if natural["withoutCall"] or natural["modelFailed"]:
        console.print(f"{natural['withoutCall']} answers without a call, {natural['modelFailed']} failed model calls.")
