"""The check of UI events: each kind of issue with its position, over events of any runtime."""

from typing import Any

import pytest

from app.views.ui.sequence import sequence_violations
from app.views.ui.validation import event_issues, list_issues

pytestmark = pytest.mark.requirement("LC-3")


def event(**more: Any) -> dict[str, Any]:
    known = {
        "id": "evt_1",
        "schemaVersion": "lime-runtime-event/v0.1",
        "runtimeId": "app-server",
        "kind": "state",
        "status": "running",
        "title": "Something",
        "createdAt": "2026-06-10T00:00:00.000Z",
        "sequence": 1,
    }
    return known | more


def codes(found: Any) -> list[tuple[str, str]]:
    return [(issue.code, issue.path) for issue in event_issues(found)]


def test_a_complete_event_has_no_issue() -> None:
    assert codes(event(eventClass="tool.started", toolCallId="c1", payload={"toolName": "search"})) == []


def test_everything_that_is_missing_or_of_the_wrong_type_is_listed() -> None:
    wrong = event(id="", sequence="1", refIds=["a", 1], payload=[], turnId=None)
    del wrong["title"]
    assert codes(wrong) == [
        ("schema_mismatch", "$.id"),
        ("schema_mismatch", "$.title"),
        ("schema_mismatch", "$.sequence"),
        ("schema_mismatch", "$.turnId"),
        ("schema_mismatch", "$.refIds"),
        ("schema_mismatch", "$.payload"),
    ]
    assert codes(event(sequence=True)) == [("schema_mismatch", "$.sequence")]
    assert codes(event(eventClass="turn.done")) == [("schema_mismatch", "$.eventClass")]


@pytest.mark.parametrize("value", [None, 1, "x", [], [[]]])
def test_what_is_no_object_is_one_issue(value: Any) -> None:
    assert codes(value) == [("schema_mismatch", "$")]


@pytest.mark.parametrize(
    ("name", "wrong", "right"),
    [
        ("tool.catalog.resolved", {}, {"toolCallId": "c"}),
        ("action.required", {}, {"actionId": "a"}),
        ("artifact.changed", {"artifactRefs": [""]}, {"artifactRefs": ["a"]}),
        ("evidence.changed", {"evidenceRefs": []}, {"evidenceId": "e"}),
        ("review.verdict", {"reviewId": "r"}, {"evidenceRefs": ["e"]}),
        ("file.read", {}, {"payload": {"path": "a.txt"}}),
        ("file.changed", {"payload": {"path": "a"}}, {"payload": {"path": "a"}, "artifactId": "x"}),
        ("patch.failed", {"toolCallId": "c"}, {"toolCallId": "c", "payload": {"failureCategory": "x"}}),
        ("command.output", {"toolCallId": "c"}, {"toolCallId": "c", "refIds": ["r"]}),
        ("command.exited", {"toolCallId": "c"}, {"toolCallId": "c", "payload": {"exitCode": 0}}),
        ("test.completed", {"payload": {"testRunId": "t"}}, {"payload": {"testRunId": "t", "result": "passed"}}),
        ("sandbox.blocked", {}, {"payload": {"reasonCode": "network"}}),
    ],
)
def test_each_class_needs_its_scope(name: str, wrong: dict[str, Any], right: dict[str, Any]) -> None:
    assert ("missing_scope_id", "$") in codes(event(eventClass=name, **wrong))
    assert codes(event(eventClass=name, **right)) == []


def test_a_key_that_looks_like_a_secrets_is_found_at_any_depth_and_ends_the_descent() -> None:
    payload = {"nested": [{"accessToken": {"password": 1}}], "max_tokens": 3, "text": "my password"}
    assert codes(event(payload=payload)) == [
        ("secret_leak_risk", "$.payload.nested[0].accessToken"),
        ("secret_leak_risk", "$.payload.max_tokens"),
    ]


def test_a_payload_is_measured_in_utf16_code_units() -> None:
    room = 32_000 - len('{"t":""}')
    assert codes(event(payload={"t": "x" * room})) == []
    assert codes(event(payload={"t": "x" * (room + 1)})) == [("large_payload_inline", "$.payload")]
    assert codes(event(payload={"t": "語" * room})) == []
    assert codes(event(payload={"t": "😀" * (room // 2 + 1)})) == [("large_payload_inline", "$.payload")]


def test_a_number_that_does_not_follow_is_a_gap_at_its_event() -> None:
    events = [event(id=str(n), sequence=n) for n in (5, 6, 8, 9)]
    assert [(issue.code, issue.path) for issue in list_issues(events)] == [("sequence_gap", "$.events[2].sequence")]
    swapped = [event(id=str(n), sequence=n) for n in (1, 3, 2, 4)]
    assert len(list_issues(swapped)) == 3


def classed(*names: tuple[str, str]) -> list[dict[str, Any]]:
    return [
        event(id=f"e{n}", eventClass=name, turnId="t", toolCallId=scope, actionId=scope, sequence=n)
        for n, (name, scope) in enumerate(names, 1)
    ]


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        ([("tool.started", "a"), ("tool.result", "a"), ("turn.completed", "")], []),
        ([("tool.result", "a")], ["tool_result_without_start"]),
        ([("tool.failed", "a")], ["tool_failed_without_start"]),
        ([("tool.started", "a"), ("tool.started", "a")], ["tool_started_already_active"]),
        ([("tool.started", "a"), ("turn.failed", "")], ["tool_unclosed_at_turn_end"]),
        ([("action.resolved", "a")], ["action_resolved_without_request"]),
        ([("action.required", "a"), ("turn.canceled", "")], ["action_unresolved_at_turn_end"]),
        ([("turn.completed", ""), ("model.delta", "")], ["execution_after_turn_terminal"]),
        ([("turn.completed", ""), ("artifact.changed", "")], []),
        ([("turn.completed", ""), ("turn.failed", "")], ["turn_terminal_repeated"]),
        ([("command.output", "a")], ["command_output_without_start"]),
        ([("patch.applied", "a")], ["patch_terminal_without_start"]),
    ],
)
def test_starts_and_ends_must_fit_together(names: list[tuple[str, str]], expected: list[str]) -> None:
    assert [violation.code for violation in sequence_violations(classed(*names))] == expected


def test_one_id_twice_is_a_violation() -> None:
    twice = [event(eventClass="run.status"), event(eventClass="run.status")]
    assert [violation.code for violation in sequence_violations(twice)] == ["duplicate_event_id"]
