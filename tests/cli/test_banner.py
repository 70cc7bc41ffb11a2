"""What `holdfast serve` prints names only what the loaded workspace has."""

import re
import subprocess
import sys
from pathlib import Path

from tests.server import ROOT, clean_environment

WORKSPACE = """\
apiVersion: holdfast/v1
kind: Runtime
metadata: {name: small}
spec: {defaultAgent: clerk}
---
apiVersion: holdfast/v1
kind: Agent
metadata: {name: clerk}
spec: {backend: echo}
"""


def test_the_banner_names_agents_of_the_loaded_workspace(tmp_path: Path) -> None:
    folder = tmp_path / "workspace"
    folder.mkdir()
    (folder / "workspace.yaml").write_text(WORKSPACE)
    command = [sys.executable, "-m", "app.main", "serve", "--port", "0", "--data-dir", str(tmp_path / "data")]
    process = subprocess.Popen(
        [*command, "--workspace", str(folder)], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
        env=clean_environment(), cwd=ROOT,
    )  # fmt: skip
    banner = ""
    try:
        assert process.stdout is not None
        for line in process.stdout:
            banner += line
            if "OpenAI client" in line:
                break
    finally:
        process.terminate()
        process.wait(20)
        assert process.stdout is not None
        process.stdout.close()
    assert 'holdfast run clerk "hello"' in banner and '"agent": "clerk"' in banner and 'model "clerk"' in banner
    assert re.search(r"^  console +http://127\.0\.0\.1:\d+/ ", banner, re.MULTILINE), banner
    assert "assistant" not in banner
