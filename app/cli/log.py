"""`holdfast log`: export, import, verify, replay and tail a thread's log.

Uses the server at `--url` or the one that uses the data folder. If none is running, it opens the database. Logs are
verified and replayed here, from exported bytes, without trusting the server.
"""

import contextlib
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import IO, TYPE_CHECKING, Annotated

import typer

from app.cli.loop import run_loop

if TYPE_CHECKING:
    from contextlib import AbstractAsyncContextManager

    from app.cli.log_access import LogAccess
    from app.events.chain import Broken, Head
    from app.protocols.dialects.native import Export

app = typer.Typer(no_args_is_help=True, help="The event log: export, import, verify, replay, tail.")

Thread = Annotated[str, typer.Argument(help="A thread's id, or the path of an exported file.")]
DataDir = Annotated[Path | None, typer.Option(help="Data folder with the SQLite database.")]
DatabaseUrl = Annotated[str | None, typer.Option(help="URL of a Postgres database (postgresql://...).")]
Url = Annotated[str | None, typer.Option(help="URL of the server (HOLDFAST_URL).", show_default=False)]
Key = Annotated[str | None, typer.Option(help="API key (HOLDFAST_API_KEY).", show_default=False)]


def _read_file(path: Path) -> "Export | None":
    from app.protocols.dialects.native import read_export

    return read_export(path.read_bytes().splitlines()) if path.is_file() else None


def _open(
    thread: str | None, data_dir: Path | None, database_url: str | None, url: str | None, key: str | None
) -> "AbstractAsyncContextManager[LogAccess | None]":
    """The log, or None if `thread` is an exported file, which needs neither a server nor a database."""
    from app.cli.log_access import open_log

    if thread is not None and Path(thread).is_file():
        return contextlib.nullcontext()
    return open_log(data_dir, database_url, url, key)


async def _load(access: "LogAccess | None", thread: str) -> "Export":
    from app.protocols.dialects.native import read_export

    file = _read_file(Path(thread))
    if file is not None:
        return file
    assert access is not None, "only a file needs none"
    return read_export([line async for line in access.export(thread, "native")])


async def _verify(access: "LogAccess | None", thread: str, expected: "Head | None") -> "Head | Broken":
    from app.events.chain import Broken, ChainCheck, verify
    from app.protocols.dialects.native import ExportInvalid

    try:
        export = await _load(access, thread)
    except ExportInvalid as invalid:
        # A line that cannot be read is a bad event; one before it may be the first.
        before = ChainCheck()
        before.feed(invalid.before)
        return before.broken or Broken(before.seq + 1, invalid.reason)
    return verify(export.events, expected or export.head)


def head_option(head: str | None) -> "Head | None":
    """The head that an option gives as SEQ:HASH."""
    from app.events.chain import Head

    if head is None:
        return None
    seq, _, digest = head.partition(":")
    if not seq.isdigit() or len(digest) != 64:
        raise typer.BadParameter("The head must be SEQ:HASH.", param_hint="--head")
    return Head(int(seq), digest)


@contextlib.contextmanager
def _sink(output: Path | None) -> Iterator[IO[bytes]]:
    """Standard output, or a file that gets its name only when it is complete."""
    if output is None:
        yield sys.stdout.buffer
        return
    part = output.with_name(output.name + ".part")
    try:
        with part.open("wb") as sink:
            yield sink
        part.replace(output)
    finally:
        part.unlink(missing_ok=True)


@app.command("export")
def export_command(
    thread: Annotated[str, typer.Argument(help="The thread's id.")],
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="File to write. Default: standard output.")
    ] = None,
    format: Annotated[str, typer.Option(help="native, or agent-os for Agent OS Runtime (.events.jsonl).")] = "native",
    data_dir: DataDir = None,
    database_url: DatabaseUrl = None,
    url: Url = None,
    key: Key = None,
) -> None:
    """Export the log of a thread as JSON lines; the last line is the head of its hash chain."""
    from app.cli.log_access import open_log

    async def work() -> None:
        async with open_log(data_dir, database_url, url, key) as access:
            with _sink(output) as sink:
                async for line in access.export(thread, format):
                    sink.write(line + b"\n")

    if format not in ("native", "agent-os"):
        raise typer.BadParameter("The format must be native or agent-os.", param_hint="--format")
    run_loop(work())


