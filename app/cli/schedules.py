"""`holdfast schedules`: lists schedules, pauses and resumes them, and runs one now."""

from typing import Annotated

import typer

from app.cli.command_session import CommandSession, server_command

app = typer.Typer(no_args_is_help=True, help="Schedules: list, show, pause, resume, run.")

ScheduleName = Annotated[str, typer.Argument(metavar="SCHEDULE", help="The schedule's name.")]


@app.command("list")
@server_command
async def list_schedules(session: CommandSession) -> None:
    """List schedules with their next time."""
    session.table(
        (await session.client.get("/api/schedules"))["items"],
        {
            "schedule": lambda one: one["name"],
            "when": lambda one: one["cron"] or one["at"] or f"every {one['everySeconds']:g} s",
            "zone": lambda one: one["timezone"],
            "state": lambda one: "paused" if one["paused"] else "active" if one["enabled"] else "disabled",
            "last": lambda one: one["lastDueAt"] or "",
            "next": lambda one: one["next"][0] if one["next"] else "",
        },
    )


@app.command("show")
@server_command
async def show_schedule(
    session: CommandSession,
    schedule: ScheduleName,
    count: Annotated[int, typer.Option(min=0, max=100, help="How many of the next times.")] = 5,
) -> None:
    """Show a schedule and when it is due next."""
    from app.cli.client import path_of

    found = await session.client.get(path_of("schedules", schedule), count=count)
    session.record(found, quiet="\n".join(found["next"]))


@app.command("pause")
@server_command
async def pause_schedule(session: CommandSession, schedule: ScheduleName) -> None:
    """Pause a schedule. What becomes due meanwhile is not made up for."""
    await _act(session, schedule, "pause", "is paused")


@app.command("resume")
@server_command
async def resume_schedule(session: CommandSession, schedule: ScheduleName) -> None:
    """Resume a paused schedule."""
    await _act(session, schedule, "resume", "is active")


@app.command("run")
@server_command
async def run_schedule(session: CommandSession, schedule: ScheduleName) -> None:
    """Run what the schedule runs, now. Prints the run's id."""
    from app.cli.client import path_of

    run = await session.client.post(f"{path_of('schedules', schedule)}/run")
    session.result(run, run["id"])


async def _act(session: CommandSession, schedule: str, action: str, words: str) -> None:
    from app.cli.client import path_of

    found = await session.client.post(f"{path_of('schedules', schedule)}/{action}")
    session.result(found, schedule if session.quiet else f"{schedule} {words}")
