"""The Python examples of the pages on other protocols, run as they stand against the real server."""

import re
import subprocess
import sys

import pytest

from tests.server import ROOT, ServerProcess, clean_environment

PAGES = ("mcp",)
BLOCKS = [
    (page, code)
    for page in PAGES
    for code in re.findall(r"^```python\n(.*?)^```$", (ROOT / f"docs/{page}.md").read_text(), re.MULTILINE | re.DOTALL)
]


@pytest.mark.requirement("CARD-4", "PX-5")
@pytest.mark.parametrize(("page", "code"), BLOCKS, ids=[f"{page}-{n}" for n, (page, _) in enumerate(BLOCKS)])
def test_the_examples_print_what_their_page_says(dialect_server: ServerProcess, page: str, code: str) -> None:
    command = [sys.executable, "-c", code.replace("http://127.0.0.1:8700", dialect_server.url)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, env=clean_environment(), check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout.strip() in (ROOT / f"docs/{page}.md").read_text()
