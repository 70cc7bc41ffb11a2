"""What the commands that talk to a server have in common: their options, the connection, how they print.

`@talks` makes a command of an async function: it adds the common options, connects, and runs the loop. Imports
nothing heavy before a command runs, so that `--help` and completion stay quick.
"""

import inspect
import sys
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Concatenate, Final, ParamSpec

import typer

if TYPE_CHECKING:
    from rich.console import Console

    from app.cli.client import Client

P = ParamSpec("P")

WAITS: Final = 3
"""Exit code of a run that waits for a person whom nobody can ask here."""

_COMMON: Final = {
    "url": Annotated[str | None, typer.Option(help="Address of the server; HOLDFAST_URL.", show_default=False)],
    "key": Annotated[str | None, typer.Option(help="Key to show it; HOLDFAST_API_KEY.", show_default=False)],
    "data_dir": Annotated[
        Path | None, typer.Option(help="Data folder: of the running server, or of one to start here.")
    ],
    "database_url": Annotated[str | None, typer.Option(help="Start a server here, on this Postgres.")],
    "workspace": Annotated[Path | None, typer.Option(help="Workspace of a server that is started here.")],
    "as_json": Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")],
    "quiet": Annotated[bool, typer.Option("--quiet", "-q", help="Print only the result.")],
}
_UNBOUNDED: Final = 1_000_000
"""Columns of the terminal that a table is laid out for: it is never wider than its longest cells."""
_DEFAULTS: Final = {"as_json": False, "quiet": False}


@dataclass(frozen=True, slots=True)
class Session:
    """Results go to standard output, everything said on the way to standard error."""

    client: "Client"
    as_json: bool
    quiet: bool
    in_process: bool
    """The server ends with this command, so work that it started must be seen to its end."""

    @property
    def notes(self) -> "Console":
        from rich.console import Console

        return Console(stderr=True, highlight=False, quiet=self.quiet, soft_wrap=True)

    def result(self, value: Any, text: str) -> None:
        """One result: a JSON document for programs, a line for people."""
        if self.as_json:
            print_json(value)
        else:
            typer.echo(text)

    def record(self, item: Mapping[str, Any], *, quiet: str) -> None:
        """One thing with its fields; with `--quiet` only the word that matters most of it."""
        if self.as_json:
            print_json(item)
        elif self.quiet:
            typer.echo(quiet)
        else:
            _print_table(
                ("", ""), [(name, _shown(value)) for name, value in item.items() if value not in (None, {}, [])]
            )

    def table(self, items: Sequence[Mapping[str, Any]], columns: Mapping[str, Callable[[Any], Any]]) -> None:
        """A list: the server's own items as JSON, or chosen columns; with `--quiet` only the first of them."""
        if self.as_json:
            print_json(items)
        elif self.quiet:
            first = next(iter(columns.values()))
            for item in items:
                typer.echo(str(first(item)))
        else:
            _print_table(columns.keys(), [[str(column(item)) for column in columns.values()] for item in items])


def talks(work: Callable[Concatenate[Session, P], Awaitable[None]]) -> Callable[..., None]:
    own = list(inspect.signature(work, eval_str=True).parameters.values())[1:]
    added = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=_DEFAULTS.get(name), annotation=annotation)
        for name, annotation in _COMMON.items()
    ]

    @wraps(work)
    def command(**given: Any) -> None:
        from app.cli.connect import Place, connected
        from app.cli.loop import run_loop

        common = {name: given.pop(name) for name in _COMMON}
        as_json, quiet = common.pop("as_json"), common.pop("quiet")

        async def talk() -> None:
            place = Place.find(**common)
            async with connected(place) as client:
                await work(Session(client, as_json, quiet, place.url is None), **given)  # type: ignore[call-arg]  # typer gives what the signature names

        run_loop(talk())

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
