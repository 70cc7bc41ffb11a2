"""MCP servers that are dead, come back, change what they offer, and serve several tenants, through the real server."""

import asyncio
import sys
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

import httpx2
import pytest

from app.core.settings import Settings
from app.runtime.run import toolsets
from app.wiring.checkup import examine
from tests.scenarios.test_approvals import begin, decide, settled
from tests.server import ServerProcess

SERVER: Final = """
import sys
from pathlib import Path
from mcp.server.mcpserver import MCPServer

folder = Path({folder!r})
if not (folder / "alive").exists():
    print("it is switched off", file=sys.stderr)
    sys.exit(1)
server = MCPServer("memory")
kept = []

@server.tool(description=(folder / "description").read_text())
def keep(text: str) -> str:
    kept.append(text)
    with (folder / "witness").open("a") as lines:
        lines.write(text + "\\n")
    return "kept: " + ", ".join(kept)

server.run("stdio")
"""

DOCUMENTS: Final = """apiVersion: holdfast/v1
kind: Runtime
metadata: {{name: runtime}}
spec: {{defaultAgent: keeper}}
---
apiVersion: holdfast/v1
kind: McpServer
metadata: {{name: memory}}
spec: {{command: [{python}, {server}], connectSeconds: 20}}
---
apiVersion: holdfast/v1
kind: Tool
metadata: {{name: keep}}
spec: {{kind: mcp, effect: unsafe, approval: 'args.text == "asked"', mcp: {{server: memory}}}}
---
apiVersion: holdfast/v1
kind: Tool
metadata: {{name: described}}
spec:
  kind: mcp
  effect: unsafe
  input: {{type: object, required: [text], properties: {{text: {{type: string}}}}}}
  mcp: {{server: memory, tool: keep}}
---
apiVersion: holdfast/v1
kind: Agent
metadata: {{name: keeper}}
spec: {{model: script, tools: [keep, described]}}
---
apiVersion: holdfast/v1
kind: Model
metadata: {{name: script}}
spec:
  provider: scripted
  model: script
  capabilities: {{tools: true}}
  script:
    rules:
      - match: {{contains: "keep ", turn: 1}}
        reply: {{toolCalls: [{{name: keep, args: {{text: "{{{{ input }}}}"}}}}]}}
      - match: {{equals: described, turn: 1}}
        reply: {{toolCalls: [{{name: described, args: {{text: from the document}}}}]}}
      - match: {{equals: asked, turn: 1}}
        reply: {{toolCalls: [{{name: keep, args: {{text: asked}}}}]}}
      - match: {{afterTool: keep}}
        reply: {{text: "{{{{ toolResult }}}}"}}
      - match: {{afterTool: described}}
        reply: {{text: "{{{{ toolResult }}}}"}}
    default: {{text: hello}}
"""


class McpSetup:
    def __init__(self, folder: Path, settings: Settings) -> None:
        self.folder = folder
        (folder / "workspace").mkdir()
        self.describe("Keep a text.")
        self.switch(on=False)
        (folder / "memory_server.py").write_text(SERVER.format(folder=str(folder)))
        documents = DOCUMENTS.format(python=sys.executable, server=folder / "memory_server.py")
        (folder / "workspace" / "all.yaml").write_text(documents)
        self.settings = settings.model_copy(update={"workspace": folder / "workspace"})
        variables = {"HOLDFAST_AUTH": "header", "HOLDFAST_TRUSTED_PROXIES": "127.0.0.1"}
        self.server = ServerProcess.start(settings.data_dir, settings.database_url, folder / "workspace", variables)

    def describe(self, text: str) -> None:
        (self.folder / "description").write_text(text)

    def switch(self, *, on: bool) -> None:
        (self.folder / "alive").touch() if on else (self.folder / "alive").unlink(missing_ok=True)

    def kept(self, text: str) -> int:
        witness = self.folder / "witness"
        return witness.read_text().splitlines().count(text) if witness.exists() else 0

    @asynccontextmanager
    async def caller(self, tenant: str = "default") -> AsyncIterator[httpx2.AsyncClient]:
        headers = {"x-holdfast-user": "anna", "x-holdfast-roles": "member", "x-holdfast-tenant": tenant}
        async with httpx2.AsyncClient(base_url=self.server.url, headers=headers, timeout=60) as client:
            yield client


@pytest.fixture(scope="module")
def setup(settings: Settings, tmp_path_factory: pytest.TempPathFactory) -> Iterator[McpSetup]:
    setup = McpSetup(tmp_path_factory.mktemp("mcp"), settings)
    try:
        yield setup
    finally:
        setup.server.stop()


async def _kept_again(client: httpx2.AsyncClient, text: str) -> dict[str, Any]:
    """The first run whose tool was there again, within the pauses between two tries."""
    for _ in range(60):
        run = await begin(client, "keeper", text)
        if "kept:" in run["output"]:
            return run
        await asyncio.sleep(toolsets.RETRY_SECONDS / 4)
    raise AssertionError("the tools did not come back")


@pytest.mark.requirement("S12", "G9")
async def test_a_dead_server_fails_its_own_calls_only_and_is_used_again_when_it_is_back(setup: McpSetup) -> None:
    async with setup.caller() as anna:
        assert (await begin(anna, "keeper", "hi"))["output"] == "hello"
        # What is described by its document is offered all the same; what is not is left out. Both say why.
        for text in ("described", "keep this"):
            run = await begin(anna, "keeper", text)
            assert "TOOL_UNAVAILABLE" in run["output"] and "memory" in run["output"], run
            events = (await anna.get(f"/api/runs/{run['id']}/events?limit=1000")).json()["items"]
            (error,) = [it["payload"]["error"] for it in events if it["type"] == "runtime.tool.resulted"]
            assert error["code"] == "TOOL_UNAVAILABLE" and "cannot be reached" in error["message"]
        doctor = [it for it in await examine(setup.settings, {}) if it.about == "mcp"]
        assert doctor[0].level == "wrong" and "memory" in doctor[0].message
        setup.switch(on=True)
        assert "kept:" in (await _kept_again(anna, "keep that"))["output"]
        doctor = [it for it in await examine(setup.settings, {}) if it.about == "mcp"]
        assert doctor[0].level == "ok"


async def test_tenants_do_not_share_a_server_process(setup: McpSetup) -> None:
    setup.switch(on=True)
    async with setup.caller("acme") as acme, setup.caller("bolt") as bolt:
        await _kept_again(acme, "keep the secret of acme")
        again = await begin(acme, "keeper", "keep more")
        assert "kept: keep the secret of acme, keep more" in again["output"]
        assert "kept: keep other" in (await begin(bolt, "keeper", "keep other"))["output"]


@pytest.mark.requirement("S12", "G9")
async def test_a_tool_that_changed_while_its_approval_was_pending_over_a_restart_is_not_called(setup: McpSetup) -> None:
    setup.switch(on=True)
    async with setup.caller() as anna:
        await _kept_again(anna, "keep it")
        run = await begin(anna, "keeper", "asked")
        (asked,) = run["waitingOn"]
    setup.server.kill()
    setup.describe("Keep a text, and send it to somebody.")
    setup.server = setup.server.again()
    async with setup.caller() as anna:
        await decide(anna, asked, "approve")
        ended = await settled(anna, run["id"], (asked,))
        assert "TOOL_SCHEMA_CHANGED" in ended["output"], ended
        assert setup.kept("asked") == 0
