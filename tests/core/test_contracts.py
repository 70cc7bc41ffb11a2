"""The published contract schemas: their required fields and enums to the letter, and frozen."""

from pathlib import Path
from typing import Any

import jsonschema
import pytest

from app.core import json
from app.core.resources import shipped
from app.core.schemas import SchemaRegistry
from scripts import frozen
from scripts.generate import ROOT

REQUIRED = {
    "brainstorm_v1": ["topic", "ideas", "schema_version"],
    "completion_request_v1": ["messages", "model", "schema_version"],
    "completion_response_v1": ["text", "tool_calls", "finish_reason", "usage", "model", "schema_version"],
    "finding_v1": ["id", "reviewer", "severity", "autofix_class", "confidence", "title", "schema_version"],
    "lead_directive_v1": ["intent", "constraints", "schema_version"],
    "learning_v1": ["title", "lesson", "evidence", "schema_version"],
    "plan_v1": ["steps", "risks", "needs_advisor", "schema_version"],
    "pulse_report_v1": ["period", "summary", "schema_version"],
    "review_aggregate_v1": ["findings", "suppressed", "pre_existing", "verdict", "schema_version"],
    "review_result_v1": ["verdict", "feedback", "schema_version"],
    "solution_v1": ["problem", "solution", "schema_version"],
    "worker_report_v1": ["output", "steps_completed", "schema_version"],
    "write_claim_v1": ["who", "why", "expected_hash", "schema_version"],
}

FINDING = {
    "id": "f1",
    "reviewer": "security",
    "severity": "P0",
    "autofix_class": "manual",
    "confidence": 75,
    "title": "A query is built from input",
    "schema_version": "v1",
}

GOOD: dict[str, dict[str, Any]] = {
    "brainstorm_v1": {"topic": "names", "ideas": [{"id": "i1", "title": "Holdfast"}]},
    "completion_request_v1": {"messages": [{"role": "user", "content": "hello"}], "model": "m"},
    "completion_response_v1": {
        "text": "",
        "tool_calls": [{"id": "t1", "name": "echo", "args": {}}],
        "finish_reason": "tool_use",
        "usage": {"input_tokens": 1, "output_tokens": 2},
        "model": "m",
    },
    "finding_v1": FINDING,
    "lead_directive_v1": {"intent": "greet", "constraints": []},
    "learning_v1": {"title": "t", "lesson": "l", "evidence": []},
    "plan_v1": {"steps": [{"id": "s1", "description": "greet"}], "risks": [], "needs_advisor": False},
    "pulse_report_v1": {"period": {"from": "2026-01-01", "to": "2026-01-07"}, "summary": "quiet"},
    "review_aggregate_v1": {"findings": [FINDING], "suppressed": [], "pre_existing": [], "verdict": "fail"},
    "review_result_v1": {"verdict": "pass", "feedback": ""},
    "solution_v1": {"problem": "p", "solution": "s"},
    "worker_report_v1": {"output": "", "steps_completed": []},
    "write_claim_v1": {"who": "worker", "why": "fix", "expected_hash": ""},
}
for _document in GOOD.values():
    _document["schema_version"] = "v1"

REGISTRY = SchemaRegistry()


