"""One workspace with an agent for each adapter, and a tool that leaves a line for every time it acts."""

from collections.abc import Mapping
from pathlib import Path
from typing import Final

ADAPTERS: Final = ("langgraph", "deepagents", "openai_agents", "google_adk", "agent_framework", "pydantic_ai")

HEAD: Final = """\
apiVersion: holdfast/v1
kind: Runtime
metadata: {name: adapters}
spec: {defaultAgent: %s}
---
apiVersion: holdfast/v1
kind: Model
metadata: {name: script}
spec:
  provider: scripted
  model: script
  capabilities: {streaming: true, tools: true, parallelTools: true, structuredOutput: true}
  retry: {attempts: 1, totalSeconds: 0}
  script:
    rules:
%s
    default: {text: "about {{ input }}"}
---
apiVersion: holdfast/v1
kind: Tool
metadata: {name: note, description: Keeps a note.}
spec:
  kind: python
  entry: witness:note
  effect: unsafe
  input: {type: object, properties: {what: {type: string}}, required: [what]}
  output: {type: object}
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
AGENT: Final = """---
apiVersion: holdfast/v1
kind: Agent
metadata: {name: %s, description: An agent.}
spec:
  backend: %s
  model: script
  instructions: Be brief.
  tools: [note, publish]
%s"""
RULES: Final = (
    "{match: {afterTool: note}, reply: {text: noted}}",
    "{match: {afterTool: publish}, reply: {text: published}}",
    "{match: {contains: both}, reply: {toolCalls: [{name: publish, args: {at: home}}, {name: note, args: {what: a}}]}}",
    "{match: {contains: note}, reply: {toolCalls: [{name: note, args: {what: that}}]}}",
    "{match: {contains: publish}, reply: {toolCalls: [{name: publish, args: {at: home}}]}}",
    "{match: {afterTool: nosuch}, reply: {text: refused}}",
    "{match: {contains: unknown tool}, reply: {toolCalls: [{name: nosuch, args: {}}]}}",
)
WITNESS: Final = """
from pathlib import Path

def _line(text):
    with Path({path!r}).open("a") as lines:
        lines.write(text + "\\n")

def note(what: str) -> dict:
    _line("note " + what)
    return {{"kept": what}}

def publish(at: str) -> str:
    _line("publish " + at)
    return "done"
"""


def write(
    folder: Path,
    agents: Mapping[str, tuple[str, str]] | None = None,
    rules: tuple[str, ...] = RULES,
    files: Mapping[str, str] | None = None,
) -> Path:
    """`agents`: by name, the backend and more lines of the spec. Default: one of each adapter, named like it."""
    made = {kind: (kind, "") for kind in ADAPTERS} if agents is None else agents
    root = folder / "workspace"
    root.mkdir()
    text = HEAD % (next(iter(made)), "\n".join(f"      - {rule}" for rule in rules))
    text += "".join(AGENT % (name, backend, more) for name, (backend, more) in made.items())
    (root / "workspace.yaml").write_text(text)
    (root / "witness.py").write_text(WITNESS.format(path=str(folder / "effects")))
    for name, content in (files or {}).items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(content)
    return root


def effects(folder: Path) -> list[str]:
    found = folder / "effects"
    return found.read_text().splitlines() if found.exists() else []
