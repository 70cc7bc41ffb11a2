"""Runs the commands of a page's ```console blocks and compares what they print with what the page says.

A line that begins with `$ ` is a command, and so are the lines after one that ends with a backslash. What follows, up
to the next command, is what it prints: `...` stands for anything, also across lines, and a command without output may
print whatever it likes. A page is one shell, so variables carry over; the first command that fails ends it. A block
that must not run is no `console` block (`text`, `sh`).
"""

import re
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

_BLOCK: Final = re.compile(r"^```console\n(.*?)^```", re.MULTILINE | re.DOTALL)
_MARK: Final = "=== done with command"
SECONDS: Final = 60


@dataclass(frozen=True, slots=True)
class Step:
    command: str
    printed: str


def steps_of(page: str) -> list[Step]:
    found: list[Step] = []
    for block in _BLOCK.findall(page):
        lines = block.splitlines()
        while lines:
            line = lines.pop(0)
            assert line.startswith("$ "), f"a console block begins with a command, not with {line!r}"
            command = [line[2:]]
            while command[-1].endswith("\\"):
                command.append(lines.pop(0))
            printed = []
            while lines and not lines[0].startswith("$ "):
                printed.append(lines.pop(0))
            found.append(Step("\n".join(command), "\n".join(printed).strip()))
    return found


def run_page(path: Path, replace: Mapping[str, str], environment: Mapping[str, str], folder: Path) -> list[Step]:
    """Raises when a command fails or prints something else; `replace` puts real addresses in place of the page's."""
    text = path.read_text(encoding="utf-8")
    for written, real in replace.items():
        text = text.replace(written, real)
    steps = steps_of(text)
    script = ["set -euo pipefail"]
    for number, step in enumerate(steps):
        script += [step.command, f"printf '\\n{_MARK} {number}\\n'"]
    ran = subprocess.run(
        ["bash", "-c", "\n".join(script)], env=dict(environment), cwd=folder, capture_output=True, text=True,
        timeout=SECONDS,
    )  # fmt: skip
    printed = re.split(rf"\n?{_MARK} \d+\n", ran.stdout)
    for number, step in enumerate(steps):
        assert number < len(printed) - 1, f"{path.name}: this failed:\n$ {step.command}\n{printed[-1]}{ran.stderr}"
        assert fits(printed[number].strip(), step.printed), (
            f"{path.name}: this printed something else:\n$ {step.command}\n{printed[number]}"
        )
    return steps


def fits(printed: str, documented: str) -> bool:
    if not documented:
        return True
    pattern = ".*".join(re.escape(piece.strip()) for piece in documented.split("..."))
    return re.fullmatch(rf"\s*{pattern}\s*", printed, re.DOTALL) is not None
