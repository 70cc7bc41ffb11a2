"""Prompts at the terminal for the answer to an interrupt: approval, question, client tool, recovery or pause.

Returns the answer in the format of the interrupt's kind. `follower` sends it.
"""

import asyncio
import atexit
import contextlib
import sys
import threading
from functools import cache
from typing import Any

import typer

from app.cli.screen import printable
from app.core import json


def can_ask() -> bool:
    return sys.stdin.isatty() and sys.stderr.isatty()


async def read_line(prompt: str) -> str | None:
    """Read a line with the usual editing keys; None at the end of input (Ctrl-D)."""
    return await _LINES.read(prompt)


class _Lines:
    """Reads lines on a daemon thread, so that a thread that blocks in `input` does not keep the process alive.

    A prompt that was abandoned leaves such a thread behind; its line goes to the next prompt.
    """

    def __init__(self) -> None:
        self._pending: asyncio.Future[str | None] | None = None
        self._reading = False

    async def read(self, prompt: str) -> str | None:
        loop = asyncio.get_running_loop()
        line: asyncio.Future[str | None] = loop.create_future()
        self._pending = line
        if self._reading:
            sys.stdout.write(prompt)
            sys.stdout.flush()
        else:
            self._reading = True
            threading.Thread(target=self._read, args=(loop, prompt), name="holdfast-terminal", daemon=True).start()
        return await line

    def _read(self, loop: asyncio.AbstractEventLoop, prompt: str) -> None:
        with contextlib.suppress(ImportError):
            import readline  # noqa: F401  # its import gives `input` editing and history
        _restore_terminal_at_exit()
        try:
            text: str | None = input(prompt)
        except (EOFError, ValueError):
            text = None
        with contextlib.suppress(RuntimeError):  # the loop has ended in the meantime
            loop.call_soon_threadsafe(self._settle, text)

    def _settle(self, text: str | None) -> None:
        self._reading = False
        if self._pending is not None and not self._pending.done():
            self._pending.set_result(text)


_LINES = _Lines()


@cache
def _restore_terminal_at_exit() -> None:
    """Editing a line changes the terminal's mode, which an abandoned prompt would not restore."""
    with contextlib.suppress(ImportError, OSError, ValueError):
        import termios

        descriptor = sys.stdin.fileno()
        before = termios.tcgetattr(descriptor)
        atexit.register(termios.tcsetattr, descriptor, termios.TCSANOW, before)


async def ask(interrupt: dict[str, Any]) -> dict[str, Any] | None:
    """The answer to an interrupt; None if the person gives none."""
    match interrupt["kind"]:
        case "approval":
            return await _approval(interrupt)
        case "question":
            return await _questions(interrupt)
        case "external":
            return await _external(interrupt)
        case "recovery":
            return await _recovery()
        case _:
            line = await read_line("  resume? [Y/n] ")
            return {"decision": "resume"} if line is not None and line.strip().lower() in ("", "y", "yes") else None


async def _approval(interrupt: dict[str, Any]) -> dict[str, Any] | None:
    _print(f"  {interrupt.get('tool') or 'a tool'} is to be called with {_pretty(interrupt.get('arguments'))}")
    line = await read_line("  approve? [y/N, or a reason to deny] ")
    if line is None:
        return None
    word = line.strip()
    if word.lower() in ("y", "yes"):
        return {"decision": "approve"}
    return {"decision": "deny"} | ({"reason": word} if word.lower() not in ("", "n", "no") else {})


async def _questions(interrupt: dict[str, Any]) -> dict[str, Any] | None:
    answers: dict[str, Any] = {}
    for number, question in enumerate(interrupt.get("questions") or [], start=1):
        _print(f"  {question.get('question') or question.get('header') or interrupt['title']}")
        options = question.get("options") or []
        for index, option in enumerate(options, start=1):
            label = option.get("label") if isinstance(option, dict) else option
            _print(f"    {index}. {label}")
        line = await read_line("  > ")
        if line is None:
            return None
        chosen = options[int(line) - 1] if line.isdigit() and 0 < int(line) <= len(options) else line
        answers[str(question.get("id", number))] = chosen.get("label") if isinstance(chosen, dict) else chosen
    return {"answers": answers}


async def _external(interrupt: dict[str, Any]) -> dict[str, Any] | None:
    _print(f"  run {interrupt.get('tool')} with {_pretty(interrupt.get('arguments'))} and enter its output")
    line = await read_line("  output (JSON or text): ")
    return None if line is None else {"output": json_or_text(line)}


async def _recovery() -> dict[str, Any] | None:
    _print("  The tool call was interrupted and may have taken effect. Retry it, enter its output, or fail the call.")
    word = (await read_line("  retry, use or fail? ") or "").strip().lower()
    if word == "use":
        line = await read_line("  output (JSON or text): ")
        return None if line is None else {"decision": "use", "output": json_or_text(line)}
    return {"decision": word} if word in ("retry", "fail") else None


def json_or_text(text: str) -> Any:
    try:
        return json.loads(text)
    except json.JsonError:
        return text


def _pretty(value: Any) -> str:
    return json.dumps(value).decode()


def _print(text: str) -> None:
    typer.echo(printable(text), err=True)
