"""`holdfast journal`: shows, exports and verifies the hash-linked journal of a run.

Verification happens here, from the exported log and the journal that the server gives, without trusting the server.
"""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from app.cli.command_session import CommandSession, server_command

if TYPE_CHECKING:
    from app.views.journal import JournalFault

app = typer.Typer(
    no_args_is_help=True, help="The journal of a run, which records what changed state: show, export, verify."
)

RunId = Annotated[str, typer.Argument(metavar="RUN", help="The run's id.")]


@app.command("show")
@server_command
async def show_journal(
    session: CommandSession,
    run: RunId,
    limit: Annotated[int, typer.Option(min=1, help="Maximum number of results.")] = 1000,
) -> None:
    """Show what a run changed, in order."""
    session.table(
        await _items(session, run, limit),
        {
            "seq": lambda item: item["seq"],
            "at": lambda item: item["at"],
            "actor": lambda item: item["actor"],
            "kind": lambda item: item["kind"],
            "hash": lambda item: item["hash"][:12],
        },
    )


@app.command("export")
@server_command
async def export_journal(
    session: CommandSession,
    run: RunId,
    output: Annotated[Path, typer.Option("--output", "-o", help="File to write.")] = Path("journal.jsonl"),
) -> None:
    """Write the journal of a run as JSON lines."""
    from app.core import json

    items = await _items(session, run)
    part = output.with_name(output.name + ".part")
    part.write_bytes(b"".join(json.dumps(item) + b"\n" for item in items))
    part.replace(output)
    session.result({"file": str(output), "items": len(items)}, str(output))


@app.command("verify")
@server_command
async def verify_journal(
    session: CommandSession,
    run: RunId,
    file: Annotated[
        Path | None, typer.Option(exists=True, dir_okay=False, help="A file written by `journal export`.")
    ] = None,
) -> None:
    """Verify the journal of a run against the thread's log, and that log. The exit code is 1 if anything differs."""
    from app.cli.client import path_of
    from app.core import json

    if file is None:
        items = await _items(session, run)
    else:
        try:
            items = [json.loads(line) for line in file.read_bytes().splitlines()]
        except json.JsonError:
            raise typer.BadParameter("The file is not a journal.", param_hint="--file") from None
    shown = await session.client.get(path_of("runs", run))
    fault = await journal_fault(session, run, shown["threadId"], items)
    if fault is not None:
        session.result(
            {"ok": False, "seq": fault.seq, "reason": fault.reason},
            f"{run}: differs at seq {fault.seq}: {fault.reason}",
        )
        raise typer.Exit(1)
    link = items[-1]["link"] if items else ""
    session.result({"ok": True, "items": len(items), "link": link}, f"{run}: {len(items)} items, intact, link {link}")


async def journal_fault(
    session: CommandSession, run: str, thread: str, items: list[dict[str, Any]]
) -> "JournalFault | None":
    from app.cli.client import path_of
    from app.events.chain import Broken, verify
    from app.protocols.dialects.native import ExportInvalid, read_export
    from app.views.journal import JournalFault, check_against_log, check_links

    fault = check_links(items)
    if fault is not None:
        return fault
    answer = await session.client.http.get(f"{path_of('threads', thread)}/export")
    try:
        export = read_export(answer.content.splitlines())
    except ExportInvalid as invalid:
        return JournalFault(len(invalid.before) + 1, f"the log cannot be read: {invalid.reason}")
    found = verify(export.events, export.head)
    if isinstance(found, Broken):
        return JournalFault(found.seq, f"the chain of the log is broken: {found.reason}")
    return check_against_log(run, items, export.events)


async def _items(session: CommandSession, run: str, limit: int | None = None) -> list[dict[str, Any]]:
    from app.cli.client import path_of

    found = session.client.pages(f"{path_of('runs', run)}/journal", limit)
    return [item async for item in found]
