"""`holdfast runs`: what ran, what runs, and how to stop it."""

from typing import Annotated, Literal

import typer

from app.cli.session import Session, talks
from app.cli.talk import ApproveOption, EventsOption

app = typer.Typer(no_args_is_help=True, help="Runs: list, show, watch, cancel.")

RunId = Annotated[str, typer.Argument(metavar="RUN", help="The run's id.")]


@app.command("list")
@talks
async def list_runs(
    session: Session,
    status: Annotated[
        Literal["queued", "running", "waiting", "completed", "failed", "cancelled"] | None,
        typer.Option(help="Only runs that stand so."),
    ] = None,
    agent: Annotated[str | None, typer.Option(help="Only runs of this agent.")] = None,
    limit: Annotated[int, typer.Option(min=1, help="At most so many.")] = 50,
) -> None:
    """List runs."""
    found = [run async for run in session.client.pages("/api/runs", limit, status=status, agent=agent)]
    session.table(
        found,
        {
            "run": lambda run: run["id"],
            "status": lambda run: run["status"],
            "agent": lambda run: run["agent"] or run["tool"] or "",
            "thread": lambda run: run["threadId"],
            "created": lambda run: run["createdAt"],
            "tokens": lambda run: run["usage"].get("inputTokens", 0) + run["usage"].get("outputTokens", 0),
        },
    )


@app.command("show")
@talks
async def show_run(session: Session, run: RunId) -> None:
    """Show a run as it stands."""
    from app.cli.client import path_of

    found = await session.client.get(path_of("runs", run))
    session.record(found, quiet=found["status"])


@app.command("watch")
@talks
async def watch_run(session: Session, run: RunId, approve: ApproveOption = "ask", events: EventsOption = None) -> None:
    """Show a run from its beginning and as it goes on; with --json, one event a line. Ctrl-C leaves it running."""
    from app.cli.follow import Follower, first_seq, leave_with, patterns
    from app.cli.screen import Screen

    after = await first_seq(session, run) - 1
    screen = None if session.as_json else Screen(session.notes, await patterns(session, events))
    leave_with(session, await Follower(session, screen, approve).follow(run, after))


@app.command("cancel")
@talks
async def cancel_run(session: Session, run: RunId) -> None:
    """Cancel a run; one that has ended stays as it is."""
    from app.cli.client import path_of

    found = await session.client.post(f"{path_of('runs', run)}/cancel")
    session.result(found, found["status"] if session.quiet else f"{run} {_standing(found)}")


def _standing(run: dict[str, object]) -> str:
    asked = run["cancelRequestedAt"] is not None and run["finishedAt"] is None
    return "is asked to stop" if asked else f"is {run['status']}"
