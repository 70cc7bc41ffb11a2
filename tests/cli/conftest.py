"""A stored thread that has something of everything, and the command line in this process."""

import asyncio
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import structlog
from typer.testing import CliRunner, Result

from app.cli.application import app
from app.cli.named_command import named_command
from app.core.principal import DEFAULT_TENANT
from app.core.settings import Settings
from app.events.catalog import Payload, artifact, interrupt, model, request, thread, tool
from app.events.recorder import Scope
from app.wiring.store import Store, open_store
from tests.databases import create_database
from tests.postgres import PostgresServer

THREAD = "thr_example"
RUN = "run_example"
SMALL = "thr_small"
USAGE = {"inputTokens": 7, "outputTokens": 3, "costUsd": 0.25}

Holdfast = Callable[..., Result]

STORY: list[Payload] = [
    request.RequestStarted(executor="executor_1", epoch=1),
    model.ModelRequested.model_validate(
        {"messageId": "msg_1", "model": "demo", "provider": "scripted", "providerModel": "s", "attempt": 1,
         "requestHash": "0" * 64, "parameters": {"temperature": 0.5}}
    ),
    model.ModelCompleted.model_validate(
        {"messageId": "msg_1", "model": "demo", "provider": "scripted", "text": "I'll ask \u2028\U0001f600",
         "toolCalls": [], "finishReason": "tool_use", "usage": USAGE}
    ),
    tool.ToolInvoked.model_validate(
        {"callId": "call_1", "tool": "add", "arguments": {"a": 1, "b": None}, "argumentHash": "1" * 64,
         "effect": "readonly"}
    ),
    tool.ToolResulted.model_validate({"callId": "call_1", "tool": "add", "ok": True, "output": 3}),
    artifact.ArtifactCreated.model_validate({"artifact": {"id": "art_1", "name": "sum.txt"}}),
    interrupt.InterruptRaised.model_validate(
        {"interruptId": "int_1", "kind": "approval", "title": "May I?", "expiresAt": "2027-01-01T00:00:00.000Z"}
    ),
    interrupt.InterruptResolved.model_validate(
        {"interruptId": "int_1", "answer": {"decision": "approve"}, "answeredBy": "user:local"}
    ),
    request.RequestCompleted(output="x" * 20_000, message_id="msg_2"),
]  # fmt: skip


async def fill(settings: Settings) -> None:
    async with open_store(settings) as store:
        await _record_story(store)
        await store.recorder.record(Scope(DEFAULT_TENANT, SMALL), thread.ThreadCreated(title="small"))


async def _record_story(store: Store) -> None:
    scope = Scope(DEFAULT_TENANT, THREAD, RUN, actor="user:local")
    await store.recorder.record(
        scope, thread.ThreadCreated(title="Grüße"), request.RequestQueued(agent="echo", input="how much is it?")
    )
    for payload in STORY:
        await store.recorder.record(scope, payload)


@pytest.fixture(scope="session")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("filled") / "data"
    asyncio.run(fill(Settings(data_dir=folder)))
    return folder


@pytest.fixture
def data_dir(filled: Path, tmp_path: Path) -> Path:
    """The filled data folder of a stopped server, for this test alone."""
    return Path(shutil.copytree(filled, tmp_path / "data"))


@pytest.fixture(scope="session")
def filled_postgres(postgres_server: PostgresServer) -> str:
    asyncio.run(create_database(postgres_server, "cli"))
    asyncio.run(fill(Settings(database_url=postgres_server.url("cli"))))
    return postgres_server.url("cli")


@pytest.fixture(params=["sqlite", "postgres"])
def place(request: pytest.FixtureRequest) -> list[str]:
    """The flags that lead to a filled database, of either kind, that no server holds; only to be read."""
    if request.param == "sqlite":
        return ["--data-dir", str(request.getfixturevalue("data_dir"))]
    return ["--database-url", request.getfixturevalue("filled_postgres")]


@pytest.fixture
def holdfast(monkeypatch: pytest.MonkeyPatch) -> Iterator[Holdfast]:
    """The command line in this process: arguments in, output and exit code out."""
    for name in ("HOLDFAST_URL", "HOLDFAST_API_KEY", "HOLDFAST_CONFIG", "HOLDFAST_DATA_DIR", "HOLDFAST_DATABASE_URL"):
        monkeypatch.delenv(name, raising=False)
    runner = CliRunner()

    def invoke(*arguments: object) -> Result:
        given = [str(argument) for argument in arguments]
        return runner.invoke(named_command(app, given), given)

    yield invoke
    # A command that started a server let it log to the terminal of the command, which is gone.
    structlog.reset_defaults()
