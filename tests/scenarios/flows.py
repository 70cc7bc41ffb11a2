"""A workspace of workflows for tests: scripted agents, a tool that keeps a ledger of its calls, and many small graphs.

The ledger is a file outside the database: what it says was really done, whatever the log says.
"""

from pathlib import Path
from typing import Final

LEDGER: Final = "ledger.txt"

_BASE: Final = """
apiVersion: holdfast/v1
kind: Runtime
metadata: {name: runtime}
spec:
  defaultAgent: writer
  env: [FLOW_HOOK]
  hooks: [gate]
  routes: {ship: {workflow: release}, write: {agent: writer}}
---
apiVersion: holdfast/v1
kind: Model
metadata: {name: main}
spec:
  provider: scripted
  model: main
  script:
    rules:
      - {match: {system: until it shines}, reply: {text: "polished {{ input }}"}}
      - {match: {system: favourite colour is blue, contains: Which}, reply: {text: It is blue.}}
      - {match: {contains: topics please}, reply: {text: '{"topics": ["a", "b", "c"]}'}}
    default: {text: "wrote {{ input }}"}
---
apiVersion: holdfast/v1
kind: Agent
metadata: {name: writer}
spec: {model: main, instructions: Write.}
---
apiVersion: holdfast/v1
kind: Agent
metadata: {name: planner}
spec:
  model: main
  instructions: Plan.
  outputSchema:
    type: object
    required: [topics]
    properties: {topics: {type: array, items: {type: string}}}
---
apiVersion: holdfast/v1
kind: Tool
metadata: {name: note, description: Writes a line into the ledger.}
spec:
  kind: python
  entry: ledger:note
  effect: unsafe
  input:
    type: object
    required: [text]
    properties: {text: {type: string}}
  output:
    type: object
    required: [text]
    properties: {text: {type: string}}
---
apiVersion: holdfast/v1
kind: Tool
metadata: {name: look, description: Looks something up.}
spec:
  kind: python
  entry: ledger:look
  effect: readonly
  input:
    type: object
    required: [text]
    properties: {text: {type: string}}
---
apiVersion: holdfast/v1
kind: Tool
metadata: {name: fail, description: Fails until it was called so often.}
spec:
  kind: python
  entry: ledger:fail
  effect: keyed
  input:
    type: object
    required: [text, times]
    properties: {text: {type: string}, times: {type: integer}}
---
apiVersion: holdfast/v1
kind: Tool
metadata: {name: pay, description: Writes a line into the ledger; the first call with `bad` in its text fails.}
spec:
  kind: python
  entry: ledger:pay
  effect: unsafe
  input: {type: object, required: [text], properties: {text: {type: string}}}
---
apiVersion: holdfast/v1
kind: Tool
metadata: {name: much, description: Gives a large output.}
spec:
  kind: python
  entry: ledger:much
  effect: readonly
  input: {type: object, required: [kilobytes], properties: {kilobytes: {type: integer}}}
  output: {type: object, required: [end], properties: {text: {type: string}, end: {type: string}}}
---
apiVersion: holdfast/v1
kind: Tool
metadata: {name: sleep, description: Takes its time.}
spec:
  kind: python
  entry: ledger:sleep
  effect: readonly
  timeoutSeconds: 30
  input:
    type: object
    required: [seconds]
    properties: {seconds: {type: number}}
---
apiVersion: holdfast/v1
kind: Hook
metadata: {name: gate}
spec: {on: [WorkflowStart, WorkflowComplete], kind: python, entry: "ledger:hook"}
"""
_MORE: Final = """---
apiVersion: holdfast/v1
kind: Guardrail
metadata: {name: nosecrets}
spec: {kind: regex, action: block, config: {patterns: [secret word]}}
---
apiVersion: holdfast/v1
kind: Evaluator
metadata: {name: brief}
spec: {kind: cel, config: {expression: json.text.size() < 8}}
---
apiVersion: holdfast/v1
kind: Memory
metadata: {name: facts}
spec: {type: semantic}
---
apiVersion: holdfast/v1
kind: Agent
metadata: {name: keeper}
spec: {model: main, instructions: Remember., memory: [facts]}
---
apiVersion: holdfast/v1
kind: Agent
metadata: {name: polisher}
spec: {model: main, instructions: Polish., skills: [polish]}
"""
_SKILL: Final = """---
name: polish
description: Polishes a text.
triggers: [never said]
allowed-tools: []
---
Polish it until it shines.
"""
_LEDGER: Final = """
import asyncio
import os
from collections import Counter
from pathlib import Path

_times = Counter()


def _line(text):
    with Path(os.environ.get("FLOW_LEDGER", "/dev/null")).open("a") as file:
        file.write(text + "\\n")


async def note(text):
    _line(text)
    return {"text": text}


async def look(text):
    return {"text": text}


async def fail(text, times):
    _times[text] += 1
    if _times[text] <= times:
        raise ValueError(f"attempt {_times[text]}")
    return {"attempts": _times[text]}


async def pay(text):
    _times[text] += 1
    if "bad" in text and _times[text] == 1:
        raise ValueError("not this time")
    _line(f"paid {text}")
    return {"paid": text}


async def much(kilobytes):
    return {"text": "x" * kilobytes * 1024, "end": "the end"}


async def sleep(seconds):
    await asyncio.sleep(seconds)
    return {"slept": seconds}


def hook(subject):
    if isinstance(subject.get("input"), dict) and subject["input"].get("forbidden") == "start":
        return {"decision": "deny", "reason": "not today"}
    if subject.get("output") == {"text": "forbidden"}:
        return {"decision": "deny", "reason": "not this"}
    return {"decision": "allow"}
"""
FLOWS: Final[dict[str, str]] = {
    "pays-each": """
  nodes:
    - {id: pay, ref: tools.pay, foreach: input.of, concurrency: 3, retry: {attempts: 3}, with: {text: "{{ item }}"}}
""",
    "reads-much": """
  input: {type: object, required: [kilobytes], properties: {kilobytes: {type: integer}}}
  nodes:
    - {id: much, ref: tools.much, with: {kilobytes: "{{ input.kilobytes }}"}}
    - {id: again, ref: tools.look, with: {text: "{{ nodes.much.output.end }}"}}
""",
    "repeats": f"""
  nodes: [{{id: much, ref: tools.much, with: {{kilobytes: 900}}}}]
  result: {{copies: [{", ".join(['"{{ nodes.much.output }}"'] * 100)}]}}
""",
    "misfits": """
  subworkflows: {}
  nodes: [{id: inner, ref: workflows.reads-much, with: {input: "{{ input }}"}}]
""",
    "release": """
  nodes:
    - {id: plan, ref: agents.planner, with: {input: "topics please for {{ input.goal }}"}}
    - {id: study, ref: agents.writer, foreach: nodes.plan.output.topics, concurrency: 2}
    - {id: ok, ask: {kind: approval, title: "Ship {{ input.goal }}?", show: {notes: "{{ nodes.study.output }}"}}}
    - {id: ship, ref: tools.note, with: {text: "shipped {{ input.goal }}"}, retry: {attempts: 3}, timeoutSeconds: 60}
    - {id: later, wait: {seconds: 0.2}}
  edges:
    - {from: START, to: plan}
    - {from: plan, to: study}
    - {from: study, to: ok}
    - {from: ok, to: ship, condition: approved}
    - {from: ok, to: plan, condition: denied}
    - {from: ship, to: later}
    - {from: later, to: END}
  routers:
    ok: [{label: approved, when: "answer.decision == 'approve'"}, {label: denied}]
  cycles: {maxVisits: 3}
  result: {shipped: "{{ nodes.ship.output.text }}", study: "{{ nodes.study.output }}", rounds: "{{ visits.plan }}"}
""",
    "diamond": """
  nodes:
    - {id: a, ref: tools.look, with: {text: a}}
    - {id: b, ref: tools.look, with: {text: b}}
    - {id: c, ref: tools.look, with: {text: "c"}}
    - {id: d, ref: tools.look, with: {text: "{{ nodes.b.output.text }}{{ nodes.c.output.text }}"}}
  edges: [{from: START, to: a}, {from: a, to: b}, {from: a, to: c}, {from: b, to: d}, {from: c, to: d}]
""",
    "first": """
  nodes:
    - {id: quick, ref: tools.look, with: {text: quick}}
    - {id: slow, ref: tools.sleep, with: {seconds: 20}}
    - {id: asked, ask: {title: Never needed?}}
    - {id: winner, join: any, ref: tools.look, with: {text: done}}
  edges:
    - {from: START, to: quick}
    - {from: START, to: slow}
    - {from: START, to: asked}
    - {from: quick, to: winner}
    - {from: slow, to: winner}
    - {from: asked, to: winner}
""",
    "recovers": """
  nodes:
    - {id: flaky, ref: tools.fail, with: {text: "{{ input }}", times: 2}, retry: {attempts: 3}}
    - {id: broken, ref: tools.fail, with: {text: "{{ input }}!", times: 99}}
    - {id: helper, ref: tools.look, with: {text: "{{ nodes.broken.error.code }}"}}
    - {id: never, ref: tools.note, with: {text: never}}
  edges:
    - {from: START, to: flaky}
    - {from: flaky, to: broken}
    - {from: broken, to: helper, condition: failed}
    - {from: broken, to: never}
""",
    "timed": """
  nodes:
    - {id: long, ref: tools.sleep, with: {seconds: 20}, timeoutSeconds: 0.05, retry: {attempts: 2}}
    - {id: after, ref: tools.look, with: {text: "{{ nodes.long.error.code }}"}}
  edges: [{from: START, to: long}, {from: long, to: after, condition: failed}]
""",
    "outer": """
  subworkflows: {maxDepth: 2}
  nodes:
    - {id: inner, ref: workflows.asks, with: {input: "{{ input }}"}}
    - {id: last, ref: tools.look, with: {text: "{{ nodes.inner.output.answer }}"}}
""",
    "asks": """
  nodes:
    - id: question
      ask: {kind: question, title: "What about {{ input }}?", questions: [{key: what, question: What?}]}
  result: {answer: "{{ nodes.question.output.what }}"}
""",
    "denied": """
  nodes:
    - {id: ok, ask: {title: Go on?}}
    - {id: go, ref: tools.note, with: {text: gone}}
""",
    "chain": """
  nodes:
    - {id: one, ref: tools.note, with: {text: "one {{ input.mark }}"}}
    - {id: two, ref: agents.writer, with: {input: "two {{ input.mark }}"}}
    - {id: ok, ask: {title: Go on?}}
    - id: three
      ref: tools.note
      foreach: input.items
      with: {text: "three {{ item }} {{ input.mark }}"}
      concurrency: 1
    - {id: four, ref: workflows.leaf, with: {input: "{{ nodes.two.output }}"}}
  subworkflows: {}
  result: {two: "{{ nodes.two.output }}", three: "{{ nodes.three.output }}", four: "{{ nodes.four.output }}"}
""",
    "leaf": """
  nodes: [{id: note, ref: tools.note, with: {text: "leaf {{ input }}"}}]
""",
    "waits": """
  nodes:
    - {id: hold, wait: {seconds: 3600}}
    - {id: ok, ask: {title: "Go on with {{ input }}?"}}
    - {id: end, join: any, ref: tools.look, with: {text: "{{ input }}"}}
  edges: [{from: START, to: hold}, {from: START, to: ok}, {from: hold, to: end}, {from: ok, to: end}]
""",
    "beside": """
  nodes:
    - {id: ok, ask: {title: Go on?}}
    - {id: quick, ref: tools.look, with: {text: quick}}
    - {id: after, ref: tools.look, with: {text: after}}
    - {id: both, ref: tools.look, with: {text: all}}
  edges:
    - {from: START, to: ok}
    - {from: START, to: quick}
    - {from: quick, to: after}
    - {from: ok, to: both}
    - {from: after, to: both}
""",
    "steered": """
  nodes: [{id: ok, ask: {title: Go on?}}, {id: write, ref: agents.writer, with: {input: "{{ input }}"}}]
""",
    "guarded": """
  guardrails: {output: [nosecrets]}
  nodes: [{id: look, ref: tools.look, with: {text: "{{ input }}"}}]
""",
    "beside-a-question": """
  subworkflows: {}
  nodes:
    - {id: inner, ref: workflows.asks}
    - {id: hold, wait: {seconds: 0.1}}
    - {id: quick, ref: tools.look, with: {text: quick}}
    - {id: after, ref: tools.look, with: {text: after}}
    - {id: both, ref: tools.look, with: {text: "{{ nodes.inner.output.answer }}"}}
  edges:
    - {from: START, to: inner}
    - {from: START, to: hold}
    - {from: hold, to: quick}
    - {from: quick, to: after}
    - {from: inner, to: both}
    - {from: after, to: both}
""",
    "asks-about-each": """
  subworkflows: {}
  nodes: [{id: inner, ref: workflows.asks, foreach: input.of}]
  result: {answers: "{{ nodes.inner.output }}"}
""",
    "polished": """
  nodes:
    - {id: polish, ref: skills.polish, with: {input: "{{ input }}"}}
    - {id: named, ref: skills.polish, agent: polisher}
""",
    "keeps": """
  nodes: [{id: keep, ref: agents.keeper, foreach: input.of, concurrency: 1}]
  result: {said: "{{ nodes.keep.output }}"}
""",
    "watched": """
  guardrails: {input: [nosecrets], toolArguments: [nosecrets]}
  nodes: [{id: note, ref: tools.note, with: {text: "{{ input.first }} {{ input.second }}"}}]
""",
    "gated": """
  gates: [{evaluator: brief, mode: blocking}]
  nodes: [{id: look, ref: tools.look, with: {text: "{{ input }}"}}]
""",
    "gated-by-a-person": """
  gates: [{evaluator: brief, mode: blocking, onFail: ask}]
  nodes: [{id: look, ref: tools.look, with: {text: "{{ input }}"}}]
""",
    "soon": """
  nodes:
    - {id: hold, wait: {seconds: 0.2}}
    - {id: note, ref: tools.note, with: {text: "{{ input }}"}}
""",
    "later": """
  nodes:
    - {id: hold, wait: {seconds: 3600}}
    - {id: note, ref: tools.note, with: {text: "{{ input }}"}}
""",
    "alone": """
  nodes: [{id: hold, wait: {seconds: 3600}}]
""",
    "unknown": """
  adapter: nowhere
  nodes: [{id: a, ref: tools.look, with: {text: a}}]
""",
    "checked": """
  input: {type: object, required: [list], properties: {list: {type: array}, forbidden: {type: string}}}
  limits: {toolCalls: 2}
  nodes:
    - {id: many, ref: tools.look, foreach: input.list, with: {text: "{{ item }}"}}
""",
}


def make_workspace(folder: Path, flows: dict[str, str] | None = None, base: str = _BASE) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "base.yaml").write_text(base)
    (folder / "ledger.py").write_text(_LEDGER)
    head = "apiVersion: holdfast/v1\nkind: Workflow\nmetadata: {name: %s}\nspec:%s"
    documents = (head % (name, spec) for name, spec in (FLOWS if flows is None else flows).items())
    # Only what lists the guardrail has it: one that nobody asks is a mistake.
    more = _MORE if flows is None else ""
    (folder / "flows.yaml").write_text("---\n".join(documents) + more)
    if more:
        (folder / "skills" / "polish").mkdir(parents=True, exist_ok=True)
        (folder / "skills" / "polish" / "SKILL.md").write_text(_SKILL)
    return folder
