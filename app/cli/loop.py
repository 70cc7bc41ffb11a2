"""Runs a command's work on an event loop and turns a known error into a line and an exit code."""

from collections.abc import Coroutine
from typing import Any, Final

import typer

INTERRUPTED: Final = 130
"""As shells report a program that Ctrl-C ended."""


def run_loop(work: Coroutine[Any, Any, None]) -> None:
    """On uvloop; a known error is one line and exit code 1, not a traceback."""
    import asyncio

    import uvloop

    from app.core.errors import HoldfastError

    try:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(work)
    except HoldfastError as error:
        typer.echo(f"{error.code}: {error.failure.message}\n  {error.remedy}", err=True)
        raise typer.Exit(1) from None
    except (KeyboardInterrupt, asyncio.CancelledError):
        raise typer.Exit(INTERRUPTED) from None
