"""The workspace that clients of other protocols are tested with: the demo, some tools for everybody, a workflow."""

import shutil
from pathlib import Path
from typing import Final

from tests.server import ROOT

PERSON_WAIT: Final = "1.5"
"""Seconds that a stream waits for a person, for clients that cannot ask theirs."""

_DOCUMENTS: Final = """
apiVersion: holdfast/v1
kind: Agent
metadata: {name: helper, description: Uses the client's tools.}
spec: {model: helper, clientTools: true, tools: [ask_user]}
---
apiVersion: holdfast/v1
kind: Tool
metadata: {name: ask_user, description: Asks.}
spec: {kind: builtin, effect: readonly}
---
apiVersion: holdfast/v1
kind: Model
metadata: {name: helper}
spec:
  provider: scripted
  model: helper
  capabilities: {streaming: true, tools: true, parallelTools: true}
  script:
    rules:
      - {match: {afterTool: weather}, reply: {text: "The page says: {{ toolResult }}", chunkSize: 8}}
      - {match: {afterTool: ask_user}, reply: {text: "You answered: {{ toolResult }}", chunkSize: 8}}
      - {match: {contains: weather}, reply: {text: "Let me look.", toolCalls: [{name: weather, args: {city: Oslo}}]}}
      - match: {contains: ask me}
        reply: {toolCalls: [{name: ask_user, args: {title: Colour, questions: [{id: colour, question: Which?}]}}]}
    default: {text: "You said: {{ input }}", chunkSize: 8}
---
apiVersion: holdfast/v1
kind: Agent
metadata: {name: holder, description: Answers as soon as the file that the message names exists.}
spec: {model: holder, tools: [hold]}
---
apiVersion: holdfast/v1
kind: Tool
metadata: {name: hold, description: Waits for a file.}
spec:
  kind: python
  entry: hold:hold
  effect: readonly
  timeoutSeconds: 60
  input: {type: object, required: [path], properties: {path: {type: string}}}
---
apiVersion: holdfast/v1
kind: Model
metadata: {name: holder}
spec:
  provider: scripted
  model: holder
  capabilities: {streaming: true, tools: true}
  script:
    rules: [{match: {afterTool: hold}, reply: {chunks: ["One, ", "two, ", "three."]}}]
    default: {toolCalls: [{name: hold, args: {path: "{{ input }}"}}]}
---
apiVersion: holdfast/v1
kind: Workflow
metadata: {name: twice, description: Says it twice.}
spec:
  input: {type: object, required: [text], properties: {text: {type: string}}}
  nodes:
    - {id: first, ref: tools.echo, with: {text: "{{ input.text }}"}}
    - {id: second, ref: tools.echo, with: {text: "{{ nodes.first.output.text }} again"}}
  edges:
    - {from: START, to: first}
    - {from: first, to: second}
    - {from: second, to: END}
"""
_HOLD: Final = """
import asyncio
from pathlib import Path


async def hold(path):
    while not Path(path).exists():
        await asyncio.sleep(0.02)
    return {"found": path}
"""


def make_workspace(root: Path) -> Path:
    shutil.copytree(ROOT / "workspaces" / "demo", root)
    runtime = root / "runtime.yaml"
    lines = runtime.read_text().replace(
        "  busyPolicy: enqueue\n", "  busyPolicy: enqueue\n  mcp: {tools: [calculator, note*, publish, echo]}\n"
    )
    runtime.write_text(lines)
    (root / "dialects.yaml").write_text(_DOCUMENTS)
    (root / "hold.py").write_text(_HOLD)
    return root
