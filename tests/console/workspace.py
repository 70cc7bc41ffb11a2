"""The workspace of the console's tests: the demo, a workflow, a slow model, and texts that would like to be markup."""

import shutil
from pathlib import Path
from typing import Final

from app.core import json
from tests.server import ROOT

HOSTILE: Final = "<script>window.hacked = 1</script><img src=x onerror='window.hacked = 1'><b>bold</b>"
SLOW_PIECES: Final = 40


_DOCUMENTS: Final = f"""
apiVersion: holdfast/v1
kind: Model
metadata: {{name: staged}}
spec:
  provider: scripted
  model: staged
  capabilities: {{streaming: true, tools: true, input: [text, image, file]}}
  script:
    rules:
      - match: {{afterTool: echo}}
        reply: {{text: "Said {{{{ toolResult }}}}"}}
      - match: {{afterTool: ask_user}}
        reply: {{text: "Then I know: {{{{ toolResult }}}}"}}
      - match: {{afterTool: transfer}}
        reply: {{text: "The transfer: {{{{ toolResult }}}}"}}
      - match: {{contains: which size}}
        reply:
          toolCalls:
            - name: ask_user
              args:
                questions: [{{id: size, question: "Which size?", options: [S, M]}}, {{id: why, question: "Why?"}}]
      - match: {{contains: transfer it}}
        reply: {{toolCalls: [{{name: transfer, args: {{}}}}]}}
      - match: {{contains: slowly}}
        reply:
          chunks: [{", ".join(f"piece {number} " for number in range(SLOW_PIECES))}]
          chunkDelaySeconds: 0.1
      - match: {{contains: without end}}
        reply: {{chunks: [A word, another one]}}
        fail: {{kind: timeout, afterChunks: 1}}
      - match: {{contains: hostile tool}}
        reply: {{toolCalls: [{{name: echo, args: {{text: "{HOSTILE}"}}}}]}}
      - match: {{contains: hostile}}
        reply: {{text: "{HOSTILE}"}}
    default: {{text: "You said {{{{ input }}}}", chunkSize: 6}}
---
apiVersion: holdfast/v1
kind: Agent
metadata:
  name: staged
  description: "{HOSTILE}"
spec: {{model: staged, instructions: "Answer. {HOSTILE}", tools: [echo, ask_user, transfer]}}
---
apiVersion: holdfast/v1
kind: Tool
metadata: {{name: ask_user}}
spec: {{kind: builtin, effect: readonly}}
---
apiVersion: holdfast/v1
kind: Tool
metadata: {{name: transfer, description: Sends money; nobody knows the outcome of a call that was cut off.}}
spec: {{kind: python, entry: "transfers:transfer", effect: unsafe, input: {{type: object}}, output: {{type: string}}}}
---
apiVersion: holdfast/v1
kind: Memory
metadata: {{name: facts}}
spec: {{type: semantic}}
---
apiVersion: holdfast/v1
kind: Schedule
metadata: {{name: nightly}}
spec: {{cron: "30 3 * * *", timezone: Europe/Berlin, run: {{agent: echo, input: "the nightly report"}}}}
---
apiVersion: holdfast/v1
kind: Evaluator
metadata: {{name: brief}}
spec: {{kind: cel, config: {{expression: 'size(output) <= 120'}}}}
---
apiVersion: holdfast/v1
kind: Workflow
metadata: {{name: ship}}
spec:
  nodes:
    - {{id: write, ref: agents.staged, with: {{input: "write {{{{ input.goal }}}}"}}}}
    - {{id: ok, ask: {{kind: approval, title: "Ship {{{{ input.goal }}}}?"}}}}
    - {{id: tell, ref: tools.echo, with: {{text: "shipped {{{{ input.goal }}}}"}}}}
  edges:
    - {{from: START, to: write}}
    - {{from: write, to: ok}}
    - {{from: ok, to: tell}}
    - {{from: tell, to: END}}
"""

_TRANSFER: Final = '''
import threading


def transfer() -> str:
    """Send the money. It hangs until the server dies."""
    threading.Event().wait(120)
    return "sent"
'''
_RUNTIME: Final = """\
  outgoing: {webhooks: ["127.0.0.1"], private: ["127.0.0.1"]}
  retention: {threadsDays: 400, deltaDays: 30}
  trust: {extensions: warn}
"""
_MANIFEST: Final = {
    "name": "watcher",
    "version": "1.0.0",
    "agentId": "watcher",
    "displayName": "Watcher of the harbour",
    "capabilities": {"events": ["runtime.request.completed"], "actions": ["*"]},
}
_EXTENSION: Final = """
def handle(event):
    return None


def register(events):
    events.on("runtime.request.completed", handle)
"""


def make_workspace(folder: Path) -> Path:
    shutil.copytree(ROOT / "workspaces/demo", folder, ignore=shutil.ignore_patterns("__pycache__", "profiles"))
    (folder / "staged.yaml").write_text(_DOCUMENTS)
    (folder / "transfers.py").write_text(_TRANSFER)
    runtime = folder / "runtime.yaml"
    runtime.write_text(runtime.read_text() + _RUNTIME)
    extension = folder / "extensions/watcher"
    extension.mkdir(parents=True)
    (extension / "extension.manifest.json").write_bytes(json.dumps(_MANIFEST))
    (extension / "events.py").write_text(_EXTENSION)
    return folder
