"""The backends that pass the suite, and one workspace whose scripted model makes each of them do what a test wants.

To add a backend: one line in `LOOPS`. A kind whose extra is not installed is skipped; `make test-extras` and CI run
the suite in an environment that has them all.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from app.core import json
from app.wiring.kinds import installed_backends


@dataclass(frozen=True)
class Loop:
    kind: str
    resume: str = "replay"
    config: Mapping[str, Any] = field(default_factory=dict)
    """The agent's `config` section for it."""

    @property
    def installed(self) -> bool:
        kinds = installed_backends()
        return self.kind in kinds and kinds.usable(self.kind) is not None


LOOPS: Final = (
    Loop("native"),
    Loop("langgraph"),
    Loop("deepagents"),
    Loop("openai_agents"),
    Loop("google_adk"),
    Loop("agent_framework"),
    Loop("pydantic_ai"),
)

BASE: Final = """\
apiVersion: holdfast/v1
kind: Runtime
metadata: {name: loops}
spec: {defaultAgent: echo}
---
apiVersion: holdfast/v1
kind: Model
metadata: {name: script}
spec:
  provider: scripted
  model: script
  capabilities: {streaming: true, tools: true, parallelTools: true}
  retry: {attempts: 1, totalSeconds: 0}
  script:
    rules:
      - {match: {contains: nobody is there}, fail: {status: 503}}
      - {match: {contains: take your time}, reply: {chunks: ["one ", "two"], chunkDelaySeconds: 30}}
      - {match: {contains: on and on}, reply: {toolCalls: [{name: note, args: {what: again}}]}}
      - {match: {contains: "just answer"}, reply: {chunks: ["ans", "wered"]}}
      - match: {contains: all at once, afterTool: note}
        reply: {text: all done}
      - match: {contains: all at once}
        reply:
          toolCalls:
            - {name: note, args: {what: a}}
            - {name: publish, args: {at: home}}
            - {name: note, args: {what: b}}
      - {match: {contains: a wrong one, afterTool: note}, reply: {text: corrected}}
      - {match: {contains: a wrong one}, reply: {toolCalls: [{name: note, args: {}}]}}
      - {match: {contains: a foreign one, afterTool: forbidden}, reply: {text: refused}}
      - {match: {contains: a foreign one}, reply: {toolCalls: [{name: forbidden, args: {what: x}}]}}
      - {match: {contains: ask the others, afterTool: helper}, reply: {text: they did}}
      - match: {contains: ask the others}
        reply:
          toolCalls:
            - {name: helper, args: {input: note one}}
            - {name: helper, args: {input: publish it}}
      - {match: {contains: publish it, afterTool: publish}, reply: {text: published}}
      - {match: {contains: publish it}, reply: {toolCalls: [{name: publish, args: {at: home}}]}}
      - {match: {contains: note one, afterTool: note}, reply: {text: noted}}
      - {match: {contains: note one}, reply: {toolCalls: [{name: note, args: {what: one}}]}}
    default: {text: nothing to do}
---
apiVersion: holdfast/v1
kind: Agent
metadata: {name: echo}
spec: {backend: echo}
---
apiVersion: holdfast/v1
kind: Tool
metadata: {name: note, description: Keeps a note.}
spec:
  kind: python
  entry: witness:note
  effect: unsafe
  input: {type: object, properties: {what: {type: string}}, required: [what]}
---
apiVersion: holdfast/v1
kind: Tool
metadata: {name: forbidden, description: Not for this agent.}
spec:
  kind: python
  entry: witness:note
  effect: unsafe
  input: {type: object, properties: {what: {type: string}}, required: [what]}
---
apiVersion: holdfast/v1
kind: Tool
metadata: {name: publish, description: Publishes.}
spec:
  kind: python
  entry: witness:publish
  effect: unsafe
  approval: always
  input: {type: object, properties: {at: {type: string}}, required: [at]}
"""
AGENTS: Final = """\
---
apiVersion: holdfast/v1
kind: Agent
metadata: {name: loop}
spec: {backend: %(kind)s, model: script, tools: [note, publish], subagents: [helper], config: %(config)s}
---
apiVersion: holdfast/v1
kind: Agent
metadata: {name: narrow}
spec: {backend: %(kind)s, model: script, tools: [note], subagents: [helper], config: %(config)s}
---
apiVersion: holdfast/v1
kind: Agent
metadata: {name: giver}
spec:
  backend: %(kind)s
  model: script
  tools: [note]
  subagents: [{agent: helper, tools: [publish]}]
  config: %(config)s
---
apiVersion: holdfast/v1
kind: Agent
metadata: {name: helper, description: Helps with a part of the work.}
spec: {backend: %(kind)s, model: script, tools: [note, publish], config: %(config)s}
"""
WITNESS: Final = '''
import asyncio
from pathlib import Path

FILE = Path({path!r})

def _line(text):
    with FILE.open("a") as lines:
        lines.write(text + "\\n")

async def note(what: str) -> dict:
    """Takes a moment, so that whoever cuts it off is found out."""
    await asyncio.sleep(0.05)
    _line(what)
    return {{"kept": what}}

def publish(at: str) -> str:
    _line("published " + at)
    return "done"
'''


def write(folder: Path, loop: Loop) -> Path:
    root = folder / "workspace"
    root.mkdir()
    config = json.dumps({loop.kind: dict(loop.config)} if loop.config else {}).decode()
    (root / "workspace.yaml").write_text(BASE + AGENTS % {"kind": loop.kind, "config": config})
    (root / "witness.py").write_text(WITNESS.format(path=str(folder / "effects")))
    return root


def effects(folder: Path) -> list[str]:
    """What was done, in the order of the alphabet: parallel calls have none."""
    found = folder / "effects"
    return sorted(found.read_text().splitlines()) if found.exists() else []
