"""`holdfast runs`: what ran, what runs, and how to stop it."""

import sys
from typing import Annotated, Literal

import typer

from app.cli.session import Session, print_json, talks
from app.cli.talk import ApproveOption, EventsOption

app = typer.Typer(no_args_is_help=True, help="Runs: list, show, watch, cancel, steer, pause, resume, rerun.")

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


@app.command("steer")
@talks
async def steer_run(
    session: Session, run: RunId, text: Annotated[str, typer.Argument(help="What to say; - reads standard input.")]
) -> None:
    """Say something to a run on its way; it reads it before its next model call."""
    said = sys.stdin.read() if text == "-" else text
    await _command(session, run, "steer", "is steered", {"message": said})


@app.command("pause")
@talks
async def pause_run(session: Session, run: RunId) -> None:
    """Pause a run at its next step; `runs resume` lets it go on."""
    await _command(session, run, "pause", "is asked to pause")


@app.command("resume")
@talks
async def resume_run(session: Session, run: RunId) -> None:
    """Let a paused run go on."""
    await _command(session, run, "resume", "goes on")
    if session.in_process:
        from app.cli.follow import see_to_its_rest

        await see_to_its_rest(session, run)


@app.command("rerun")
@talks
async def rerun_run(
    session: Session,
    run: RunId,
    recorded: Annotated[
        bool, typer.Option("--recorded", help="With the workspace of the recorded run, not the current one.")
    ] = False,
    token: Annotated[str | None, typer.Option(help="The run's replay token: refuse what would differ.")] = None,
    approve: ApproveOption = "ask",
    events: EventsOption = None,
) -> None:
    """Run the recorded input again, on a fork of its thread from just before it."""
    from app.cli.client import path_of
    from app.cli.follow import Follower, cancelling, first_seq, leave_with, patterns
    from app.cli.screen import Screen

    body = {"workspace": "recorded" if recorded else "current"} | ({} if token is None else {"token": token})
    again = await session.client.post(f"{path_of('runs', run)}/rerun", body)
    screen = Screen(session.notes, await patterns(session, events), answer=not session.as_json)
    session.notes.print(f"  {again['id']} on {again['threadId']}", style="dim")
    with cancelling(session, again["id"]):
        after = await first_seq(session, again["id"]) - 1
        ended = await Follower(session, screen, approve).follow(again["id"], after)
    if session.as_json:
        print_json(ended)
    leave_with(session, ended)


async def _command(
    session: Session, run: str, command: str, said: str, arguments: dict[str, str] | None = None
) -> None:
    from app.cli.client import path_of

    body = {"command": command, "arguments": arguments or {}}
    found = await session.client.post(f"{path_of('runs', run)}/commands", body)
    session.result(found, found["status"] if session.quiet else f"{run} {said}")


def _standing(run: dict[str, object]) -> str:
    asked = run["cancelRequestedAt"] is not None and run["finishedAt"] is None
    return "is asked to stop" if asked else f"is {run['status']}"
