"""A resumed run reports whether code has changed that its workspace does not hold."""

import asyncio
import shutil
import sys
from pathlib import Path
from typing import Any

import httpx2
import pytest

from app.core.resources import shipped
from app.core.settings import Settings
from tests.faults.listening import PAUSES, Listener
from tests.server import in_process

TOOL = '''
def fetch(what: str) -> str:
    """Fetches it."""
    return what + "{made}"
'''
DOCUMENTS = """
apiVersion: holdfast/v1
kind: Tool
metadata: {name: fetch}
spec: {kind: python, entry: "borrowed_tools.fetching:fetch", effect: readonly, approval: always}
---
apiVersion: holdfast/v1
kind: Model
metadata: {name: script}
spec:
  provider: scripted
  model: script
  capabilities: {streaming: true, tools: true}
  script:
    rules:
      - {match: {afterTool: fetch}, reply: {text: "fetched"}}
    default: {toolCalls: [{name: fetch, args: {what: it}}]}
---
apiVersion: holdfast/v1
kind: Agent
metadata: {name: fetcher}
spec: {model: script, tools: [fetch]}
"""


@pytest.mark.parametrize("change", ["nothing", "the module", "the server"])
async def test_a_run_that_goes_on_after_a_restart_says_whether_installed_code_is_another(
    settings: Settings, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, change: str
) -> None:
    root, package = tmp_path / "workspace", tmp_path / "site" / "borrowed_tools"
    shutil.copytree(shipped("workspaces") / "demo", root)
    (root / "agents" / "fetcher.yaml").write_text(DOCUMENTS)
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("")
    (package / "fetching.py").write_text(TOOL.format(made="!"))
    monkeypatch.syspath_prepend(package.parent)
    settings = settings.model_copy(update={"workspace": root})
    try:
        async with in_process(settings) as server, httpx2.AsyncClient(base_url=server.url) as http:
            listener = Listener(server.holdfast.store.hub)
            run = (await http.post("/api/runs", json={"agent": "fetcher", "input": "go"})).json()
            await listener.until([run["id"]], PAUSES)
            asked = listener.interrupt(run["id"])
        if change == "the module":
            (package / "fetching.py").write_text(TOOL.format(made="?"))
        elif change == "the server":
            monkeypatch.setattr("app.runtime.installed.__version__", "99")
        async with in_process(settings) as server, httpx2.AsyncClient(base_url=server.url) as http:
            answer = {"decision": "approve"}
            await http.post(f"/api/interrupts/{asked}/answer", json=answer)
            resumed = await _resumed(http, run["id"])
    finally:
        for name in ("borrowed_tools", "borrowed_tools.fetching"):
            sys.modules.pop(name, None)
    assert resumed["reason"] == "answer"
    assert resumed["codeChanged"] is (change != "nothing")


async def _resumed(http: httpx2.AsyncClient, run_id: str) -> dict[str, Any]:
    async with asyncio.timeout(30), http.stream("GET", f"/api/runs/{run_id}/stream") as lines:
        async for _ in lines.aiter_lines():
            pass
    events = (await http.get(f"/api/runs/{run_id}/events")).json()["items"]
    assert events[-1]["type"] == "runtime.request.completed"
    found: dict[str, Any] = next(event["payload"] for event in events if event["type"] == "runtime.request.resumed")
    return found
