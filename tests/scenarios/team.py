"""The example team of the fifth source's tests: its workspace with a few more agents that go wrong on purpose.

Leaves to others: databases and processes (`conftest`).
"""

import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx2

from app.core import json
from app.core.resources import shipped
from app.events.envelope import Event
from app.protocols.dialects.native import read_export
from app.views.audit import Audit, audit
from tests.clients import submit

EXAMPLE = shipped("workspaces") / "plan-work-review"

_TEAM = """
---
apiVersion: holdfast/v1
kind: Agent
metadata: {{name: {name}}}
spec: {{backend: plan_work_review, model: {model}, tools: [echo], skills: [greet], hooks: [{hooks}], maxReworks: 0}}
"""
_MUMBLING = """
apiVersion: holdfast/v1
kind: Model
metadata: {name: mumbling}
spec:
  provider: scripted
  model: mumbling
  capabilities: {streaming: true, tools: true}
  script: {default: {text: "I would rather talk."}}
"""
_SLOW = """
apiVersion: holdfast/v1
kind: Model
metadata: {name: slow}
spec:
  provider: scripted
  model: slow
  capabilities: {streaming: true, tools: true}
  script:
    rules:
      - match: {system: review_result_v1}
        reply: {text: '{"verdict": "pass", "feedback": "fine", "schema_version": "v1"}'}
      - match: {system: worker_report_v1, afterTool: echo}
        reply:
          text: '{"output": "Hello at last", "steps_completed": ["s1"], "schema_version": "v1"}'
          delaySeconds: 1
      - match: {system: worker_report_v1}
        reply: {toolCalls: [{name: echo, args: {text: Hello}}]}
      - match: {system: plan_v1}
        reply:
          text: >-
            {"steps": [{"id": "s1", "description": "echo"}], "risks": [], "needs_advisor": false,
            "schema_version": "v1"}
    default:
      text: '{"intent": "greet", "constraints": [], "schema_version": "v1"}'
      delaySeconds: 0.3
"""
_HOOK = """
---
apiVersion: holdfast/v1
kind: Hook
metadata: {{name: {name}}}
spec: {{on: [{point}], kind: python, entry: "wrong:{name}", timeoutSeconds: 0.2}}
"""
_HANDLERS = """
import time

def throws(subject):
    raise RuntimeError("this hook is broken")

def sleeps(subject):
    time.sleep(1)
    return {"decision": "allow"}

def babbles(subject):
    return {"decision": "transform", "output": {"arguments": {"text": 7}}}

def refuses(subject):
    return {"decision": "deny", "reason": "not today"}
"""


def make_workspace(folder: Path) -> Path:
    shutil.copytree(EXAMPLE, folder)
    (folder / "wrong.py").write_text(_HANDLERS)
    points = {"throws": "PreToolUse", "sleeps": "PreToolUse", "babbles": "PreToolUse", "refuses": "UserPromptSubmit"}
    (folder / "hooks" / "wrong.yaml").write_text(
        "".join(_HOOK.format(name=name, point=point) for name, point in points.items())
    )
    (folder / "models" / "mumbling.yaml").write_text(_MUMBLING)
    (folder / "models" / "slow.yaml").write_text(_SLOW)
    teams = [_TEAM.format(name=f"team-{hook}", model="main", hooks=hook) for hook in points]
    teams.append(_TEAM.format(name="team-mumbles", model="mumbling", hooks=""))
    teams.append(_TEAM.format(name="team-slow", model="slow", hooks=""))
    wants = _TEAM.format(name="team-of-proof", model="main", hooks="").replace("[echo]", "[echo, clock]")
    teams.append(wants.replace("maxReworks: 0", "maxReworks: 0, evidence: [echo, clock]"))
    (folder / "agents" / "wrong.yaml").write_text("".join(teams))
    return folder


@dataclass(frozen=True)
class Played:
    """A run that has ended, with all that was recorded of it."""

    run: dict[str, Any]
    events: list[Event]

    @property
    def audit(self) -> Audit:
        return audit(self.events)

    @property
    def path(self) -> list[str]:
        return [payload["to"] for payload in self.payloads("runtime.role.transitioned")]

    def payloads(self, event_type: str) -> list[dict[str, Any]]:
        return [event.payload for event in self.events if event.type == event_type]


async def play(client: httpx2.AsyncClient, text: str, agent: str = "team") -> Played:
    return await read(client, await submit(client, agent, text, wait=20))


async def read(client: httpx2.AsyncClient, run: dict[str, Any]) -> Played:
    export = await client.get(f"/api/threads/{run['threadId']}/export")
    events = read_export(export.content.splitlines()).events
    return Played(run, [event for event in events if event.run_id == run["id"]])


async def events_jsonl(client: httpx2.AsyncClient, run: dict[str, Any]) -> list[dict[str, Any]]:
    export = await client.get(f"/api/threads/{run['threadId']}/export", params={"format": "agent-os"})
    return [json.loads(line) for line in export.content.splitlines()]
