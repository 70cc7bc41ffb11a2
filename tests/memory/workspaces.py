"""Workspaces with memory for tests: agents whose scripted model says what memory it was given."""

from pathlib import Path

RUNTIME = "apiVersion: holdfast/v1\nkind: Runtime\nmetadata: {name: runtime}\nspec: {defaultAgent: clerk}\n"


def memory(name: str, spec: str) -> str:
    return f"---\napiVersion: holdfast/v1\nkind: Memory\nmetadata: {{name: {name}}}\nspec: {spec}\n"


def agent(name: str, spec: str) -> str:
    return f"---\napiVersion: holdfast/v1\nkind: Agent\nmetadata: {{name: {name}}}\nspec: {spec}\n"


def model(rules: str, default: str = '{text: "I do not know."}') -> str:
    return f"""---
apiVersion: holdfast/v1
kind: Model
metadata: {{name: script}}
spec:
  provider: scripted
  model: script
  capabilities: {{tools: true}}
  script:
    rules:
{rules}    default: {default}
"""


def rule(match: str, reply: str) -> str:
    return f"      - match: {match}\n        reply: {reply}\n"


def write(folder: Path, *documents: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "runtime.yaml").write_text(RUNTIME)
    (folder / "all.yaml").write_text("".join(documents))
    return folder
