"""A small workspace with a scripted model, tools that leave witnesses, and whatever hooks a test gives it."""

from collections.abc import Mapping
from pathlib import Path

from app.core.settings import Settings

BASE = """\
apiVersion: holdfast/v1
kind: Runtime
metadata: {{name: test}}
spec: {{defaultAgent: clerk, hooks: [{hooks}]}}
---
apiVersion: holdfast/v1
kind: Model
metadata: {{name: script}}
spec:
  provider: scripted
  model: script
  capabilities: {{streaming: true, tools: true, parallelTools: true}}
{limits}  script:
    rules:
      - {{match: {{system: "Summarise the conversation"}}, reply: {{text: "they talked"}}}}
      - {{match: {{afterTool: look}}, reply: {{text: "seen {{{{ toolResult }}}}"}}}}
      - {{match: {{afterTool: publish}}, reply: {{text: "published"}}}}
      - {{match: {{contains: look}}, reply: {{toolCalls: [{{name: look, args: {{at: "{{{{ input }}}}"}}}}]}}}}
      - {{match: {{contains: publish}}, reply: {{toolCalls: [{{name: publish, args: {{at: home}}}}]}}}}
    default: {{text: "You said: {{{{ input }}}}"}}
---
apiVersion: holdfast/v1
kind: Agent
metadata: {{name: clerk}}
spec:
  model: script
  instructions: Be brief.
  tools: [look, publish]
  skills: [greet]
  maxTurns: 4
{agent}---
apiVersion: holdfast/v1
kind: Agent
metadata: {{name: parrot}}
spec: {{backend: echo}}
---
apiVersion: holdfast/v1
kind: Tool
metadata: {{name: look}}
spec: {{kind: python, entry: witness:look, effect: readonly, input: &none
  {{type: object, properties: {{at: {{type: string}}}}, required: [at]}}}}
---
apiVersion: holdfast/v1
kind: Tool
metadata: {{name: publish}}
spec: {{kind: python, entry: witness:look, effect: keyed, approval: always, input:
  {{type: object, properties: {{at: {{type: string}}}}, required: [at]}}}}
""".replace(" &none", "")

SKILL = """\
---
name: greet
description: Greets.
triggers: [hello]
allowed-tools: [look, publish]
---
Greet politely.
"""

WITNESS = '''
from pathlib import Path
from uuid import uuid4

def note(line):
    with Path({path!r}).open("a") as lines:
        lines.write(line + "\\n")

def look(at: str) -> str:
    note(f"tool {{at}}")
    return f"{{at}} card 4111 1111 1111 1111"

def allow(input, ctx):
    note(ctx.point)
    return {{"decision": "deny", "reason": "enough"}} if ctx.point == "Stop" else {{"decision": "allow"}}

def sign(input, ctx):
    """Never the same twice, so that a run which asked again would be found out."""
    note(ctx.point)
    return {{"decision": "transform", "output": {{"prompt": f"{{input['prompt']}} {{uuid4().hex}}"}}}}
'''


def hook(name: str, on: str, kind: str, more: str = "") -> str:
    return f"apiVersion: holdfast/v1\nkind: Hook\nmetadata: {{name: {name}}}\nspec: {{on: [{on}], {kind}{more}}}\n"


def python(name: str, on: str, function: str, more: str = "") -> str:
    return hook(name, on, f"kind: python, entry: '{function}'", more)


def builtin(name: str, on: str, entry: str, more: str = "") -> str:
    return hook(name, on, f"kind: builtin, entry: {entry}", more)


class Space:
    """The workspace in a folder, and what its witnesses saw."""

    def __init__(self, folder: Path) -> None:
        self.root, self.settings = folder / "workspace", Settings(data_dir=folder / "data")
        self._seen = folder / "seen"
        (self.root / "skills" / "greet").mkdir(parents=True)
        (self.root / "skills" / "greet" / "SKILL.md").write_text(SKILL)
        (self.root / "witness.py").write_text(WITNESS.format(path=str(self._seen)))

    def write(
        self, hooks: Mapping[str, str], *, rules: str = "", agent: str = "", limits: str = "", more: str = ""
    ) -> "Space":
        base = BASE.format(hooks=", ".join(hooks), agent=agent, limits=limits)
        (self.root / "workspace.yaml").write_text("---\n".join([base, *hooks.values(), *([more] if more else [])]))
        (self.root / "rules.py").write_text(rules)
        return self

    def seen(self) -> list[str]:
        return self._seen.read_text().splitlines() if self._seen.exists() else []
