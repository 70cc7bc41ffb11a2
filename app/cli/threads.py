"""`holdfast threads`: conversations; listed, shown, deleted, forked."""

from typing import Annotated

import typer

from app.cli.session import Session, talks

app = typer.Typer(no_args_is_help=True, help="Threads: list, show, delete, fork.")

ThreadId = Annotated[str, typer.Argument(metavar="THREAD", help="The thread's id.")]


@app.command("list")
@talks
async def list_threads(
    session: Session, limit: Annotated[int, typer.Option(min=1, help="At most so many.")] = 50
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
@talks
async def show_thread(session: Session, thread: ThreadId) -> None:
    """Show a thread as it stands."""
    from app.cli.client import path_of

    found = await session.client.get(path_of("threads", thread))
    session.record(found, quiet=found["status"])


@app.command("delete")
@talks
async def delete_thread(
    session: Session,
    thread: ThreadId,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
) -> None:
    """Delete a thread; this cannot be undone."""
    from app.cli.client import path_of

    if not yes:
        typer.confirm(f"Delete {thread} and everything in it?", abort=True, err=True)
    await session.client.call("DELETE", path_of("threads", thread))
    session.result({"id": thread, "deleted": True}, thread if session.quiet else f"{thread} is deleted")


@app.command("fork")
@talks
async def fork_thread(
    session: Session,
    thread: ThreadId,
    seq: Annotated[int | None, typer.Option(min=1, help="Up to this event; all of it if absent.")] = None,
) -> None:
    """Start a new thread with the history of this one."""
    from app.cli.client import path_of

    body = {} if seq is None else {"seq": seq}
    forked = await session.client.post(f"{path_of('threads', thread)}/fork", body)
    session.result(forked, forked["id"])
