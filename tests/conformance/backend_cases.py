"""One workspace with an agent of every kind of backend, and the words that make each of them do what a test wants.

A new kind joins with its agent, and with the words that it has a way to obey.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

ANSWER, PUBLISH, WAIT, BREAK = "just answer", "publish it", "take your time", "nobody is there"

WORKSPACE: Final = """\
apiVersion: holdfast/v1
kind: Runtime
metadata: {name: conformance}
spec: {defaultAgent: native}
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
      - {match: {contains: nobody is there}, fail: {status: 503}}
      - {match: {contains: take your time}, reply: {chunks: ["one ", "two"], chunkDelaySeconds: 30}}
      - match: {system: review_result_v1}
        reply: {text: '{"verdict": "pass", "feedback": "fine", "schema_version": "v1"}'}
      - match: {system: worker_report_v1, afterTool: publish}
        reply: {text: '{"output": "published", "steps_completed": ["s1"], "schema_version": "v1"}'}
      - match: {system: worker_report_v1, contains: publish}
        reply: {toolCalls: [{name: publish, args: {at: home}}]}
      - match: {system: worker_report_v1}
        reply: {text: '{"output": "answered", "steps_completed": ["s1"], "schema_version": "v1"}'}
      - match: {system: plan_v1}
        reply:
          text: '{"steps": [{"id": "s1", "description": "do it"}], "risks": [], "needs_advisor": false,
            "schema_version": "v1"}'
      - match: {system: lead_directive_v1}
        reply: {text: '{"intent": "do it", "constraints": [], "needs_advisor": false, "schema_version": "v1"}'}
      - {match: {afterTool: publish}, reply: {text: published}}
      - {match: {contains: publish}, reply: {toolCalls: [{name: publish, args: {at: home}}]}}
    default: {text: answered}
---
apiVersion: holdfast/v1
kind: Agent
metadata: {name: echo}
spec: {backend: echo}
---
apiVersion: holdfast/v1
kind: Agent
metadata: {name: native}
spec: {backend: native, model: script, tools: [publish]}
---
apiVersion: holdfast/v1
kind: Agent
metadata: {name: plan_work_review}
spec: {backend: plan_work_review, model: script, tools: [publish], skills: [publishing]}
---
apiVersion: holdfast/v1
kind: Tool
metadata: {name: publish}
spec:
  kind: python
  entry: witness:publish
  effect: keyed
  approval: always
  input: {type: object, properties: {at: {type: string}}, required: [at]}
"""
SKILL: Final = (
    "---\nname: publishing\ndescription: Publishes.\ntriggers: [publish]\nallowed-tools: [publish]\n---\nDo it.\n"
)
WITNESS: Final = '''
from pathlib import Path

def publish(at: str) -> str:
    """Leaves a line for every time it acts."""
    with Path({path!r}).open("a") as lines:
        lines.write(at + "\\n")
    return "done"
'''


@dataclass(frozen=True)
class BackendCase:
    kind: str
    says: Mapping[str, str]
    """What it answers to the words that it has a way to obey."""


BACKEND_CASES: Final = (
    BackendCase("echo", {ANSWER: ANSWER}),
    BackendCase("native", {ANSWER: "answered", PUBLISH: "published", WAIT: "", BREAK: ""}),
    BackendCase("plan_work_review", {ANSWER: "answered", PUBLISH: "published", WAIT: "", BREAK: ""}),
)


def write(folder: Path) -> Path:
    root = folder / "workspace"
    (root / "skills" / "publishing").mkdir(parents=True)
    (root / "skills" / "publishing" / "SKILL.md").write_text(SKILL)
    (root / "workspace.yaml").write_text(WORKSPACE)
    (root / "witness.py").write_text(WITNESS.format(path=str(folder / "effects")))
    return root


def effects(folder: Path) -> list[str]:
    found = folder / "effects"
    return found.read_text().splitlines() if found.exists() else []
