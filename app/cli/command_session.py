"""Common parts of the commands that use a server: options, connection, output.

`@server_command` turns an async function into a command: it adds the common options, connects, and runs the event loop.
Large modules are imported only when a command runs, so that `--help` and shell completion are fast.
"""

import inspect
import sys
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Concatenate, Final, ParamSpec

import typer

from app.core.value import value

if TYPE_CHECKING:
    from rich.console import Console

    from app.cli.client import Client

P = ParamSpec("P")

WAITS: Final = 3
"""Exit code if the run waits for a person who cannot be asked here."""

_COMMON: Final = {
    "url": Annotated[str | None, typer.Option(help="URL of the server (HOLDFAST_URL).", show_default=False)],
    "key": Annotated[str | None, typer.Option(help="API key (HOLDFAST_API_KEY).", show_default=False)],
    "data_dir": Annotated[
        Path | None, typer.Option(help="Data folder of the running server, or of a server to start.")
    ],
    "database_url": Annotated[str | None, typer.Option(help="Start a server with this Postgres database.")],
    "workspace": Annotated[Path | None, typer.Option(help="Workspace of a server to start.")],
    "as_json": Annotated[bool, typer.Option("--json", help="Print JSON.")],
    "quiet": Annotated[bool, typer.Option("--quiet", "-q", help="Print only the result.")],
}
_UNBOUNDED: Final = 1_000_000
"""Columns of the terminal that a table is laid out for: it is never wider than its longest cells."""
_DEFAULTS: Final = {"as_json": False, "quiet": False}


@value(frozen=True, slots=True)
class CommandSession:
    """A connected command. Results are written to standard output, everything else to standard error."""

    client: "Client"
    as_json: bool
    quiet: bool
    in_process: bool
    """The server stops with this command, so the command waits for the runs it started."""

    @property
    def notes(self) -> "Console":
        from rich.console import Console

        return Console(stderr=True, highlight=False, quiet=self.quiet, soft_wrap=True)

    def result(self, value: Any, text: str) -> None:
        """Print one result as JSON (`--json`) or as a line of text."""
        if self.as_json:
            print_json(value)
        else:
            typer.echo(text)

    def record(self, item: Mapping[str, Any], *, quiet: str) -> None:
        """Print the fields of one item; with `--quiet` only the text `quiet`."""
        if self.as_json:
            print_json(item)
        elif self.quiet:
            typer.echo(quiet)
        else:
            _print_table(
                ("", ""), [(name, _shown(value)) for name, value in item.items() if value not in (None, {}, [])]
            )

    def table(self, items: Sequence[Mapping[str, Any]], columns: Mapping[str, Callable[[Any], Any]]) -> None:
        """Print a list: the items as JSON, or the given columns; with `--quiet` only the first column."""
        if self.as_json:
            print_json(items)
        elif self.quiet:
            first = next(iter(columns.values()))
            for item in items:
                typer.echo(str(first(item)))
        else:
            _print_table(columns.keys(), [[str(column(item)) for column in columns.values()] for item in items])


def server_command(work: Callable[Concatenate[CommandSession, P], Awaitable[None]]) -> Callable[..., None]:
    own = list(inspect.signature(work, eval_str=True).parameters.values())[1:]
    added = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=_DEFAULTS.get(name), annotation=annotation)
        for name, annotation in _COMMON.items()
    ]

    @wraps(work)
    def command(**given: Any) -> None:
        from app.cli.connection import ServerTarget, connect_or_start
        from app.cli.loop import run_loop

        common = {name: given.pop(name) for name in _COMMON}
        as_json, quiet = common.pop("as_json"), common.pop("quiet")

        async def work_connected() -> None:
            target = ServerTarget.find(**common)
            async with connect_or_start(target) as client:
                await work(CommandSession(client, as_json, quiet, target.url is None), **given)  # type: ignore[call-arg]  # typer gives what the signature names

        run_loop(work_connected())

    parameters = [one.replace(kind=inspect.Parameter.KEYWORD_ONLY) for one in own] + added
    command.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]  # read by typer
    command.__annotations__ = {one.name: one.annotation for one in parameters}
    return command


def print_json(value: Any) -> None:
    from app.core import json

    sys.stdout.write(json.pretty(value).decode())
    sys.stdout.flush()


def _shown(value: Any) -> str:
    from app.core import json

    return value if isinstance(value, str) else json.dumps(value).decode()


def _print_table(heads: Iterable[str], rows: Sequence[Sequence[str]]) -> None:
    """Columns as wide as they need; nothing is folded or cut, so that an id can always be copied."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    from app.cli.screen import printable

    names = tuple(heads)
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), show_header=any(names), header_style="bold")
    for name in names:
        table.add_column(name, no_wrap=True)
    for row in rows:
        table.add_row(*(Text(" ".join(printable(cell).split())) for cell in row))
    console = Console(width=_UNBOUNDED, highlight=False)
    with console.capture() as captured:
        console.print(table)
    for line in captured.get().splitlines():
        typer.echo(line.rstrip())
