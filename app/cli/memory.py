"""`holdfast memory`: search, list, store, change, decide, forget, export, reindex and purge what agents remember."""

from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from app.cli.command_session import CommandSession, server_command

app = typer.Typer(
    no_args_is_help=True, help="Memory: search, list, put, change, decide, forget, export, reindex, purge."
)

Status = Literal["proposed", "accepted", "rejected", "superseded", "forgotten"]
Memory = Annotated[str, typer.Argument(help="Name of the Memory document.")]
Agent = Annotated[str | None, typer.Option(help="Agent that fills the namespace.")]
User = Annotated[str | None, typer.Option(help="User that fills the namespace. Default: the caller.")]
Namespace = Annotated[str | None, typer.Option(help="Namespace, instead of --agent and --user.")]


@app.command("list")
@server_command
async def list_records(
    session: CommandSession,
    namespace: Annotated[str | None, typer.Option(help="Only records of this namespace.")] = None,
    user: Annotated[str | None, typer.Option(help="Only records about this user.")] = None,
    status: Annotated[Status | None, typer.Option(help="Only records with this status.")] = None,
) -> None:
    """List the records, oldest first."""
    pages = session.client.pages("/api/memory/records", None, namespace=namespace, user=user, status=status)
    _show(session, [one async for one in pages])


@app.command()
@server_command
async def search(
    session: CommandSession,
    memory: Memory,
    query: Annotated[str, typer.Argument(help="Words to search for.")],
    agent: Agent = None,
    user: User = None,
    namespace: Namespace = None,
    limit: Annotated[int, typer.Option(help="Maximum number of results.")] = 8,
) -> None:
    """Search a memory."""
    place = {"memory": memory, "namespace": namespace, "agent": agent, "user": user}
    found = await session.client.post("/api/memory/search", {**_given(place), "query": query, "limit": limit})
    _show(session, found["items"])


@app.command()
@server_command
async def show(
    session: CommandSession, record: Annotated[str, typer.Argument(metavar="ID", help="The record's id.")]
) -> None:
    """Show one record."""
    from app.cli.client import path_of

    session.record(await session.client.get(path_of("memory/records", record)), quiet=record)


@app.command()
@server_command
async def put(
    session: CommandSession,
    memory: Memory,
    text: Annotated[str, typer.Argument(help="What to remember.")],
    agent: Agent = None,
    user: User = None,
    namespace: Namespace = None,
    about: Annotated[str | None, typer.Option(help="What it is about. It supersedes a record about the same.")] = None,
) -> None:
    """Store a record."""
    body = {"memory": memory, "text": text, "namespace": namespace, "agent": agent, "user": user, "about": about}
    made = await session.client.post("/api/memory/records", _given(body))
    record = made["record"]["id"]
    session.result(made, record if session.quiet else f"{record} was {made['outcome']}: {made['reason']}")


@app.command()
@server_command
async def change(
    session: CommandSession,
    record: Annotated[str, typer.Argument(metavar="ID", help="The record's id.")],
    text: Annotated[str | None, typer.Option(help="New text: a new record, which supersedes this one.")] = None,
    confidence: Annotated[float | None, typer.Option(help="How certain it is, from 0 to 1.")] = None,
    expires: Annotated[str | None, typer.Option(help="When it is forgotten, such as 2030-01-31T00:00:00.000Z.")] = None,
) -> None:
    """Change a record."""
    from app.cli.client import path_of

    body = _given({"text": text, "confidence": confidence, "expiresAt": expires})
    changed = await session.client.call("PATCH", path_of("memory/records", record), body)
    session.record(changed, quiet=changed["id"])


@app.command()
@server_command
async def decide(
    session: CommandSession,
    record: Annotated[str, typer.Argument(metavar="ID", help="The id of the proposed record.")],
    decision: Annotated[Literal["accept", "reject"], typer.Argument(help="accept or reject the candidate.")],
    reason: Annotated[str | None, typer.Option(help="Reason of the decision.")] = None,
) -> None:
    """Accept or reject a candidate. The first answer counts."""
    from app.cli.client import path_of

    body = _given({"decision": decision, "reason": reason})
    decided = await session.client.post(f"{path_of('memory/records', record)}/decide", body)
    session.result(decided, record if session.quiet else f"{record} is {decided['status']}")


@app.command()
@server_command
async def forget(
    session: CommandSession,
    records: Annotated[list[str] | None, typer.Argument(metavar="ID...", help="The ids of records.")] = None,
    user: Annotated[str | None, typer.Option(help="Everything about this user.")] = None,
    namespace: Annotated[str | None, typer.Option(help="Everything in this namespace.")] = None,
    query: Annotated[
        str | None,
        typer.Option(help="What these words find in --memory; --agent, --user or --namespace then say where."),
    ] = None,
    memory: Annotated[str | None, typer.Option(help="Name of the Memory document for --query.")] = None,
    agent: Annotated[str | None, typer.Option(help="Agent that fills the namespace for --query.")] = None,
) -> None:
    """Forget records: their text is deleted at once, a tombstone stays."""
    body: dict[str, Any] = {"records": records or None, "user": user, "namespace": namespace}
    if (query is None) != (memory is None):
        raise typer.BadParameter("--query and --memory are given together")
    if query is not None:
        place = {"memory": memory, "agent": agent, "user": user, "namespace": namespace, "query": query}
        body = {"records": records or None, "search": _given(place)}
    body = _given(body)
    gone = (await session.client.post("/api/memory/forget", body))["forgotten"]
    session.result({"forgotten": gone}, "\n".join(gone) if session.quiet else f"{len(gone)} records were forgotten")


@app.command()
@server_command
async def export(
    session: CommandSession, user: Annotated[str, typer.Argument(help="The user whose records are exported.")]
) -> None:
    """Export everything about one user as JSON lines."""
    from app.core import json

    async for one in session.client.pages("/api/memory/export", None, user=user):
        typer.echo(json.dumps(one).decode())


@app.command()
@server_command
async def reindex(session: CommandSession) -> None:
    """Rebuild the search index from the records."""
    counts = (await session.client.post("/api/memory/reindex", {}))["counts"]
    session.result({"counts": counts}, f"{counts.get('indexed', 0)} records were indexed")


@app.command()
def purge(
    data_dir: Annotated[Path | None, typer.Option(help="Data folder with the SQLite database.")] = None,
    database_url: Annotated[str | None, typer.Option(help="URL of a Postgres database (postgresql://...).")] = None,
) -> None:
    """Remove what forgotten records left in unused parts of the database files.

    Forgetting deletes the text at once, but a database overwrites deleted data only later. On SQLite, the server must
    be stopped; the whole database is rewritten. On Postgres, the tables that held texts are rewritten.
    """
    import os

    from app.cli.loop import run_loop
    from app.core.settings import Settings
    from app.wiring.upkeep import purge_memory

    async def work() -> None:
        settings = Settings.load(os.environ, data_dir=data_dir, database_url=database_url)
        typer.echo(await purge_memory(settings))

    run_loop(work())


def _given(body: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in body.items() if value is not None}


def _show(session: CommandSession, found: list[dict[str, Any]]) -> None:
    session.table(
        found,
        {
            "id": lambda one: one["id"],
            "status": lambda one: one["status"],
            "namespace": lambda one: one["namespace"],
            "source": lambda one: one["source"],
            "text": lambda one: one["text"] or "",
        },
    )
