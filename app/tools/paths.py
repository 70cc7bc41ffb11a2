"""Whether a path argument stays beneath its folder: by its text, and by the links on its way.

The check before execution, for a message that a model can act on; `outside.files` enforces it again when the
path is opened. Paths are never repaired.
"""

import os
import re
import unicodedata
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Final
from urllib.parse import unquote

_DRIVE: Final = re.compile(r"[A-Za-z]:[\\/]")
_ROUNDS: Final = 3  # encodings of encodings beyond this are noise that no decoder on the way would undo


def problem_with(path: str, root: Path | None) -> str | None:
    """What is wrong with the path, None when nothing is."""
    for text in _readings(path):
        wrong = _problem_of_text(text)
        if wrong is not None:
            return wrong if text == path else f"{wrong} when decoded"
    if root is not None and not _stays_beneath(path, root):
        return "leaves its folder through a symbolic link"
    return None


def matches_path(path: str, pattern: str) -> bool:
    """Whether a path is one of those that a pattern names: `*` within a step, `**` any number of steps."""
    steps = [step for step in path.replace("\\", "/").split("/") if step not in ("", ".")]
    return ".." not in steps and _matches(steps, [step for step in pattern.split("/") if step not in ("", ".")])


def is_beneath(path: str, folder: str) -> bool:
    """Whether a path names the folder or something in it, by its text. `*` is a character like others."""
    steps = [step for step in path.replace("\\", "/").split("/") if step not in ("", ".")]
    wanted = folder.split("/")
    return ".." not in steps and steps[: len(wanted)] == wanted


def _matches(steps: list[str], wanted: list[str]) -> bool:
    """By the positions in the pattern that each step may have reached, so that many `**` cost no more than one."""
    reached = _past_any({0}, wanted)
    for step in steps:
        after = {at for at in reached if at < len(wanted) and wanted[at] == "**"}
        after |= {at + 1 for at in reached if at < len(wanted) and wanted[at] != "**" and fnmatchcase(step, wanted[at])}
        reached = _past_any(after, wanted)
    return len(wanted) in reached


def _past_any(reached: set[int], wanted: list[str]) -> set[int]:
    """With the positions that are reached by letting `**` stand for nothing."""
    found, todo = set(reached), list(reached)
    while todo:
        at = todo.pop()
        if at < len(wanted) and wanted[at] == "**" and at + 1 not in found:
            found.add(at + 1)
            todo.append(at + 1)
    return found


def _readings(path: str) -> list[str]:
    """The text itself and whatever a decoder on the way might make of it."""
    readings = [path]
    for _ in range(_ROUNDS):
        decoded = unquote(readings[-1])
        if decoded == readings[-1]:
            break
        readings.append(decoded)
    folded = unicodedata.normalize("NFKC", readings[-1])
    return [*readings, folded] if folded != readings[-1] else readings


def _problem_of_text(text: str) -> str | None:
    if "\x00" in text:
        return "contains a NUL character"
    if text.startswith(("/", "\\")) or _DRIVE.match(text):
        return "is absolute"
    if text.lower().startswith("file:"):
        return "is a file URL"
    steps = text.replace("\\", "/").split("/")
    if ".." in steps:
        return "contains '..'"
    if steps[0] == "~" or (steps[0].startswith("~") and len(steps) > 1):
        return "starts at a home folder"
    return None


def _stays_beneath(path: str, root: Path) -> bool:
    try:
        real = os.path.realpath(root / path)
    except (OSError, ValueError):
        return False
    base = os.path.realpath(root)
    return real == base or real.startswith(base.rstrip("/") + "/")