@pytest.mark.requirement("OS-L7")
@pytest.mark.parametrize("schema_id", REQUIRED)
def test_contract_requires_the_published_fields_and_accepts_a_document_of_them(schema_id: str) -> None:
    document = REGISTRY.document(schema_id)
    assert document["$id"] == schema_id
    assert document["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    assert document["required"] == REQUIRED[schema_id]
    assert REGISTRY.validate(schema_id, GOOD[schema_id]) == []


@pytest.mark.requirement("OS-L7", "OS-I5")
@pytest.mark.parametrize("schema_id", REQUIRED)
def test_contract_refuses_a_missing_field_and_another_version(schema_id: str) -> None:
    oracle = jsonschema.Draft202012Validator(REGISTRY.document(schema_id))
    good = GOOD[schema_id]
    wrong = [{key: value for key, value in good.items() if key != missing} for missing in REQUIRED[schema_id]]
    for document in [*wrong, good | {"schema_version": "v2"}]:
        assert REGISTRY.validate(schema_id, document) != []
        assert not oracle.is_valid(document)


@pytest.mark.requirement("OS-L7")
@pytest.mark.parametrize(
    ("schema_id", "field", "allowed"),
    [
        ("completion_response_v1", "finish_reason", ["stop", "tool_use", "max_tokens", "safety"]),
        ("review_result_v1", "verdict", ["pass", "fail"]),
        ("finding_v1", "severity", ["P0", "P1", "P2", "P3"]),
        ("finding_v1", "autofix_class", ["safe_auto", "gated_auto", "manual", "advisory"]),
        ("finding_v1", "confidence", [0, 25, 50, 75, 100]),
    ],
)
def test_contract_allows_exactly_the_published_values(schema_id: str, field: str, allowed: list[Any]) -> None:
    for value in allowed:
        assert REGISTRY.validate(schema_id, GOOD[schema_id] | {field: value}) == []
    for value in ("other", 1, None):
        assert REGISTRY.validate(schema_id, GOOD[schema_id] | {field: value}) != []


@pytest.mark.requirement("OS-L7")
def test_completion_pair_takes_our_optional_fields() -> None:
    digest = {"sha256": "0" * 64, "size": 3, "mime": "image/png"}
    call = {"id": "t1", "name": "echo", "args": {}, "raw_args": '{"text": '}
    request = GOOD["completion_request_v1"] | {
        "messages": [
            {
                "role": "user",
                "content": "see",
                "parts": [{"type": "text", "text": "see"}, {"type": "image", "blob": digest}],
            },
            {"role": "assistant", "content": "", "tool_calls": [call]},
            {"role": "tool", "content": "1", "tool_call_id": "t1", "parts": [{"type": "json", "json": None}]},
        ],
        "tool_choice": {"name": "echo"},
        "reasoning": {"effort": "high", "budget": 1024},
        "response_schema": {"type": "object"},
    }
    assert REGISTRY.validate("completion_request_v1", request) == []
    assert REGISTRY.validate("completion_response_v1", GOOD["completion_response_v1"] | {"tool_calls": [call]}) == []


@pytest.mark.parametrize("part", [{"type": "text"}, {"type": "json"}, {"type": "image"}, {"type": "hologram"}, {}])
def test_part_without_its_content_is_refused(part: dict[str, Any]) -> None:
    message = {"role": "user", "content": "", "parts": [part]}
    assert REGISTRY.validate("completion_request_v1", GOOD["completion_request_v1"] | {"messages": [message]}) != []


def test_aggregate_holds_findings_of_the_published_shape() -> None:
    finding = REGISTRY.document("finding_v1")
    inner = REGISTRY.document("review_aggregate_v1")["$defs"]["finding"]
    assert {key: finding[key] for key in inner} == inner
    bad = GOOD["review_aggregate_v1"] | {"suppressed": [FINDING | {"severity": "P9"}]}
    assert [issue.path for issue in REGISTRY.validate("review_aggregate_v1", bad)] == ["/suppressed/0/severity"]


@pytest.mark.parametrize("path", sorted((shipped("schemas") / "contracts").glob("*.json")), ids=lambda path: path.stem)
def test_contract_file_is_a_valid_schema_in_the_one_spelling(path: Path) -> None:
    document = json.loads(path.read_bytes())
    jsonschema.Draft202012Validator.check_schema(document)
    assert json.pretty(document) == path.read_bytes()
    assert document["$id"] == path.stem


@pytest.mark.smoke
@pytest.mark.requirement("OS-I5", "OS-L7")
def test_no_frozen_contract_changed_and_all_are_recorded() -> None:
    assert frozen.violations(ROOT) == []
    assert frozen.record(ROOT)[frozen.RECORD] == (ROOT / frozen.RECORD).read_bytes()
