"""What a workspace demands of providers and MCP servers, through a run: refused with a list that a program can read."""

import sys
from pathlib import Path

import pytest

from app.core.settings import Settings
from tests.runs import ended, events_until, opened, payloads, submit

ROOT = Path(__file__).parents[3]
DOCUMENTS = """\
apiVersion: holdfast/v1
kind: Runtime
metadata: {{name: demands}}
spec: {{defaultAgent: dated}}
---
apiVersion: holdfast/v1
kind: Model
metadata: {{name: script}}
spec:
  provider: scripted
  model: script
  capabilities: {{streaming: false, tools: true}}
  script:
    rules:
      - {{match: {{contains: add, afterTool: add}}, reply: {{text: "{{{{ toolResult }}}}"}}}}
      - {{match: {{contains: add}}, reply: {{toolCalls: [{{name: add, args: {{a: 1, b: 2}}}}]}}}}
---
apiVersion: holdfast/v1
kind: Agent
metadata: {{name: dated}}
spec: {{modelPlan: {{primary: script, minProviderApiVersion: "2024-01-01"}}}}
---
apiVersion: holdfast/v1
kind: Agent
metadata: {{name: strict}}
spec: {{modelPlan: {{primary: script, strictCapabilityNegotiation: true}}}}
---
apiVersion: holdfast/v1
kind: Agent
metadata: {{name: adder}}
spec: {{model: script, tools: [add]}}
---
apiVersion: holdfast/v1
kind: McpServer
metadata: {{name: sums}}
spec:
  command: [{python}, -m, tests.tools.servers.mcp_server]
  env: {{PYTHONPATH: {root}}}
  mcpProtocolVersion: "2024-11-05"
  connectSeconds: 60
---
apiVersion: holdfast/v1
kind: Tool
metadata: {{name: add}}
spec:
  kind: mcp
  effect: readonly
  mcp: {{server: sums}}
  input: {{type: object, properties: {{a: {{type: integer}}, b: {{type: integer}}}}}}
"""


@pytest.mark.requirement("HK-28")
async def test_who_does_not_meet_the_demands_is_listed_and_not_called(settings: Settings, tmp_path: Path) -> None:
    folder = tmp_path / "workspace"
    folder.mkdir()
    (folder / "all.yaml").write_text(DOCUMENTS.format(python=sys.executable, root=ROOT))
    async with opened(settings, folder) as holdfast:
        for agent, model, lacks in (
            ("dated", None, ["apiVersion>=2024-01-01"]),
            ("dated", "script", ["apiVersion>=2024-01-01"]),
            ("strict", None, ["streaming"]),
        ):
            run = await submit(holdfast, agent, "hello", **({} if model is None else {"model_plan": model}))
            over, events = await ended(holdfast, run), await events_until(holdfast, run)
            assert over.error is not None and over.error["code"] == "NEGOTIATION_FAILED", over.error
            (negotiated,) = payloads(events, "model.negotiated")
            assert [it["lacks"] for it in negotiated["candidates"]] == [lacks]
            assert payloads(events, "model.requested") == []
        run = await submit(holdfast, "adder", "add")
        await ended(holdfast, run)
        (refused,) = payloads(await events_until(holdfast, run), "tool.resulted")
        assert (refused["ok"], refused["error"]["code"]) == (False, "MCP_PROTOCOL_MISMATCH")
