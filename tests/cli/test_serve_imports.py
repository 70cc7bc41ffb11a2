"""What a started server has not imported: libraries that only some of its work needs."""

import subprocess
import sys
from pathlib import Path

from tests.server import ROOT, clean_environment

AT_FIRST_USE = (
    "a2a",
    "ag_ui",
    "aiohttp",
    "alembic",
    "anyio._backends._asyncio",
    "app.cli.application",
    "app.protocols.a2a.exchange",
    "app.protocols.agui.run_stream",
    "app.protocols.dialects.a2a",
    "app.protocols.dialects.agui",
    "app.protocols.dialects.langgraph_values",
    "app.protocols.dialects.mcp",
    "app.protocols.langgraph.router",
    "app.protocols.langgraph.runs",
    "app.protocols.http.eval_shapes",
    "app.protocols.http.shapes",
    "app.protocols.mcp.exchange",
    "app.protocols.openapi",
    "app.protocols.sessions.discovery_shapes",
    "app.protocols.sessions.extension_shapes",
    "app.protocols.sessions.job_shapes",
    "app.protocols.sessions.shapes",
    "cryptography",
    "jsonschema",
    "mcp",
    "opentelemetry.sdk",
    "prometheus_client",
    "pydantic.v1",
    "rich",
    "sqlalchemy",
)
_PROGRAM = f"""
import os, signal, sys
import typer
from app.cli import loop
from app.main import main

run = loop.run_loop

def alone(work):  # without what begins soon after the start, which on a busy machine would be found here
    from app.cli import serve
    from app.runtime import workspaces
    serve._BUILD_AFTER_SECONDS = workspaces._WATCH_AFTER_SECONDS = 600
    run(work)

loop.run_loop = alone

def look(line):  # called with "listening on ..."
    print([name for name in {AT_FIRST_USE!r} if name in sys.modules])
    typer.echo = lambda line: None
    os.kill(os.getpid(), signal.SIGTERM)

typer.echo = look
sys.argv[1:] = ["serve", "--port", "0", "--data-dir", sys.argv[1]]
main()
"""


def _loaded(data_dir: Path) -> str:
    finished = subprocess.run(
        [sys.executable, "-c", _PROGRAM, str(data_dir)],
        capture_output=True, text=True, env=clean_environment(), cwd=ROOT, check=True,
    )  # fmt: skip
    return finished.stdout


def test_a_start_imports_only_what_a_plain_server_needs(tmp_path: Path) -> None:
    assert _loaded(tmp_path) == "[]\n"  # on a new folder
    assert _loaded(tmp_path) == "[]\n"  # and on an existing one
