"""Runs a command's work on an event loop and turns a known error into a line and an exit code."""

import asyncio
from collections.abc import Coroutine
from typing import Any

import typer

from app.core.errors import HoldfastError


def run_loop(work: Coroutine[Any, Any, None]) -> None:
    """On uvloop; a known error is one line and exit code 1, not a traceback."""
    import uvloop

    try:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(work)
    except HoldfastError as error:
        typer.echo(f"{error.code}: {error.failure.message}\n  {error.remedy}", err=True)
        raise typer.Exit(1) from None
