"""Blocking gates on a curated set of answers: fewer than one in a hundred good ones is refused, and no bad one passes.

`curated.jsonl` has for each gate answers that a person would let through, with the traps that such rules fall into
(words within words, other scripts, other spellings of the same JSON), and answers that must not pass.
"""

import json
from collections import Counter
from pathlib import Path
from typing import Any, Final

import pytest

from app.core.clock import SystemClock
from app.core.errors import Failure
from app.evals.declared import Gates
from app.evals.kind import EvaluatorDeps
from app.policy.evaluator import JudgeAnswer, JudgeQuestion
from app.policy.gates import judge
from app.views.run_record import CalledTool, RunRecord
from app.wiring.kinds import evaluators, kind_catalog
from app.workspace.compile import compile
from app.workspace.compiled import Compiled
from tests.workspace.building import document, files

ANSWERS: Final = [json.loads(line) for line in Path(__file__).with_name("curated.jsonl").read_text().splitlines()]
SPECS: Final = {
    "kind": "kind: regex\nconfig: {pattern: '(?i)\\b(idiot|stupid|fool)\\b', absent: true}",
    "order": "kind: regex\nconfig: {pattern: '(?i)\\border \\d+'}",
    "shape": "kind: schema\nconfig: {schema: {type: object, required: [status, amount], properties: "
    "{status: {enum: [open, closed, waiting]}, amount: {type: number, minimum: 0}}}}",
    "steps": "kind: trajectory\nconfig: {calls: [find_order, read_policy]}",
    "brief": "kind: cel\nconfig: {expression: 'size(output) <= 400'}",
}
ALLOWED: Final = 0.01


async def nobody(question: JudgeQuestion) -> JudgeAnswer | Failure:
    return Failure("MODEL_NOT_FOUND", "no model is asked here")


@pytest.mark.requirement("HK-M", "HK-23")
async def test_blocking_gates_refuse_under_one_percent_wrongly() -> None:
    changes = {f"{name}.yaml": document("Evaluator", name, spec) for name, spec in SPECS.items()}
    gates = "\n".join(f"  - {{evaluator: {name}, mode: blocking}}" for name in SPECS)
    changes["a.yaml"] = document("Agent", "judged", f"model: main\ngates:\n{gates}")
    made = compile(files(changes), kind_catalog())
    assert isinstance(made, Compiled), made.as_text()
    catalog = Gates(evaluators(), EvaluatorDeps(lambda entry, found, own: Failure("TOOL_INVALID", "none here")))
    rules = {rule.name: rule for rule in catalog.of(made.workspace, made.workspace.agents["judged"]).blocking}
    seen: Counter[tuple[str, bool]] = Counter()
    wrong: dict[bool, list[dict[str, Any]]] = {True: [], False: []}
    for answer in ANSWERS:
        calls = [CalledTool(str(number), name, {}, True) for number, name in enumerate(answer["calls"])]
        record = RunRecord("run_1", output=answer["output"], status="completed", tool_calls=calls)
        (verdict,) = await judge([rules[answer["gate"]]], record, nobody, SystemClock())
        seen[answer["gate"], answer["good"]] += 1
        if verdict.passed is not answer["good"]:
            wrong[answer["good"]].append(answer)
    good = sum(count for (_, is_good), count in seen.items() if is_good)
    assert good >= 500 and all(seen[name, True] >= 100 and seen[name, False] >= 20 for name in SPECS)
    assert len(wrong[True]) / good < ALLOWED, wrong[True]
    assert wrong[False] == []
