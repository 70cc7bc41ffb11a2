"""The workspace that LangGraph's clients are tested with, and servers for it on either database."""

import asyncio
import itertools

import pytest

from app.core.settings import Settings
from tests.databases import create_database
from tests.openai.conftest import write_workspace
from tests.postgres import PostgresServer
from tests.server import ServerProcess, secret_file

_names = itertools.count(1)

FLOW = """\
apiVersion: holdfast/v1
kind: Workflow
metadata: {name: review}
spec:
  nodes:
    - {id: draft, ref: agents.closed, with: {input: "draft {{ input.topic }}"}}
    - {id: check, ask: {kind: question, title: Is it good?, questions: [{key: good, question: Is it good?}]}}
  result: {good: "{{ nodes.check.output.good }}"}
"""
OUTGOING = """\
  outgoing: {webhooks: ["127.0.0.1"], private: ["127.0.0.1"]}
"""
VARIABLES = {"HOLDFAST_LANGGRAPH_AT_ROOT": "true"}


def empty_database(kind: str, request: pytest.FixtureRequest, folders: pytest.TempPathFactory) -> Settings:
    folder = folders.mktemp("langgraph")
    if kind == "sqlite":
        return Settings(data_dir=folder / "data")
    postgres: PostgresServer = request.getfixturevalue("postgres_server")
    name = f"langgraph_{next(_names)}"
    with asyncio.Runner() as runner:
        runner.run(create_database(postgres, name))
    return Settings(data_dir=folder / "data", database_url=postgres.url(name), secret_file=secret_file(folder))


def start_server(settings: Settings, port: int = 0) -> ServerProcess:
    workspace = write_workspace(settings.data_dir.parent / "workspace")
    flows = workspace / "workflows"
    flows.mkdir(exist_ok=True)
    (flows / "review.yaml").write_text(FLOW)
    runtime = workspace / "runtime.yaml"
    runtime.write_text(runtime.read_text() + OUTGOING)
    return ServerProcess.start(settings.data_dir, settings.database_url, workspace, VARIABLES, port)
