"""A server whose agents use no framework imports none, though all of them are installed."""

import subprocess
import sys

import pytest

from tests.server import ROOT, clean_environment

CODE = """
import asyncio, sys, tempfile
from pathlib import Path
from app.core.settings import Settings
from app.wiring.runtime import open_holdfast

async def main():
    with tempfile.TemporaryDirectory() as folder:
        async with open_holdfast(Settings(data_dir=Path(folder), workspace=Path("workspaces/demo"))):
            pass

asyncio.run(main())
names = {"langgraph", "langchain", "langchain_core", "deepagents", "agents", "agent_framework", "pydantic_ai"}
print("imported:", sorted(names & {name.partition(".")[0] for name in sys.modules}), "google.adk" in sys.modules)
"""


@pytest.mark.requirement("SH-9", "SH-24")
def test_a_server_that_uses_no_framework_imports_none() -> None:
    done = subprocess.run(
        [sys.executable, "-c", CODE], capture_output=True, text=True, cwd=ROOT, env=clean_environment(), timeout=60
    )
    assert done.stdout.splitlines()[-1] == "imported: [] False", done.stdout + done.stderr
