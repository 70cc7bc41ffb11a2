"""The unified diff of two texts, within bounds: what both begin and end with is left out before lines are compared.

Comparing lines takes time that grows with the product of both lengths, so beyond a bound what differs is shown as
replaced. A pure function.
"""

import difflib
from typing import Final

CONTEXT: Final = 3
MAX_COMPARED_BYTES: Final = 1024 * 1024
"""Of each text; comparing takes a thread's time."""
FILE: Final = "file"
"""The kind of an artifact that is a file which a tool changed."""
MAX_COMPARISONS: Final = 4_000_000
"""Lines of one text times lines of the other, without what they have in common at both ends."""


def unified_diff(before: str, after: str, before_name: str, after_name: str) -> str:
    """Empty when nothing differs."""
    old, new = before.splitlines(keepends=True), after.splitlines(keepends=True)
    start = _common(old, new)
    end = _common(old[start:][::-1], new[start:][::-1])
    if start == len(old) == len(new):
        return ""
    if (len(old) - start - end) * (len(new) - start - end) <= MAX_COMPARISONS:
        # Equal lines far from a change would only cost time.
        first, tail = max(0, start - CONTEXT), max(0, end - CONTEXT)
        found = list(
            difflib.unified_diff(
                old[first : len(old) - tail], new[first : len(new) - tail], before_name, after_name, n=CONTEXT
            )
        )
        return "".join(_ended(_moved(line, first) if line.startswith("@@ ") else line) for line in found)
    removed, added = old[start : len(old) - end], new[start : len(new) - end]
    header = f"--- {before_name}\n+++ {after_name}\n@@ -{start + 1},{len(removed)} +{start + 1},{len(added)} @@\n"
    return header + "".join(_ended(f"-{line}") for line in removed) + "".join(_ended(f"+{line}") for line in added)


def diff_names(name: str, existed: bool) -> tuple[str, str]:
    """The names of a file in the head of a diff, each one line."""
    line = " ".join(name.split())
    return f"a/{line}" if existed else "/dev/null", f"b/{line}"


def _common(one: list[str], other: list[str]) -> int:
    count = 0
    for mine, theirs in zip(one, other, strict=False):
        if mine != theirs:
            break
        count += 1
    return count


def _ended(line: str) -> str:
    return line if line.endswith("\n") else line + "\n\\ No newline at end of file\n"


def _moved(header: str, by: int) -> str:
    """The header of a hunk, counted in the whole text."""
    _, old, new, rest = header.split(" ", 3)
    return f"@@ -{_range(old[1:], by)} +{_range(new[1:], by)} {rest}"


def _range(text: str, by: int) -> str:
    line, comma, count = text.partition(",")
    return f"{int(line) + by}{comma}{count}"
