"""A workspace whose tools leave a line for every time they act, and what those lines must say after any fault.

The lines are a plain file next to the database: they stay when the process goes, and nothing in `app/` reads them.
"""

import os
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from app.core.resources import shipped

_MODULE: Final = '''
import contextlib
import os
import signal
import time

PLACE = {place!r}


def act(text: str, ctx) -> dict:
    """Acts once for a key, however often it is called; the line says that it was called."""
    line = f"{{ctx.run_id}} {{ctx.call_id}} {{ctx.idempotency_key}} {{os.getpid()}}\\n".encode()
    file = os.open(PLACE, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600)
    known = os.read(file, 10**8)
    os.write(file, line)
    os.close(file)
    first = ctx.call_id.encode() not in known
    if "always kill" in text:
        with contextlib.suppress(FileNotFoundError):
            open(PLACE + ".gate").close()
    if ("die inside" in text and first) or "always kill" in text:
        os.kill(os.getpid(), signal.SIGKILL)
    if "slowly" in text:
        time.sleep(0.02)
    calls = {{seen.split()[1] for seen in (known + line).decode().splitlines() if seen.startswith(ctx.run_id)}}
    return {{"done": True, "calls": len(calls)}}
'''

_TOOL: Final = """
---
apiVersion: holdfast/v1
kind: Tool
metadata: {{name: {name}}}
spec:
  kind: python
  entry: witness:act
  effect: {effect}
  approval: {approval}
  input: {{type: object, properties: {{text: {{type: string}}}}, required: [text]}}
  output: {{type: object, required: [done]}}
"""

_AGENT: Final = """
apiVersion: holdfast/v1
kind: Model
metadata: {name: script}
spec:
  provider: scripted
  model: script
  capabilities: {streaming: true, tools: true, parallelTools: true}
  script:
    rules:
      - {match: {afterTool: keyed}, reply: {text: "kept", chunkSize: 2}}
      - {match: {afterTool: readonly}, reply: {text: "read", chunkSize: 2}}
      - {match: {afterTool: unsafe}, reply: {text: "dared", chunkSize: 2}}
      - {match: {afterTool: asked}, reply: {text: "allowed", chunkSize: 2}}
      - match: {contains: take your time}
        reply: {chunks: [one, two, three, four, five, six, seven, eight, nine, ten], chunkDelaySeconds: 0.05}
      - {match: {contains: keep}, reply: {toolCalls: [{name: keyed, args: {text: "{{ input }}"}}]}}
      - {match: {contains: read}, reply: {toolCalls: [{name: readonly, args: {text: "{{ input }}"}}]}}
      - {match: {contains: dare}, reply: {toolCalls: [{name: unsafe, args: {text: "{{ input }}"}}]}}
      - {match: {contains: ask}, reply: {toolCalls: [{name: asked, args: {text: "{{ input }}"}}]}}
    default: {text: "You said: {{ input }}", chunkSize: 8}
---
apiVersion: holdfast/v1
kind: Agent
metadata: {name: worker}
spec: {model: script, tools: [keyed, readonly, unsafe, asked]}
"""

_SUMMING: Final = """
apiVersion: holdfast/v1
kind: Model
metadata: {name: summing-script}
spec:
  provider: scripted
  model: script
  capabilities: {streaming: true, tools: true}
  script:
    rules:
      - {match: {system: Summarise the conversation}, reply: {text: "what was said"}}
      - {match: {afterTool: keyed, toolResult: '"calls":4'}, reply: {text: "kept four"}}
    default: {toolCalls: [{name: keyed, args: {text: "again"}}]}
---
apiVersion: holdfast/v1
kind: Agent
metadata: {name: summing}
spec:
  model: summing-script
  tools: [keyed]
  contextPolicy: {strategy: summarise, compactAtTokens: 10, keepLast: 2}
"""
"""An agent that calls its tool four times and sums up what it said after the third."""

_TOOLS: Final = (("keyed", "keyed", "never"), ("readonly", "readonly", "never"), ("unsafe", "unsafe", "never"),
                 ("asked", "keyed", "always"))  # fmt: skip


@dataclass(frozen=True, slots=True)
class Executed:
    run_id: str
    call_id: str
    key: str
    pid: int


class Witness:
    """The workspace to serve, and the executions that its tools have reported."""

    def __init__(self, folder: Path) -> None:
        self.workspace = folder / "workspace"
        self._lines = folder / "executions"
        self._gate = folder / "executions.gate"
        shutil.copytree(shipped("workspaces") / "demo", self.workspace)
        (self.workspace / "witness.py").write_text(_MODULE.format(place=str(self._lines)))
        tools = "".join(_TOOL.format(name=name, effect=effect, approval=approval) for name, effect, approval in _TOOLS)
        (self.workspace / "tools" / "witness.yaml").write_text(tools)
        (self.workspace / "models" / "script.yaml").write_text(_AGENT)
        (self.workspace / "models" / "summing.yaml").write_text(_SUMMING)

    def shut_gate(self) -> None:
        """No tool kills its server before `open_gate`: it waits in the opening of a pipe that nobody writes to."""
        os.mkfifo(self._gate)

    def open_gate(self) -> None:
        writer = os.open(self._gate, os.O_RDWR)
        self._gate.unlink()
        os.close(writer)

    def executions(self) -> list[Executed]:
        lines = self._lines.read_text().splitlines() if self._lines.exists() else []
        return [Executed(run, call, key, int(pid)) for run, call, key, pid in map(str.split, lines)]

    def of(self, run_id: str) -> int:
        """How often a tool was called for the run."""
        return sum(one.run_id == run_id for one in self.executions())

    def assert_one_effect_each(self) -> None:
        """A call has one key through all its attempts, and of its own: who counts by key counts one effect."""
        keys = {(one.call_id, one.key) for one in self.executions() if one.key != "None"}
        assert len({call for call, _ in keys}) == len({key for _, key in keys}) == len(keys)
