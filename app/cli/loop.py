"""Runs a command's coroutine on an event loop, and reports known errors with an exit code."""

from collections.abc import Coroutine
from typing import Any, Final

import typer

INTERRUPTED: Final = 130
"""The exit code that shells use for a program that Ctrl-C stopped."""


def run_loop(work: Coroutine[Any, Any, None]) -> None:
    """Run on uvloop. A known error is printed with its remedy, and the exit code is 1; there is no traceback."""
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
