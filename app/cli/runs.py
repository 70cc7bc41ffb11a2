"""`holdfast runs`: lists, shows, follows and controls runs."""

import sys
from typing import Annotated, Literal

import typer

from app.cli.chat import ApproveOption, EventsOption
from app.cli.command_session import CommandSession, print_json, server_command

app = typer.Typer(no_args_is_help=True, help="Runs: list, show, watch, cancel, steer, pause, resume, rerun.")

RunId = Annotated[str, typer.Argument(metavar="RUN", help="The run's id.")]


@app.command("list")
@server_command
async def list_runs(
    session: CommandSession,
    status: Annotated[
        Literal["queued", "running", "waiting", "completed", "failed", "cancelled"] | None,
        typer.Option(help="Only runs with this status."),
    ] = None,
    agent: Annotated[str | None, typer.Option(help="Only runs of this agent.")] = None,
    limit: Annotated[int, typer.Option(min=1, help="Maximum number of results.")] = 50,
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
@server_command
async def show_run(session: CommandSession, run: RunId) -> None:
    """Show the current state of a run."""
    from app.cli.client import path_of

    found = await session.client.get(path_of("runs", run))
    session.record(found, quiet=found["status"])


@app.command("watch")
@server_command
async def watch_run(
    session: CommandSession, run: RunId, approve: ApproveOption = "ask", events: EventsOption = None
) -> None:
    """Show a run from its beginning until it ends; with --json, one event per line. Ctrl-C does not stop the run."""
    from app.cli.follower import Follower, first_seq, leave_with, patterns
    from app.cli.screen import Screen

    after = await first_seq(session, run) - 1
    screen = None if session.as_json else Screen(session.notes, await patterns(session, events))
    leave_with(session, await Follower(session, screen, approve).follow(run, after))


@app.command("cancel")
@server_command
async def cancel_run(session: CommandSession, run: RunId) -> None:
    """Cancel a run. A run that has ended does not change."""
    from app.cli.client import path_of

    found = await session.client.post(f"{path_of('runs', run)}/cancel")
    session.result(found, found["status"] if session.quiet else f"{run} {_cancel_state(found)}")


@app.command("steer")
@server_command
async def steer_run(
    session: CommandSession,
    run: RunId,
    text: Annotated[str, typer.Argument(help="The message; - reads it from standard input.")],
) -> None:
    """Send a message to a running run. It is included in the next model call."""
    said = sys.stdin.read() if text == "-" else text
    await _command(session, run, "steer", "will receive the message before its next model call", {"message": said})


@app.command("pause")
@server_command
async def pause_run(session: CommandSession, run: RunId) -> None:
    """Pause a run before its next step. Continue it with `runs resume`."""
    await _command(session, run, "pause", "will pause before its next step")


@app.command("resume")
@server_command
async def resume_run(session: CommandSession, run: RunId) -> None:
    """Continue a paused run."""
    await _command(session, run, "resume", "continues")
    if session.in_process:
        from app.cli.follower import follow_in_process

        await follow_in_process(session, run)


@app.command("rerun")
@server_command
async def rerun_run(
    session: CommandSession,
    run: RunId,
    recorded: Annotated[
        bool, typer.Option("--recorded", help="Use the workspace of the recorded run, not the current one.")
    ] = False,
    token: Annotated[str | None, typer.Option(help="The run's replay token: fail if the rerun would differ.")] = None,
    approve: ApproveOption = "ask",
    events: EventsOption = None,
) -> None:
    """Run the recorded input again, on a fork of the thread as it was before the run."""
    from app.cli.client import path_of
    from app.cli.follower import Follower, cancelling, first_seq, leave_with, patterns
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
    session: CommandSession, run: str, command: str, said: str, arguments: dict[str, str] | None = None
) -> None:
    from app.cli.client import path_of

    body = {"command": command, "arguments": arguments or {}}
    found = await session.client.post(f"{path_of('runs', run)}/commands", body)
    session.result(found, found["status"] if session.quiet else f"{run} {said}")


def _cancel_state(run: dict[str, object]) -> str:
    asked = run["cancelRequestedAt"] is not None and run["finishedAt"] is None
    return "will stop" if asked else f"is {run['status']}"
