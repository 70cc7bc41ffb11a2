"""`holdfast jobs`: lists, shows and cancels the runs on the queue."""

from typing import Annotated, Literal

import typer

from app.cli.command_session import CommandSession, server_command

app = typer.Typer(no_args_is_help=True, help="Jobs: list, show, cancel.")

JobId = Annotated[str, typer.Argument(metavar="JOB", help="The job's id, which is also the id of its run.")]


@app.command("list")
@server_command
async def list_jobs(
    session: CommandSession,
    status: Annotated[
        Literal["queued", "running", "waiting", "completed", "failed", "cancelled"] | None,
        typer.Option(help="Only jobs with this status."),
    ] = None,
    type_: Annotated[str | None, typer.Option("--type", help="Only jobs of this type.")] = None,
    priority: Annotated[
        Literal["interactive", "background"] | None, typer.Option(help="Only jobs with this priority.")
    ] = None,
    project: Annotated[str | None, typer.Option(help="Only jobs of this project.")] = None,
    limit: Annotated[int, typer.Option(min=1, help="Maximum number of results.")] = 50,
) -> None:
    """List jobs, the newest first."""
    given = {"status": status, "type": type_, "priority": priority, "projectId": project}
    found = [job async for job in session.client.pages("/api/jobs", limit, **given)]
    session.table(
        found,
        {
            "job": lambda job: job["id"],
            "type": lambda job: job["type"],
            "status": lambda job: job["status"],
            "priority": lambda job: job["priority"],
            "attempt": lambda job: f"{job['attempt']}/{job['maxAttempts']}",
            "due": lambda job: job["nextAttemptAt"] or job["notBefore"] or "",
            "created": lambda job: job["createdAt"],
        },
    )


@app.command("show")
@server_command
async def show_job(session: CommandSession, job: JobId) -> None:
    """Show a job with the history of its attempts."""
    from app.cli.client import path_of

    found = await session.client.get(path_of("jobs", job))
    session.record(found, quiet=found["status"])


@app.command("cancel")
@server_command
async def cancel_job(session: CommandSession, job: JobId) -> None:
    """Cancel a job. A job that has ended does not change."""
    from app.cli.client import path_of

    found = await session.client.post(f"{path_of('jobs', job)}/cancel")
    session.result(found, found["status"] if session.quiet else f"{job} is {found['status']}")
