"""`holdfast eval`: runs an agent on a dataset and compares the scores; lists and shows evaluations."""

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

import typer

from app.cli.command_session import CommandSession, print_json, server_command

if TYPE_CHECKING:
    from app.core.json import JsonObject

app = typer.Typer(no_args_is_help=True, help="Evaluations: run, list, show.")

_LOOK_SECONDS: Final = 0.2
EvaluationId = Annotated[str, typer.Argument(metavar="EVALUATION", help="The evaluation's id.")]


@app.command("run")
@server_command
async def run_evaluation(
    session: CommandSession,
    dataset: Annotated[str, typer.Argument(metavar="DATASET", help="The dataset, or DATASET@VERSION.")],
    agent: Annotated[str, typer.Option(help="The agent to run on the cases.")],
    model_plan: Annotated[str | None, typer.Option(help="A model in place of the agent's.")] = None,
    gate: Annotated[
        list[str] | None,
        typer.Option(help="EVALUATOR or EVALUATOR>=SCORE; repeat for more. Default: the agent's gates."),
    ] = None,
    baseline: Annotated[str | None, typer.Option(help="An evaluation to compare with, or `latest`.")] = None,
    parallel: Annotated[int, typer.Option(min=1, max=64, help="Cases at the same time.")] = 4,
    cache: Annotated[bool, typer.Option(help="Use runs of earlier evaluations again if nothing changed.")] = True,
    html: Annotated[Path | None, typer.Option(help="Write the report as a page with plots to this file.")] = None,
) -> None:
    """Run an agent on every case of a dataset and score its answers. Exits with 1 if a score is below its threshold."""
    name, _, version = dataset.partition("@")
    body: JsonObject = {"dataset": name, "agent": agent, "parallel": parallel, "cache": cache}
    body |= {"version": _number(version)} if version else {}
    body |= {"modelPlan": model_plan} if model_plan else {}
    body |= {"gates": dict(_gate(text) for text in gate)} if gate else {}
    body |= {"baseline": baseline} if baseline else {}
    started = await session.client.post("/api/evals", body)
    await _wait(session, started["id"])
    report = await session.client.get(f"/api/evals/{started['id']}/results")
    if html is not None:
        await _save_page(session, started["id"], html)
    _print(session, report)
    if not report["passed"]:
        raise typer.Exit(1)


@app.command("list")
@server_command
async def list_evaluations(
    session: CommandSession, limit: Annotated[int, typer.Option(min=1, help="Maximum number of results.")] = 50
) -> None:
    """List evaluations, newest first."""
    found = [one async for one in session.client.pages("/api/evals", limit)]
    session.table(
        found,
        {
            "evaluation": lambda one: one["id"],
            "status": lambda one: one["status"] if one["passed"] is None else "passed" if one["passed"] else "failed",
            "dataset": lambda one: f"{one['dataset']}@{one['version']}",
            "agent": lambda one: one["agent"],
            "model": lambda one: one["modelPlan"] or "",
            "started": lambda one: one["startedAt"],
        },
    )


@app.command("show")
@server_command
async def show_evaluation(
    session: CommandSession,
    evaluation: EvaluationId,
    html: Annotated[Path | None, typer.Option(help="Write the report as a page with plots to this file.")] = None,
) -> None:
    """Show the scores of an evaluation."""
    report = await session.client.get(f"/api/evals/{evaluation}/results")
    if html is not None:
        await _save_page(session, evaluation, html)
    _print(session, report)


async def _wait(session: CommandSession, evaluation_id: str) -> None:
    """Shows progress on standard error until the evaluation has ended."""
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, console=session.notes, disable=session.quiet, transient=True) as progress:
        bar = progress.add_task("cases", total=None)
        while True:
            found = await session.client.get(f"/api/evals/{evaluation_id}")
            shown = found["progress"]
            if shown is not None:
                progress.update(bar, completed=shown["done"], total=shown["total"] or None)
            if found["status"] != "running":
                return
            await asyncio.sleep(_LOOK_SECONDS)


async def _save_page(session: CommandSession, evaluation_id: str, file: Path) -> None:
    from app.cli.client import expect_success

    answer = await session.client.http.get(f"/api/evals/{evaluation_id}/report")
    expect_success(answer.status_code, answer.content)
    await asyncio.to_thread(file.write_bytes, answer.content)
    session.notes.print(f"The report is in {file}.")


def _print(session: CommandSession, report: "JsonObject") -> None:
    if session.as_json:
        print_json(report)
        return
    if session.quiet:
        typer.echo("passed" if report["passed"] else "failed")
        return
    totals = report["totals"]
    typer.echo(
        f"{report['id']}: {report['agent']} on {report['dataset']}@{report['version']}, {totals['cases']} cases, "
        f"{totals['cached']} used again, {totals['costUsd']:.6f} USD"
    )
    rows = [{"evaluator": name, **found} for name, found in report["scores"].items()]
    session.table(
        rows,
        {
            "evaluator": lambda row: row["evaluator"],
            "mean": lambda row: f"{row['mean']:.3f}",
            "threshold": lambda row: f"{row['threshold']:.3f}",
            "pass rate": lambda row: f"{row['passRate']:.1%}",
            "no score": lambda row: row["errors"],
            "baseline": _baseline,
            "result": lambda row: "passed" if row["passed"] else "failed",
        },
    )


def _baseline(row: Any) -> str:
    before = row.get("baseline")
    return "" if before is None else f"{before['mean']:.3f} ({before['difference']:+.3f})"


def _gate(text: str) -> tuple[str, float]:
    name, given, score = text.partition(">=")
    if not given:
        return name.strip(), 1.0
    try:
        return name.strip(), float(score)
    except ValueError:
        raise typer.BadParameter(f"{text!r} is not EVALUATOR>=SCORE, such as polite>=0.9") from None


def _number(version: str) -> int:
    if not version.isdecimal():
        raise typer.BadParameter(f"{version!r} is not the number of a version")
    return int(version)
