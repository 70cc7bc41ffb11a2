"""A small workspace with a scripted model, evaluators, and an agent with whatever gates a test gives it."""

from pathlib import Path

BASE = """\
apiVersion: holdfast/v1
kind: Runtime
metadata: {name: judged}
spec: {defaultAgent: clerk}
---
apiVersion: holdfast/v1
kind: Model
metadata: {name: main}
spec:
  provider: scripted
  model: main
  prices: {input: 1, output: 2}
  capabilities: {streaming: true, tools: true}
  script:
    rules:
      - {match: {system: "not accepted"}, reply: {text: "A polite answer, please and thank you.", chunkSize: 5}}
      - {match: {afterTool: look}, reply: {text: "please: {{ toolResult }}", chunkSize: 4}}
      - {match: {contains: look}, reply: {text: "Let me see.", toolCalls: [{name: look, args: {at: home}}]}}
      - {match: {contains: rude}, reply: {text: "Go away, you fool.", chunkSize: 3}}
    default: {text: "Yes, please: {{ input }}", chunkSize: 5}
---
apiVersion: holdfast/v1
kind: Model
metadata: {name: spare}
spec:
  provider: scripted
  model: spare
  capabilities: {streaming: true, tools: true}
  script: {default: {text: "The spare model says please."}}
---
apiVersion: holdfast/v1
kind: Model
metadata: {name: judge}
spec:
  provider: scripted
  model: judge
  script:
    rules:
      - {match: {contains: fool}, reply: {text: '{"score": 0.1, "reason": "an insult"}'}}
      - {match: {contains: nonsense}, reply: {text: 'I think it is good.'}}
      - {match: {contains: broken}, fail: {status: 400}}
    default: {text: '{"score": 0.9, "reason": "friendly"}'}
---
apiVersion: holdfast/v1
kind: Tool
metadata: {name: look}
spec: {kind: python, entry: tools:look, effect: readonly,
  input: {type: object, properties: {at: {type: string}}, required: [at]}, output: {type: string}}
---
apiVersion: holdfast/v1
kind: Evaluator
metadata: {name: polite}
spec: {kind: contains, config: {texts: [please]}}
---
apiVersion: holdfast/v1
kind: Evaluator
metadata: {name: friendly}
spec: {kind: model_judge, model: judge, config: {rubric: "The answer is friendly.", repeats: 3, seed: 7}}
---
apiVersion: holdfast/v1
kind: Evaluator
metadata: {name: own}
spec: {kind: python, entry: 'tools:judge', timeoutSeconds: 2}
"""
TOOLS = '''
import time
from holdfast import tool

def look(at: str) -> str:
    return f"at {at}"

def judge(run, config):
    """The input says how this evaluator behaves."""
    said = str(run["input"])
    if "raise" in said:
        raise RuntimeError("a secret of the evaluator")
    if "sleep" in said:
        time.sleep(10)
    if "text" in said:
        return "good"
    if "beyond" in said:
        return 7
    if "nan" in said:
        return float("nan")
    return {"score": 0.5, "reason": "half"}
'''


def evaluator(name: str, spec: str) -> str:
    return f"---\napiVersion: holdfast/v1\nkind: Evaluator\nmetadata: {{name: {name}}}\nspec: {spec}\n"


MODEL = "  model: main\n  tools: [look]\n"


def agent(name: str, gates: str, more: str = MODEL) -> str:
    head = f"---\napiVersion: holdfast/v1\nkind: Agent\nmetadata: {{name: {name}}}\nspec:\n"
    return f"{head}  gates: {gates}\n{more}"


def write(folder: Path, *documents: str) -> Path:
    """The workspace's folder."""
    root = folder / "workspace"
    root.mkdir(parents=True, exist_ok=True)
    (root / "workspace.yaml").write_text(BASE + "".join(documents))
    (root / "tools.py").write_text(TOOLS)
    return root
