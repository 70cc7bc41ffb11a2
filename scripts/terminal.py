"""Recordings of the real program at a real terminal, as pictures: `python -m scripts.terminal` writes them.

Each is typed into a pseudo terminal; what came back is drawn by rich. Ids and addresses differ each time and are
shortened, so that a recording only changes when the program does.
"""

import os
import pty
import re
import select
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from io import StringIO
from pathlib import Path
from typing import Final

from rich.console import Console
from rich.text import Text

from tests.server import ROOT, ServerProcess, clean_environment

WIDTH: Final = 96
SECONDS: Final = 60.0
_ID: Final = re.compile(r"\b((?:int|run|thr|msg|evt)_)[0-9a-f]{32}\b")


@dataclass(frozen=True, slots=True)
class Recording:
    name: str
    title: str
    arguments: tuple[str, ...]
    answers: tuple[tuple[str, str], ...] = ()
    """What to wait for, and what to type then."""


RECORDINGS: Final = (
    Recording("terminal", "holdfast run", ("run", "assistant", "please calculate this")),
    Recording("approve", "holdfast run, with an approval", ("run", "assistant", "publish it"), (("approve? ", "y\n"),)),
)


def record(recording: Recording, data_dir: Path) -> str:
    """What the terminal showed, with its colours."""
    master, slave = pty.openpty()
    environment = clean_environment() | {"TERM": "xterm-256color", "COLUMNS": str(WIDTH), "LINES": "40"}
    process = subprocess.Popen(
        [sys.executable, "-m", "app.main", *recording.arguments, "--data-dir", str(data_dir)],
        stdin=slave,
        stdout=slave,
        stderr=slave,
        env=environment,
        cwd=ROOT,
        start_new_session=True,
    )
    os.close(slave)
    printed, answers, ends = "", list(recording.answers), time.monotonic() + SECONDS
    while time.monotonic() < ends:
        if select.select([master], [], [], 0.1)[0]:
            try:
                printed += os.read(master, 65536).decode()
            except OSError:  # the program has ended
                break
        if answers and answers[0][0] in printed:
            os.write(master, answers.pop(0)[1].encode())
    assert process.wait(SECONDS) == 0, printed
    os.close(master)
    return printed.replace("\r\n", "\n")


def draw(recording: Recording, printed: str) -> bytes:
    console = Console(record=True, width=WIDTH, file=StringIO(), force_terminal=True, color_system="truecolor")
    typed = " ".join(f'"{word}"' if " " in word else word for word in recording.arguments)
    console.print(Text("$ ", style="bold green") + Text(f"holdfast {typed}"))
    console.print(Text.from_ansi(_ID.sub(r"\1…", printed).rstrip()))
    drawn = console.export_svg(title=recording.title, unique_id=recording.name)
    # The font that rich refers to is fetched from elsewhere; a picture of ours fetches nothing.
    return re.sub(r"@font-face \{.*?\}\s*", "", drawn, flags=re.DOTALL).encode()


def pictures() -> dict[str, bytes]:
    with tempfile.TemporaryDirectory() as folder:
        server = ServerProcess.start(Path(folder))
        try:
            return {f"docs/pictures/{one.name}.svg": draw(one, record(one, Path(folder))) for one in RECORDINGS}
        finally:
            server.stop()


def main() -> None:
    for name, content in pictures().items():
        (ROOT / name).parent.mkdir(parents=True, exist_ok=True)
        (ROOT / name).write_bytes(content)
        print(f"wrote {name}")


if __name__ == "__main__":
    main()
