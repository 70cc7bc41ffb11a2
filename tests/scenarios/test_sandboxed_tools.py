"""Tools that are programs, and the file tools, through the real server, with the data folder inside the workspace."""

import asyncio
import os
import stat
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import Any

import httpx2
import pytest

from tests.server import ServerProcess

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the sandbox is Linux's")

LOOK = """#!{python} -IS
import json, sys
found = {{}}
for path in json.load(sys.stdin)["paths"]:
    try:
        found[path] = open(path, "rb").read().decode(errors="replace")
    except OSError as error:
        found[path] = type(error).__name__
print(json.dumps(found))
"""
WAIT = """#!{python} -IS
import json, os, time
open(os.environ["PLACE"] + "/begun", "w").close()
while not os.path.exists(os.environ["PLACE"] + "/enough"):
    time.sleep(0.01)
print(json.dumps(len(os.environ["TOKEN"])))
"""
DOCUMENTS = """apiVersion: holdfast/v1
kind: Runtime
metadata: {{name: sandboxed, description: Programs.}}
spec: {{defaultAgent: echo, env: [TOOL_TOKEN]{runtime}}}
---
apiVersion: holdfast/v1
kind: Agent
metadata: {{name: echo, description: Says it again.}}
spec: {{backend: echo}}
---
apiVersion: holdfast/v1
kind: Tool
metadata: {{name: look, description: Reads files.}}
spec:
  kind: subprocess
  effect: readonly
  input: {{type: object, required: [paths], properties: {{paths: {{type: array, items: {{type: string}}}}}}}}
  subprocess: {{command: [./look.py]}}
---
apiVersion: holdfast/v1
kind: Tool
metadata: {{name: wait, description: Waits for a file.}}
spec:
  kind: subprocess
  effect: readonly
  input: {{type: object, properties: {{}}}}
  subprocess:
    command: [./wait.py]
    env: {{TOKEN: "${{env:TOOL_TOKEN}}", PLACE: "{place}"}}
    writable: [out]
---
apiVersion: holdfast/v1
kind: Tool
metadata: {{name: read_file, description: Reads a file.}}
spec: {{kind: builtin, effect: readonly}}
"""
TOKEN = "sk-only-for-the-tool-4711"


def make(folder: Path, runtime: str = "") -> Path:
    workspace = folder / "workspace"
    workspace.mkdir()
    for name, text in (("look.py", LOOK), ("wait.py", WAIT)):
        (workspace / name).write_text(text.format(python=sys.executable))
        (workspace / name).chmod(0o755)
    place = workspace / "data" / "files" / "out"
    (workspace / "all.yaml").write_text(DOCUMENTS.format(runtime=runtime, place=place))
    (workspace / ".env").write_text("KEY=sk-dotenv")
    (workspace / ".env").chmod(0o644)
    return workspace


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    workspace = make(tmp_path_factory.mktemp("sandboxed"))
    data = workspace / "data"
    data.mkdir(mode=0o755)
    (data / "notes.txt").write_text("from before")
    (data / "notes.txt").chmod(0o644)
    server = ServerProcess.start(data, workspace=workspace, variables={"TOOL_TOKEN": TOKEN})
    yield server
    server.stop()


@pytest.fixture
async def client(server: ServerProcess) -> AsyncIterator[httpx2.AsyncClient]:
    async with httpx2.AsyncClient(base_url=server.url, timeout=60, verify=False) as client:
        yield client


async def invoke(client: httpx2.AsyncClient, tool: str, **arguments: Any) -> dict[str, Any]:
    answer = await client.post(f"/api/tools/{tool}/invoke", json={"arguments": arguments})
    run: dict[str, Any] = answer.json()
    return run


@pytest.mark.requirement("S15", "G21")
async def test_a_program_reads_its_workspace_but_neither_the_data_folder_nor_dotenv_in_it(
    client: httpx2.AsyncClient, server: ServerProcess
) -> None:
    workspace = server.data_dir.parent
    secret = [
        server.data_dir / "holdfast.db",
        server.data_dir / "lock",
        server.data_dir / "notes.txt",
        workspace / ".env",
    ]
    open_to_all = workspace / "all.yaml"
    run = await invoke(client, "look", paths=[str(path) for path in [*secret, open_to_all]])
    assert run["status"] == "completed", run
    found = run["output"]
    assert (
        str(found).count("Error") >= len(secret) and "sk-dotenv" not in str(found) and "from before" not in str(found)
    )
    assert "kind: Runtime" in str(found)


@pytest.mark.requirement("G21", "S15")
async def test_a_tools_secret_is_in_no_command_line_while_it_runs(
    client: httpx2.AsyncClient, server: ServerProcess
) -> None:
    place = server.data_dir / "files" / "out"
    running = asyncio.create_task(invoke(client, "wait"))
    async with asyncio.timeout(30):
        while not (place / "begun").exists():  # noqa: ASYNC110  # the event is a file of another process
            await asyncio.sleep(0.01)
    lines = [line for name in os.listdir("/proc") if name.isdigit() and (line := command_line(name))]
    (place / "enough").touch()
    run = await running
    assert (run["status"], run["output"]) == ("completed", len(TOKEN)), run
    assert any(b"wait.py" in line for line in lines)
    assert [line for line in lines if TOKEN.encode() in line] == []


def command_line(pid: str) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


@pytest.mark.requirement("S22")
async def test_a_loose_data_folder_is_tightened_at_the_start_and_the_log_says_so(server: ServerProcess) -> None:
    data = server.data_dir
    loose = [path.name for path in [data, *data.iterdir()] if stat.S_IMODE(path.lstat().st_mode) & 0o077]
    assert loose == []
    assert {"holdfast.db", "lock", "files"} <= {path.name for path in data.iterdir()}
    assert "data_dir.tightened" in server.errors() and "notes.txt" in server.errors()


@pytest.mark.requirement("S16", "G13")
async def test_file_tools_that_are_asked_for_folders_leak_no_descriptor(
    client: httpx2.AsyncClient, server: ServerProcess
) -> None:
    await invoke(client, "read_file", path=".")
    before = len(os.listdir(f"/proc/{server.pid}/fd"))
    for path in [".", "..", "../../holdfast.db", "/etc/passwd", "nothing"] * 8:
        run = await invoke(client, "read_file", path=path)
        assert run["status"] == "failed", run
    assert len(os.listdir(f"/proc/{server.pid}/fd")) <= before + 3  # the loop's own come and go


@pytest.mark.requirement("S15")
async def test_readiness_says_how_complete_the_sandbox_is(client: httpx2.AsyncClient, server: ServerProcess) -> None:
    sandbox = None
    async with asyncio.timeout(60):
        while sandbox is None:
            answer = await client.get("/readyz")
            assert answer.status_code == 200, answer.text
            sandbox = answer.json()["sandbox"]
    assert "sandbox.broken" not in server.errors()
    assert sandbox["level"] in ("full", "partial", "none")
    assert (sandbox["level"] == "full") == (sandbox["missing"] == [])
