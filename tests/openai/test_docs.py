"""The guide's examples, run as they stand against the real server."""

import re
import subprocess
import sys

import pytest

from tests.server import ROOT, ServerProcess, clean_environment

PAGE = (ROOT / "docs/openai.md").read_text()
BLOCKS = re.findall(r"^```(python|bash)\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)


@pytest.mark.requirement("CARD-4", "PX-5")
@pytest.mark.parametrize(("language", "code"), BLOCKS, ids=[f"{n}-{kind}" for n, (kind, _) in enumerate(BLOCKS)])
def test_the_examples_work(server: ServerProcess, language: str, code: str) -> None:
    code = code.replace("http://localhost:8700", server.url)
    command = (
        [sys.executable, "-W", "error", "-c", code]
        if language == "python"
        else ["bash", "-euo", "pipefail", "-c", code]
    )
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, env=clean_environment(), check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip()
