"""`holdfast evidence`: exports the evidence of a run or a thread as one file, and verifies such a file."""

from pathlib import Path
from typing import Annotated

import typer

from app.cli.command_session import CommandSession, server_command

app = typer.Typer(no_args_is_help=True, help="Evidence packs: export, verify.")


@app.command("export")
@server_command
async def export_evidence(
    session: CommandSession,
    name: Annotated[str, typer.Argument(metavar="RUN", help="The id of a run, or of a thread with --thread.")],
    output: Annotated[Path, typer.Option("--output", "-o", help="File to write.")] = Path("evidence.zip"),
    thread: Annotated[bool, typer.Option("--thread", help="RUN is the id of a thread.")] = False,
) -> None:
    """Export everything that the log says about a run as a ZIP archive."""
    from app.cli.client import expect_success, path_of

    part = output.with_name(output.name + ".part")
    try:
        address = f"{path_of('threads' if thread else 'runs', name)}/evidence"
        async with session.client.http.stream("GET", address) as answer:
            if answer.status_code >= 300:
                expect_success(answer.status_code, await answer.aread())
            with part.open("wb") as file:
                async for piece in answer.aiter_bytes():
                    file.write(piece)
        part.replace(output)
    finally:
        part.unlink(missing_ok=True)
    session.result({"file": str(output), "bytes": output.stat().st_size}, str(output))


@app.command("verify")
def verify_evidence(
    file: Annotated[Path, typer.Argument(exists=True, dir_okay=False, help="A file written by `evidence export`.")],
    head: Annotated[
        str | None, typer.Option(help="SEQ:HASH noted elsewhere, to detect a log that was rewritten.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Verify an evidence pack, and report the first thing that does not match. The exit code is then 1."""
    from app.cli.command_session import print_json
    from app.cli.log import head_option
    from app.protocols.dialects.evidence_check import Mismatch, verify_pack

    found = verify_pack(file, head_option(head))
    if isinstance(found, Mismatch):
        if as_json:
            print_json({"ok": False, "member": found.member, "reason": found.reason})
        else:
            typer.echo(f"{found.member}: {found.reason}")
        raise typer.Exit(1)
    if as_json:
        at = {"seq": found.head.seq, "hash": found.head.hash}
        print_json({"ok": True, "packId": found.pack_id, "scope": found.scope, "head": at, "complete": found.complete})
        return
    whole = "" if found.complete else " (some content is no longer stored)"
    typer.echo(f"{found.events} events, everything matches{whole}, head {found.head.seq}:{found.head.hash}")
