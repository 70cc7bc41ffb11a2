"""`holdfast log`: export, import, verify, replay and tail a thread's log.

Talks to the server of `--url` or the one that holds the data folder, or opens the database itself when none does.
Verifying and replaying happen here, on exported bytes, so that they trust neither.
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

    from app.cli.access import LogAccess
    from app.events.chain import Broken, Head
    from app.protocols.dialects.native import Export

app = typer.Typer(no_args_is_help=True, help="The event log: export, import, verify, replay, tail.")

Thread = Annotated[str, typer.Argument(help="A thread's id, or the path of an exported file.")]
DataDir = Annotated[Path | None, typer.Option(help="Folder of the embedded database.")]
DatabaseUrl = Annotated[str | None, typer.Option(help="postgresql://... of a shared database.")]
Url = Annotated[str | None, typer.Option(help="Address of the server; HOLDFAST_URL.", show_default=False)]
Key = Annotated[str | None, typer.Option(help="Key to show it; HOLDFAST_API_KEY.", show_default=False)]


def _read_file(path: Path) -> "Export | None":
    from app.protocols.dialects.native import read_export

    return read_export(path.read_bytes().splitlines()) if path.is_file() else None


def _open(
    thread: str | None, data_dir: Path | None, database_url: str | None, url: str | None, key: str | None
) -> "AbstractAsyncContextManager[LogAccess | None]":
    """The log, unless the thread is an exported file: that needs neither a server nor a database."""
    from app.cli.access import open_log

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
    from app.events.chain import Broken, verify
    from app.protocols.dialects.native import ExportInvalid

    try:
        export = await _load(access, thread)
    except ExportInvalid as invalid:
        # A line that cannot be read is a bad event; one before it may be the first.
        before = verify(invalid.before)
        return before if isinstance(before, Broken) else Broken(before.seq + 1, invalid.reason)
    return verify(export.events, expected or export.head)


@contextlib.contextmanager
def _sink(output: Path | None) -> Iterator[IO[bytes]]:
    """Standard output, or a file that takes its name only when it is whole."""
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
        Path | None, typer.Option("--output", "-o", help="File to write; standard output if absent.")
    ] = None,
    format: Annotated[str, typer.Option(help="native, or agent-os for .events.jsonl.")] = "native",
    data_dir: DataDir = None,
    database_url: DatabaseUrl = None,
    url: Url = None,
    key: Key = None,
) -> None:
    """Write a thread's log as JSON lines, the head of its chain last."""
    from app.cli.access import open_log

    async def work() -> None:
        async with open_log(data_dir, database_url, url, key) as access:
            with _sink(output) as sink:
                async for line in access.export(thread, format):
                    sink.write(line + b"\n")

    if format not in ("native", "agent-os"):
        raise typer.BadParameter("must be native or agent-os", param_hint="--format")
    run_loop(work())


@app.command("import")
def import_command(
    file: Annotated[Path, typer.Argument(exists=True, dir_okay=False, help="A file that `log export` wrote.")],
    data_dir: DataDir = None,
    database_url: DatabaseUrl = None,
) -> None:
    """Bring an exported thread into this database, hash for hash. The server must be stopped (embedded)."""
    from app.cli.access import open_log
    from app.protocols.dialects.native import read_export

    async def work() -> None:
        export = read_export(file.read_bytes().splitlines())
        async with open_log(data_dir, database_url, own=True) as access:
            head = await access.put(export)
            typer.echo(f"imported {head.seq} events, head {head.hash}")

    run_loop(work())


@app.command("verify")
def verify_command(
    thread: Annotated[
        str | None, typer.Argument(help="A thread's id or an exported file; every thread if absent.")
    ] = None,
    head: Annotated[str | None, typer.Option(help="SEQ:HASH of an earlier export, to notice a cut-off end.")] = None,
    data_dir: DataDir = None,
    database_url: DatabaseUrl = None,
    url: Url = None,
    key: Key = None,
) -> None:
    """Check the hash chain; names the first bad seq and why. Exit code 1 when something is wrong."""
    from app.events.chain import Broken, Head

    expected: Head | None = None
    if head is not None:
        seq, _, digest = head.partition(":")
        if not seq.isdigit() or len(digest) != 64:
            raise typer.BadParameter("must be SEQ:HASH", param_hint="--head")
        expected = Head(int(seq), digest)
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
                    typer.echo(f"{name}: {found.seq} events, chain intact, head {found.seq}:{found.hash}")

    run_loop(work())
    if bad:
        raise typer.Exit(1)


@app.command("replay")
def replay_command(
    thread: Thread, data_dir: DataDir = None, database_url: DatabaseUrl = None, url: Url = None, key: Key = None
) -> None:
    """Fold the log and print what it says: thread, runs, interrupts, transcript, artifacts. Calls nobody."""
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
    after: Annotated[int, typer.Option(min=0, help="Start after this seq.")] = 0,
    follow: Annotated[bool, typer.Option("--follow/--no-follow", "-f", help="Wait for more.")] = False,
    data_dir: DataDir = None,
    database_url: DatabaseUrl = None,
    url: Url = None,
    key: Key = None,
) -> None:
    """Print a thread's events, one line each; with -f as they come."""
    from app.cli.access import open_log

    async def work() -> None:
        async with open_log(data_dir, database_url, url, key) as access:
            async for event in access.events(thread, after, follow):
                typer.echo(f"{event['seq']:>6}  {event['at']}  {event['type']:<36} {_brief(event['payload'])}")

    run_loop(work())


def _brief(payload: object) -> str:
    from app.core import json

    text = json.dumps(payload).decode()
    return text if len(text) <= 120 else text[:119] + "…"
