"""Spec-driven work for tests: artifacts that evaluators judge, named schemas, and a tool that delivers artifacts.

Leaves to `cycles`: the workspace that these documents are part of.
"""

from pathlib import Path
from typing import Final

_SCHEMA: Final = '{"type": "object", "required": ["title", "parts"], "properties": {"parts": {"type": "array"}}}'
_TOOL: Final = '''
async def deliver(name: str, text: str, ctx) -> int:
    """Stores an artifact."""
    return (await ctx.artifact(name, "text/markdown", text.encode())).version


def judge(record):
    raise RuntimeError("the evaluator is broken")
'''
_FLOWS: Final[dict[str, str]] = {
    # One phase each; what differs is how its artifact is checked.
    "scored": "artifact: {name: design.json, schema: schemas/design.json}, verify: {evaluator: has-parts}",
    "half-scored": "artifact: {name: design.json}, verify: {evaluator: half, minScore: 0.5}",
    "not-half-scored": "artifact: {name: design.json}, verify: {evaluator: half, minScore: 0.6}",
    "broken-evaluator": "artifact: {name: design.json}, verify: {evaluator: broken}",
    "unreadable-evaluator": "artifact: {name: design.json}, verify: {evaluator: unreadable}",
    "speechless-evaluator": "artifact: {name: design.json}, verify: {evaluator: speechless}",
    "published": "artifact: {name: design.json, schema: plan_v1}",
    "checked-by-file": "artifact: {name: design.json}, verify: {schema: schemas/empty.json}",
}
_EVALUATORS: Final[dict[str, str]] = {
    "has-parts": "{kind: cel, config: {expression: json.parts.size() > 0}}",
    "half": "{kind: model_judge, model: spec, config: {rubric: half}}",
    "speechless": "{kind: model_judge, model: spec, config: {rubric: silence}}",
    "broken": "{kind: python, entry: 'delivering:judge'}",
    "unreadable": "{kind: cel, config: {expression: json.nothing.here == 1}}",
}
_DOCUMENT: Final = "apiVersion: holdfast/v1\nkind: {0}\nmetadata: {{name: {1}}}\nspec: {2}\n"
_TOGETHER: Final = """
  subworkflows: {}
  nodes:
    - {id: spec, ref: workflows.feature, with: {input: "{{ input }}"}}
    - {id: hold, wait: {seconds: 0.1}}
    - {id: write, ref: tools.deliver, with: {name: requirements.md, text: Count things.}}
    - {id: end, ref: tools.deliver, with: {name: end.md, text: The end.}}
  edges:
    - {from: START, to: spec}
    - {from: START, to: hold}
    - {from: hold, to: write}
    - {from: spec, to: end}
    - {from: write, to: end}
  result: "{{ nodes.spec.output }}"
"""
RULES: Final = (
    '      - {match: {contains: \'"rubric":"half"\'}, reply: {text: \'{"score": 0.5, "reason": "half of it"}\'}}\n'
    "      - {match: {contains: '\"rubric\":\"silence\"'}, reply: {text: 'I had rather not say.'}}\n"
)
"""For the model of the example."""
DELIVERING: Final = (
    "      - {match: {system: You deliver, turn: 1}, reply: {toolCalls: [{name: deliver, args: "
    "{name: requirements.md, text: Count things.}}]}}\n"
    "      - {match: {system: You deliver}, reply: {text: Delivered.}}\n"
)
"""For a model that can use tools."""


def add_documents(folder: Path) -> None:
    (folder / "schemas").mkdir()
    (folder / "schemas" / "design.json").write_text(_SCHEMA)
    (folder / "schemas" / "empty.json").write_text('{"properties": {"parts": {"maxItems": 0}}}')
    (folder / "delivering.py").write_text(_TOOL)
    flows = {name: f"\n  phases: [{{id: design, ref: agents.designer, {more}}}]" for name, more in _FLOWS.items()}
    flows["together"] = _TOGETHER
    documents = [_DOCUMENT.format("Workflow", name, spec) for name, spec in flows.items()]
    documents += [_DOCUMENT.format("Evaluator", name, spec) for name, spec in _EVALUATORS.items()]
    documents.append(_DOCUMENT.format("Tool", "deliver", "{kind: python, entry: 'delivering:deliver', effect: keyed}"))
    documents.append(
        _DOCUMENT.format("Agent", "messenger", "{model: main, instructions: You deliver., tools: [deliver]}")
    )
    (folder / "spec-more.yaml").write_text("---\n".join(documents))


_NOTED: Final = """
apiVersion: holdfast/v1
kind: Runtime
metadata: {name: runtime}
spec: {defaultAgent: designer, env: [SPEC_LEDGER]}
---
apiVersion: holdfast/v1
kind: Model
metadata: {name: main}
spec:
  provider: scripted
  model: main
  capabilities: {tools: true}
  script:
    rules:
      - {match: {contains: rubric}, reply: {text: '{"score": 1, "reason": "good"}'}}
      - match: {system: You design, turn: 1}
        reply: {toolCalls: [{name: note, args: {text: done}}]}
      - {match: {system: You design}, reply: {text: '{"title": "A counter", "parts": ["store"]}'}}
      - {match: {system: You review}, reply: {text: '{"verdict": "pass", "feedback": "", "schema_version": "v1"}'}}
    default: {text: "# Tests"}
---
apiVersion: holdfast/v1
kind: Agent
metadata: {name: designer}
spec: {model: main, instructions: You design., tools: [note]}
---
apiVersion: holdfast/v1
kind: Agent
metadata: {name: tester}
spec: {model: main, instructions: You test.}
---
apiVersion: holdfast/v1
kind: Agent
metadata: {name: reviewer}
spec: {model: main, instructions: You review.}
---
apiVersion: holdfast/v1
kind: Evaluator
metadata: {name: good}
spec: {kind: model_judge, model: main, config: {rubric: It is good.}}
---
apiVersion: holdfast/v1
kind: Tool
metadata: {name: note, description: Writes a line into the ledger.}
spec: {kind: python, entry: "ledger:note", effect: unsafe}
---
apiVersion: holdfast/v1
kind: Workflow
metadata: {name: noted}
spec:
  phases:
    - id: design
      ref: agents.designer
      requires: [requirements.md]
      artifact: {name: design.json, schema: {type: object, required: [parts]}}
      verify: {rule: artifact.parts.size() > 0, evaluator: good}
    - {id: tests, ref: agents.tester, requires: [design.json], artifact: {name: tests.md}, verify: {agent: reviewer}}
"""
_LEDGER: Final = '''
import os


async def note(text: str, ctx) -> str:
    """Writes which run asked for it."""
    with open(os.environ["SPEC_LEDGER"], "a") as file:
        file.write(f"{ctx.run_id}\\n")
    return "noted"
'''


def make_workspace(folder: Path) -> Path:
    """A workspace of its own, in which the agent of a phase uses a tool that must not be repeated."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "all.yaml").write_text(_NOTED)
    (folder / "ledger.py").write_text(_LEDGER)
    return folder
