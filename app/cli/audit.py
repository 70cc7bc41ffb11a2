"""`holdfast audit`: checks for every run of a thread whether its log is complete, and lists missing events.

It uses only the exported events. The hooks of a workspace are not in the log; their decisions are checked as far as
other events prove them.
"""

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from app.cli.loop import run_loop


def audit(
    thread: Annotated[str, typer.Argument(help="A thread's id, or the path of an exported file.")],
    run: Annotated[str | None, typer.Option(help="Only this run.")] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    data_dir: Annotated[Path | None, typer.Option(help="Data folder with the SQLite database.")] = None,
    database_url: Annotated[str | None, typer.Option(help="URL of a Postgres database (postgresql://...).")] = None,
    url: Annotated[str | None, typer.Option(help="URL of the server (HOLDFAST_URL).", show_default=False)] = None,
    key: Annotated[str | None, typer.Option(help="API key (HOLDFAST_API_KEY).", show_default=False)] = None,
) -> None:
    """Check that the log of each run is complete. The exit code is 1 if events are missing."""
    from app.cli.log_access import open_log
    from app.core import json
    from app.events.catalog.log import LogCompacted
    from app.events.envelope import Event
    from app.protocols.dialects.native import read_export
    from app.views.audit import audit as audit_run
    from app.views.dropped import dropped_numbers

    found: dict[str, dict[str, Any]] = {}
    file = Path(thread).read_bytes().splitlines() if Path(thread).is_file() else None

    async def work() -> None:
        lines = file
        if lines is None:
            async with open_log(data_dir, database_url, url, key) as access:
                lines = [line async for line in access.export(thread, "native")]
        by_run: dict[str, list[Event]] = {}
        events = read_export(lines).events
        compactions = [event for event in events if event.type == LogCompacted.type]
        for event in events:
            if event.run_id is not None and run in (None, event.run_id):
                by_run.setdefault(event.run_id, []).append(event)
        for run_id, own in by_run.items():
            found[run_id] = audit_run(own, dropped=dropped_numbers(compactions, run_id)).to_json()

    run_loop(work())
    if as_json:
        sys.stdout.buffer.write(json.pretty({"runs": found}))
    else:
        for run_id, report in found.items():
            typer.echo(_text(run_id, report))
    if not found:
        typer.echo("There is no such run.", err=True)
    if not found or not all(report["complete"] for report in found.values()):
        raise typer.Exit(1)


def _text(run_id: str, report: dict[str, Any]) -> str:
    count = sum(report["counts"].values())
    if report["complete"]:
        return f"{run_id}: {count} events, complete"
    lines = [f"{run_id}: {count} events, incomplete"]
    for missing in report["missing"]:
        name, subject = missing["type"] or "event", missing["subject"] or ""
        lines.append(f"  {name} {subject}: {missing['reason']}")
    return "\n".join(lines)
