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
    from app.runtime import workspaces
    workspaces._WATCH_AFTER_SECONDS = 600
    run(work)

loop.run_loop = alone

def look(line):  # called with "listening on ..."
    print([name for name in ("cel_expr_python", *{AT_FIRST_USE!r}) if name in sys.modules])
    typer.echo = lambda line: None
    os.kill(os.getpid(), signal.SIGTERM)

typer.echo = look
sys.argv[1:] = ["serve", "--port", "0", "--data-dir", *sys.argv[1:]]
main()
"""


_BUILD = """
import sys
from app.protocols.http.deferred_route import DeferredRoute

def endpoint(after: int | None = None, kinds: list[str] | None = None) -> None: ...

DeferredRoute("/", endpoint).build()
print("pydantic.v1" in sys.modules)
"""


def _printed(program: str, *arguments: str) -> str:
    finished = subprocess.run(
        [sys.executable, "-c", program, *arguments],
        capture_output=True, text=True, env=clean_environment(), cwd=ROOT, check=True,
    )  # fmt: skip
    return finished.stdout


def test_a_start_imports_only_what_a_plain_server_needs(tmp_path: Path) -> None:
    of_demo = "['cel_expr_python']\n"  # it has expressions
    assert _printed(_PROGRAM, str(tmp_path)) == of_demo  # on a new folder
    assert _printed(_PROGRAM, str(tmp_path)) == of_demo  # and on an existing one


def test_a_workspace_without_expressions_starts_without_their_library(tmp_path: Path) -> None:
    assert _printed(_PROGRAM, str(tmp_path), "--workspace", "workspaces/compare") == "[]\n"


def test_the_first_request_of_a_route_does_not_import_the_old_pydantic() -> None:
    assert _printed(_BUILD) == "False\n"
