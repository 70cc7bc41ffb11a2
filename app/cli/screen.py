"""Shows a run at the terminal: the streamed answer, tool calls, approvals, and the events that the workspace selects.

Only the answer is written to standard output, so that it can be piped; everything else is written to standard error.
`follower` reads the events, `prompts` asks for answers.
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
        """`include` are patterns of event types or of a signal's phase; `answer=False` hides the answer."""
        self._notes = notes
        self._include = tuple(include)
        self._answer = answer
        self._shown: dict[str, str] = {}
        """Text that was already written, by message id."""
        self._open_line = False
        self._roles = False
        """With roles (`plan_work_review`), messages are internal; only the run's output is the answer."""

    def show(self, event: dict[str, Any], *, depth: int) -> None:
        """Show one event of the run (depth 0) or of a subagent's run."""
        payload = event["payload"]
        match event["type"]:
            case "runtime.adapter.event":
                if payload["event"]["phase"] == OUTPUT_DELTA and depth == 0 and not self._roles:
                    self._write_delta(payload["event"])
            case "runtime.role.transitioned":
                self._roles = True
                self._note(depth, "→", "cyan", f"{payload['to']}")
            case "runtime.tool.invoked":
                self._note(depth, "⚒", "cyan", f"{payload['tool']} {brief(payload['arguments'])}")
            case "runtime.tool.resulted":
                mark, colour = _MARKS[payload["ok"]]
                result = payload.get("output") if payload["ok"] else (payload.get("error") or {}).get("message")
                self._note(depth, mark, colour, f"{payload['tool']} {brief(result)}")
            case "runtime.tool.guarded":
                self._note(depth, "!", "yellow", f"{payload['tool']} call {payload['outcome']}")
            case "runtime.model.failed" if payload.get("abandoned"):
                self._shown.pop(payload["messageId"], None)
                self._note(depth, "!", "yellow", "the answer was interrupted")
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
        """Show the rest of the answer, and how the run ended."""
        if run["status"] == "completed":
            output = run["output"] if isinstance(run["output"], str) else _text(run["output"])
            shown = self._shown.get(message_id or "", "")
            if self._answer and output.startswith(shown):
                self._write(output[len(shown) :])
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

    def _write_delta(self, signal: dict[str, Any]) -> None:
        message, text = signal["messageId"], signal["text"]
        if message not in self._shown:
            self._close_line()
        self._shown[message] = self._shown.get(message, "") + text
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
    """The text without control characters, so that a model's or tool's output cannot control the terminal."""
    return "".join(char for char in text if char in "\n\t" or char.isprintable() or char.isspace())


def _text(value: Any) -> str:
    return json.dumps(value).decode()


def _next(payload: dict[str, Any]) -> str:
    """The action after a failed model call."""
    if payload.get("nextModel"):
        return f"calling {payload['nextModel']}"
    return f"retrying in {payload['delayMs'] / 1000:.1f} s"
