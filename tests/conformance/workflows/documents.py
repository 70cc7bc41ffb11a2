"""Ten workflows that every adapter executes, with the outputs and the order of steps that they must give."""

from dataclasses import dataclass
from typing import Any, Final


@dataclass(frozen=True)
class Sample:
    name: str
    spec: str
    input: Any
    output: Any
    order: tuple[str, ...]
    answers: tuple[dict[str, Any], ...] = ()
    error: str | None = None
    parallel: frozenset[str] = frozenset()
    """Steps that are at work at the same time: in `order` by name, and ended in any order."""


SAMPLES: Final = (
    Sample(
        "line",
        """
  nodes:
    - {id: a, ref: tools.look, with: {text: "{{ input }}"}}
    - {id: b, ref: agents.writer, with: {input: "{{ nodes.a.output.text }}!"}}
""",
        "x",
        "wrote x!",
        ("a", "b"),
    ),
    Sample(
        "diamond",
        """
  nodes:
    - {id: a, ref: tools.look, with: {text: a}}
    - {id: b, ref: tools.look, with: {text: "{{ nodes.a.output.text }}b"}}
    - {id: c, ref: tools.look, with: {text: "{{ nodes.a.output.text }}c"}}
    - {id: d, ref: tools.look, with: {text: "{{ nodes.b.output.text }}{{ nodes.c.output.text }}"}}
  edges: [{from: START, to: a}, {from: a, to: b}, {from: a, to: c}, {from: b, to: d}, {from: c, to: d}]
""",
        "x",
        {"text": "abac"},
        ("a", "b", "c", "d"),
        parallel=frozenset("bc"),
    ),
    Sample(
        "router",
        """
  nodes:
    - {id: a, ref: tools.look, with: {text: "{{ input.text }}"}}
    - {id: big, ref: tools.look, with: {text: big}}
    - {id: small, ref: tools.look, with: {text: small}}
  edges: [{from: START, to: a}, {from: a, to: big, condition: big}, {from: a, to: small, condition: small}]
  routers: {a: [{label: big, when: "input.size > 10 && nodes.a.output.text == 'x'"}, {label: small}]}
""",
        {"text": "x", "size": 11},
        {"text": "big"},
        ("a", "big"),
    ),
    Sample(
        "loop",
        """
  nodes:
    - {id: a, ref: tools.look, with: {text: "{{ input }}"}}
    - {id: b, ref: tools.look, with: {text: b}}
  edges:
    - {from: START, to: a}
    - {from: a, to: b}
    - {from: b, to: a, condition: again}
    - {from: b, to: END, condition: enough}
  routers: {b: [{label: again, when: "visits.a < 3"}, {label: enough}]}
  cycles: {maxVisits: 3}
  result: {rounds: "{{ visits.a }}"}
""",
        "x",
        {"rounds": 3},
        ("a", "b", "a", "b", "a", "b"),
    ),
    Sample(
        "each",
        """
  nodes:
    - {id: plan, ref: agents.planner, with: {input: topics please}}
    - id: study
      ref: tools.look
      foreach: nodes.plan.output.topics
      with: {text: "{{ index }}{{ item }}"}
      concurrency: 2
""",
        "x",
        [{"text": "0a"}, {"text": "1b"}, {"text": "2c"}],
        ("plan", "study"),
    ),
    Sample(
        "failed",
        """
  nodes:
    - {id: a, ref: tools.fail, with: {text: "{{ input }}", times: 99}}
    - {id: b, ref: tools.look, with: {text: "{{ nodes.a.error.code }}"}}
    - {id: c, ref: tools.look, with: {text: c}}
  edges: [{from: START, to: a}, {from: a, to: b, condition: failed}, {from: a, to: c}]
""",
        "conformance",
        {"text": "TOOL_FAILED"},
        ("b",),
    ),
    Sample(
        "stops",
        """
  nodes:
    - {id: a, ref: tools.look, with: {text: a}}
    - {id: b, ref: tools.fail, with: {text: stops, times: 99}}
    - {id: c, ref: tools.look, with: {text: c}}
""",
        "x",
        None,
        ("a",),
        error="TOOL_FAILED",
    ),
    Sample(
        "asks",
        """
  nodes:
    - {id: a, ref: tools.look, with: {text: a}}
    - {id: ok, ask: {title: "Go on with {{ nodes.a.output.text }}?"}}
    - {id: beside, ref: tools.look, with: {text: beside}}
    - {id: go, ref: tools.look, with: {text: "{{ nodes.ok.output.decision }} {{ nodes.beside.output.text }}"}}
    - {id: stop, ref: tools.look, with: {text: stop}}
  edges:
    - {from: START, to: a}
    - {from: a, to: ok}
    - {from: a, to: beside}
    - {from: ok, to: go, condition: go}
    - {from: ok, to: stop, condition: stop}
    - {from: beside, to: go}
  routers: {ok: [{label: go, when: "answer.decision == 'approve'"}, {label: stop}]}
""",
        "x",
        {"text": "approve beside"},
        ("a", "beside", "ok", "go"),
        answers=({"decision": "approve"},),
    ),
    Sample(
        "nested",
        """
  nodes:
    - {id: a, ref: workflows.line, with: {input: "{{ input }}"}}
    - {id: later, wait: {seconds: 0.05}}
    - {id: b, ref: tools.look, with: {text: "{{ nodes.a.output }}"}}
  subworkflows: {maxDepth: 1}
""",
        "n",
        {"text": "wrote n!"},
        ("a", "later", "b"),
    ),
    Sample(
        "any",
        """
  nodes:
    - {id: a, ref: tools.look, with: {text: a}}
    - {id: slow, ask: {title: Never needed?}}
    - {id: winner, join: any, ref: tools.look, with: {text: "{{ nodes.a.output.text }}!"}}
  edges: [{from: START, to: a}, {from: START, to: slow}, {from: a, to: winner}, {from: slow, to: winner}]
""",
        "x",
        {"text": "a!"},
        ("a", "winner"),
    ),
)
