"""Runs what a page shows: its shell blocks in order, in one shell, against a server of its own.

A page is a story: what one block sets, the next may use. `make serve` starts the server in the background; the address
http://127.0.0.1:8700 stands for it. A block of kind `text` right after a `sh` block is what it prints, where `…` stands
for anything. A block that cannot be run here says why: ```sh skip="needs a container engine". Blocks of kind `python`
are run as scripts. Other kinds are not run here.
"""

import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from tests.forks import holdfast_command
from tests.postgres import free_port
from tests.server import ROOT, clean_environment

ADDRESS: Final = "127.0.0.1:8700"
SECONDS: Final = 280.0  # a busy machine starts a dozen processes slowly
_FENCE: Final = re.compile(r"^```(\w*)([^\n]*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_MARK: Final = "@@block"

_PROLOGUE: Final = """\
set -euo pipefail
stop() {
    status=$?
    for pid in $(jobs -p); do kill -TERM "$pid" 2>/dev/null || true; done
    wait 2>/dev/null || true
    exit "$status"
}
trap stop EXIT
"""
_SERVE: Final = """\
holdfast serve > serve.log 2>&1 &
for _ in $(seq 300); do curl -fs http://127.0.0.1:8700/readyz > /dev/null && break; sleep 0.1; done
curl -fsS http://127.0.0.1:8700/readyz > /dev/null || { cat serve.log; exit 1; }
"""


@dataclass(frozen=True, slots=True)
class Block:
    kind: str
    info: str
    text: str
    line: int

    @property
    def skipped(self) -> str | None:
        found = re.search(r'skip="([^"]+)"', self.info)
        return None if found is None else found[1]


def blocks(page: Path) -> list[Block]:
    text = page.read_text(encoding="utf-8")
    return [
        Block(found[1], found[2].strip(), found[3], text.count("\n", 0, found.start()) + 2)
        for found in _FENCE.finditer(text)
    ]


def run_page(page: Path, folder: Path) -> list[tuple[Block, str]]:
    """Each block that was run, with what it printed. A command that fails is an assertion with its output."""
    shown = blocks(page)
    ran = [(index, block) for index, block in enumerate(shown) if block.kind in ("sh", "python") and not block.skipped]
    port = free_port()
    script = _PROLOGUE
    for number, (_, block) in enumerate(ran):
        script += f"printf '\\n{_MARK} {number}\\n'\n" + _commands(block, folder, number)
    script = script.replace(ADDRESS, f"127.0.0.1:{port}")
    finished = _bash(script, folder, port)
    pieces = re.split(rf"^{_MARK} \d+\n", finished.stdout, flags=re.MULTILINE)[1:]
    if finished.returncode != 0:
        block = ran[max(0, len(pieces) - 1)][1] if pieces else ran[0][1]
        raise AssertionError(
            f"{page.relative_to(ROOT)}:{block.line} failed with {finished.returncode}:\n{block.text}\n"
            f"printed:\n{pieces[-1] if pieces else finished.stdout}\n{finished.stderr[-3000:]}"
        )
    results = [
        (block, piece.replace(f"127.0.0.1:{port}", ADDRESS)) for (_, block), piece in zip(ran, pieces, strict=True)
    ]
    _compare(page, shown, ran, [text for _, text in results])
    return results


def _commands(block: Block, folder: Path, number: int) -> str:
    if block.kind == "python":
        script = folder / f"block_{number}.py"
        script.write_text(block.text, encoding="utf-8")
        return f"python {script.name}\n"
    return "".join(
        _SERVE if line.split("#")[0].strip() == "make serve" else f"{line}\n" for line in block.text.splitlines()
    )


def _bash(script: str, folder: Path, port: int) -> "subprocess.CompletedProcess[str]":
    tools = holdfast_command(folder)
    (tools / "python").write_text(f'#!/bin/sh\nexec {sys.executable} "$@"\n')
    (tools / "python").chmod(0o755)
    for path in folder.glob("block_*.py"):
        path.write_text(path.read_text().replace(ADDRESS, f"127.0.0.1:{port}"))
    environment = clean_environment() | {
        "PATH": f"{tools}:{os.environ['PATH']}", "HOLDFAST_PORT": str(port), "HOME": str(folder),
    }  # fmt: skip
    return subprocess.run(
        ["bash", "-c", script], cwd=folder, env=environment, capture_output=True, text=True, timeout=SECONDS,
        stdin=subprocess.DEVNULL, check=False,
    )  # fmt: skip


def _compare(page: Path, shown: list[Block], ran: list[tuple[int, Block]], printed: list[str]) -> None:
    for (index, block), text in zip(ran, printed, strict=True):
        after = shown[index + 1] if index + 1 < len(shown) else None
        if after is None or after.kind != "text":
            continue
        pattern = ".*?".join(re.escape(part) for part in after.text.strip().split("…"))
        assert re.fullmatch(pattern, text.strip(), re.DOTALL), (
            f"{page.relative_to(ROOT)}:{block.line} prints\n{text}\nand not, as the page says,\n{after.text}"
        )
