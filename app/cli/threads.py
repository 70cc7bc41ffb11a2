"""`holdfast threads`: lists, shows, deletes and forks threads."""

from typing import Annotated

import typer

from app.cli.command_session import CommandSession, server_command

app = typer.Typer(no_args_is_help=True, help="Threads: list, show, delete, fork.")

ThreadId = Annotated[str, typer.Argument(metavar="THREAD", help="The thread's id.")]


@app.command("list")
@server_command
async def list_threads(
    session: CommandSession, limit: Annotated[int, typer.Option(min=1, help="Maximum number of results.")] = 50
) -> None:
    """List threads."""
    found = [thread async for thread in session.client.pages("/api/threads", limit)]
    session.table(
        found,
        {
            "thread": lambda thread: thread["id"],
            "status": lambda thread: thread["status"],
            "events": lambda thread: thread["lastSeq"],
            "updated": lambda thread: thread["updatedAt"],
            "title": lambda thread: thread["title"] or "",
        },
    )


@app.command("show")
@server_command
async def show_thread(session: CommandSession, thread: ThreadId) -> None:
    """Show the current state of a thread."""
    from app.cli.client import path_of

    found = await session.client.get(path_of("threads", thread))
    session.record(found, quiet=found["status"])


@app.command("delete")
@server_command
async def delete_thread(
    session: CommandSession,
    thread: ThreadId,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask for confirmation.")] = False,
) -> None:
    """Delete a thread with its runs. This cannot be undone."""
    from app.cli.client import path_of

    if not yes:
        typer.confirm(f"Delete {thread} with all its runs?", abort=True, err=True)
    await session.client.call("DELETE", path_of("threads", thread))
    session.result({"id": thread, "deleted": True}, thread if session.quiet else f"{thread} is deleted")


@app.command("fork")
@server_command
async def fork_thread(
    session: CommandSession,
    thread: ThreadId,
    seq: Annotated[
        int | None, typer.Option(min=1, help="Copy the history up to this event number (seq). Default: all of it.")
    ] = None,
) -> None:
    """Create a thread with the history of this one."""
    from app.cli.client import path_of

    body = {} if seq is None else {"seq": seq}
    forked = await session.client.post(f"{path_of('threads', thread)}/fork", body)
    session.result(forked, forked["id"])
