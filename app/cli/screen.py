"""A run as a person sees it: the answer as it is said, tool calls, approvals, and the events the workspace wants shown.

The answer goes to standard output and nothing else does, so that it can be piped; the rest goes to standard error.
Leaves to others: following the run (`follow`) and asking (`ask`).
"""

import sys
from collections.abc import Sequence
from fnmatch import fnmatchcase
from typing import Any, Final

from rich.console import Console
from rich.text import Text

from app.core import json
from app.events.catalog.adapter import OUTPUT_DELTA

_BRIEF: Final = 160
_MARKS: Final = {True: ("✓", "green"), False: ("✗", "red")}


class Screen:
    def __init__(self, notes: Console, include: Sequence[str], *, answer: bool = True) -> None:
        """`include` are patterns of event types (or of a signal's phase); `answer` false leaves the answer unsaid."""
        self._notes = notes
        self._include = tuple(include)
        self._answer = answer
        self._said: dict[str, str] = {}
        """Text that was already said, by message."""
        self._open_line = False
        self._roles = False
        """A team's messages are reports to each other; only its output is an answer."""

    def show(self, event: dict[str, Any], *, depth: int) -> None:
        """One event of the run (depth 0) or of a run below it."""
        payload = event["payload"]
        match event["type"]:
            case "runtime.adapter.event":
                if payload["event"]["phase"] == OUTPUT_DELTA and depth == 0 and not self._roles:
                    self._say(payload["event"])
            case "runtime.role.transitioned":
                self._roles = True
                self._note(depth, "→", "cyan", f"{payload['to']}")
            case "runtime.tool.invoked":
                self._note(depth, "⚒", "cyan", f"{payload['tool']} {brief(payload['arguments'])}")
            case "runtime.tool.resulted":
                mark, colour = _MARKS[payload["ok"]]
                told = payload.get("output") if payload["ok"] else (payload.get("error") or {}).get("message")
                self._note(depth, mark, colour, f"{payload['tool']} {brief(told)}")
            case "runtime.tool.guarded":
                self._note(depth, "!", "yellow", f"{payload['tool']} call {payload['outcome']}")
            case "runtime.model.failed" if payload.get("abandoned"):
                self._said.pop(payload["messageId"], None)
                self._note(depth, "!", "yellow", "the answer broke off")
            case "runtime.model.retry.scheduled":
                self._note(depth, "!", "yellow", f"{payload['model']}: {payload['reason']}; {_next(payload)}")
            case "runtime.interrupt.raised":
                self._note(depth, "?", "yellow", f"{payload['title']} ({payload['interruptId']})")
            case "runtime.interrupt.resolved":
                self._note(depth, "·", "yellow", f"answered by {payload['answeredBy']}: {brief(payload['answer'])}")
        if self._is_included(event):
            text = payload["message"] if event["type"] == "runtime.progress.narration" else brief(payload)
            self._note(depth, "·", "dim", text if "message" in payload else f"{event['type']} {text}")

    def ended(self, run: dict[str, Any], message_id: str | None) -> None:
        """The rest of the answer, where it was not already said."""
        if run["status"] == "completed":
            output = run["output"] if isinstance(run["output"], str) else _text(run["output"])
            said = self._said.get(message_id or "", "")
            if self._answer and output.startswith(said):
                self._write(output[len(said) :])
            elif self._answer:
                self._close_line()
                self._write(output)
        self._close_line()
        if run["status"] == "failed":
            error = run["error"] or {}
            self._note(0, "✗", "red", f"{error.get('code')}: {error.get('message')}")
        elif run["status"] == "cancelled":
            self._note(0, "✗", "red", "cancelled")

    def close(self) -> None:
        self._close_line()

    def _say(self, signal: dict[str, Any]) -> None:
        message, text = signal["messageId"], signal["text"]
        if message not in self._said:
            self._close_line()
        self._said[message] = self._said.get(message, "") + text
        if self._answer:
            self._write(text)

    def _write(self, text: str) -> None:
        if text:
            sys.stdout.write(printable(text))
            sys.stdout.flush()
            self._open_line = not text.endswith("\n")

    def _close_line(self) -> None:
        if self._open_line:
            self._write("\n")

    def _note(self, depth: int, mark: str, style: str, text: str) -> None:
        if self._notes.quiet:
            return
        self._close_line()
        self._notes.print(Text("  " * (depth + 1)) + Text(f"{mark} ", style=style) + Text(printable(text), style="dim"))

    def _is_included(self, event: dict[str, Any]) -> bool:
        names = [event["type"]]
        if event["type"] == "runtime.adapter.event":
            names.append(event["payload"]["event"]["phase"])
        return any(fnmatchcase(name, pattern) for name in names for pattern in self._include)


def brief(value: Any) -> str:
    text = value if isinstance(value, str) else _text(value)
    text = " ".join(text.split())
    return text if len(text) <= _BRIEF else text[: _BRIEF - 1] + "…"


def printable(text: str) -> str:
    """Without control characters: what a model or a tool says must not steer the terminal."""
    return "".join(char for char in text if char in "\n\t" or char.isprintable() or char.isspace())


def _text(value: Any) -> str:
    return json.dumps(value).decode()


def _next(payload: dict[str, Any]) -> str:
    """What follows a failed model call."""
    if payload.get("nextModel"):
        return f"asking {payload['nextModel']}"
    return f"trying again in {payload['delayMs'] / 1000:.1f} s"