@app.command("import")
def import_command(
    file: Annotated[Path, typer.Argument(exists=True, dir_okay=False, help="A file written by `log export`.")],
    data_dir: DataDir = None,
    database_url: DatabaseUrl = None,
) -> None:
    """Import an exported thread into this database with its hashes. With SQLite, the server must be stopped."""
    from app.cli.log_access import open_log
    from app.protocols.dialects.native import read_export

    async def work() -> None:
        export = read_export(file.read_bytes().splitlines())
        async with open_log(data_dir, database_url, own=True) as access:
            head = await access.put(export)
            typer.echo(f"imported {head.seq - head.dropped} events, head {head.hash}")

    run_loop(work())


@app.command("verify")
def verify_command(
    thread: Annotated[
        str | None, typer.Argument(help="A thread's id or an exported file. Default: every thread.")
    ] = None,
    head: Annotated[str | None, typer.Option(help="SEQ:HASH of an earlier export, to detect a truncated log.")] = None,
    data_dir: DataDir = None,
    database_url: DatabaseUrl = None,
    url: Url = None,
    key: Key = None,
) -> None:
    """Verify the hash chain, and report the first event that breaks it. The exit code is then 1."""
    from app.events.chain import Broken

    expected = head_option(head)
    bad = 0

    async def work() -> None:
        nonlocal bad
        async with _open(thread, data_dir, database_url, url, key) as access:
            if thread is not None:
                names = [thread]
            else:
                assert access is not None, "only a file needs none"
                names = [name async for name in access.threads()]
            for name in names:
                found = await _verify(access, name, expected)
                if isinstance(found, Broken):
                    bad += 1
                    typer.echo(f"{name}: CHAIN_BROKEN at seq {found.seq}: {found.reason}")
                else:
                    dropped = f", {found.dropped} deltas dropped by retention" if found.dropped else ""
                    kept = found.seq - found.dropped
                    typer.echo(f"{name}: {kept} events{dropped}, chain intact, head {found.seq}:{found.hash}")

    run_loop(work())
    if bad:
        raise typer.Exit(1)


@app.command("replay")
def replay_command(
    thread: Thread, data_dir: DataDir = None, database_url: DatabaseUrl = None, url: Url = None, key: Key = None
) -> None:
    """Compute the state from the log and print it: thread, runs, interrupts, transcript, artifacts."""
    from app.core import json
    from app.views.records import records_json, replay

    async def work() -> None:
        async with _open(thread, data_dir, database_url, url, key) as access:
            events = (await _load(access, thread)).events
            name = events[0].thread_id if events else thread
            sys.stdout.buffer.write(json.pretty(records_json(replay(name, events))))

    run_loop(work())


@app.command("tail")
def tail_command(
    thread: Annotated[str, typer.Argument(help="The thread's id.")],
    after: Annotated[int, typer.Option(min=0, help="Start after this event number (seq).")] = 0,
    follow: Annotated[bool, typer.Option("--follow/--no-follow", "-f", help="Wait for new events.")] = False,
    data_dir: DataDir = None,
    database_url: DatabaseUrl = None,
    url: Url = None,
    key: Key = None,
) -> None:
    """Print the events of a thread, one per line; with -f, also new ones as they arrive."""
    from app.cli.log_access import open_log

    async def work() -> None:
        async with open_log(data_dir, database_url, url, key) as access:
            async for event in access.events(thread, after, follow):
                typer.echo(f"{event['seq']:>6}  {event['at']}  {event['type']:<36} {_brief(event['payload'])}")

    run_loop(work())


def _brief(payload: object) -> str:
    from app.core import json

    text = json.dumps(payload).decode()
    return text if len(text) <= 120 else text[:119] + "…"
