"""Journal, snapshot and usage: pure folds over a run's events."""

from hashlib import sha256

import pytest

from app.core import json
from app.events.catalog import EVENTS, adapter, interrupt, model, request, skill, thread, tool, workflow
from app.events.envelope import GENESIS
from app.views.journal import KINDS, JournalFault, check_against_log, check_links, journal
from app.views.snapshot import snapshot
from app.views.usage import usage
from tests.views.story import THREAD, events_from


def _completed(message_id: str, name: str, tokens: int, cost: float | None = None) -> model.ModelCompleted:
    used = {"inputTokens": tokens, "outputTokens": 2 * tokens} | ({} if cost is None else {"costUsd": cost})
    return model.ModelCompleted.model_validate(
        {"messageId": message_id, "model": name, "provider": "p", "text": "t", "toolCalls": [],
         "finishReason": "stop", "usage": used}
    )  # fmt: skip


def _requested(message_id: str) -> model.ModelRequested:
    return model.ModelRequested.model_validate(
        {"messageId": message_id, "model": "m", "provider": "p", "providerModel": "x", "attempt": 1,
         "requestHash": "0", "parameters": {}}
    )  # fmt: skip


def _invoked(call_id: str) -> tool.ToolInvoked:
    return tool.ToolInvoked.model_validate(
        {"callId": call_id, "tool": "add", "arguments": {"a": 1}, "argumentHash": "0", "effect": "readonly"}
    )


QUEUED = request.RequestQueued(agent="echo", input="x")
DELTA = adapter.AdapterEvent.model_validate(
    {"event": {"adapter": "e", "phase": "agent.output.delta", "messageId": "m", "part": 0, "text": "t"}}
)
RAISED = interrupt.InterruptRaised(
    interrupt_id="int_1", kind="approval", title="t", expires_at="2027-01-01T00:00:00.000Z"
)


@pytest.mark.requirement("HK-36")
def test_the_journal_holds_what_changed_state_in_order_and_nothing_else() -> None:
    events = events_from(thread.ThreadCreated(), QUEUED, DELTA, _invoked("c"), request.RequestCompleted(output="y"))
    items = journal(str(events[1].run_id), events)
    assert [(item["seq"], item["kind"]) for item in items] == [
        (2, "InputAccepted"),
        (4, "ToolCalled"),
        (5, "OutputCommitted"),
    ]
    assert [item["hash"] for item in items] == [events[seq - 1].hash for seq in (2, 4, 5)]


@pytest.mark.requirement("HK-36", "G19")
def test_the_journal_s_links_chain_its_own_items() -> None:
    events = events_from(QUEUED, DELTA, _invoked("c"), request.RequestCompleted(output="y"))
    run_id = str(events[0].run_id)
    items = journal(run_id, events)
    link = GENESIS
    for item in items:
        whole = {name: value for name, value in item.items() if name != "link"}
        link = sha256(link.encode() + json.canonical(whole)).hexdigest()
        assert item["link"] == link
    assert check_links(items) is None and check_against_log(run_id, items, events) is None
    changed = [{**item, "payload": {"output": "z"}} if item["seq"] == 4 else item for item in items]
    assert check_links(changed) == JournalFault(4, "the link is not that of this item after the one before it")
    for wrong in (items[1:], items[::-1], [items[0], *items]):
        assert check_links(wrong) is not None
    assert check_links(items[:-1]) is None and check_against_log(run_id, items[:-1], events) == JournalFault(
        4, "the journal leaves out this change"
    )


def test_every_kind_of_the_journal_names_a_type_of_the_catalog() -> None:
    assert set(KINDS) <= set(EVENTS)
    assert len(set(KINDS.values())) == len(KINDS)


@pytest.mark.requirement("OS-I1", "G22")
def test_a_snapshot_of_a_run_in_motion_shows_what_is_open() -> None:
    events = events_from(
        QUEUED,
        request.RequestStarted(executor="e", epoch=1),
        skill.RoleTransitioned(to="worker"),
        _requested("msg_1"),
        _completed("msg_1", "m", 10, 0.5),
        _invoked("c1"),
        _requested("msg_2"),
        RAISED,
    )
    found = snapshot(THREAD, events, "run_1")
    assert found["runs"][0]["status"] == "waiting"
    assert (found["closed"], found["output"], found["upToSeq"]) == (False, None, 8)
    assert found["roles"] == {"backend:echo": "worker"}
    assert found["toolsInvoked"] == [{"callId": "c1", "tool": "add", "arguments": {"a": 1}}]
    assert (found["messagesInFlight"], found["openInterrupts"]) == (["msg_2"], ["int_1"])
    assert found["usage"] == {"calls": 1, "inputTokens": 10, "outputTokens": 20, "costUsd": 0.5, "toolCalls": 1}


@pytest.mark.requirement("OS-I1")
def test_a_snapshot_of_an_ended_run_has_its_output_and_its_way() -> None:
    events = events_from(
        QUEUED,
        workflow.WorkflowPhaseAdvanced(workflow_id="w", to_phase="plan"),
        workflow.WorkflowPhaseAdvanced(workflow_id="w", to_phase="work", from_phase="plan"),
        workflow.WorkflowCompleted(workflow_id="w", adapter="n", verdict="done"),
        request.RequestCompleted(output="y"),
    )
    found = snapshot(THREAD, events)
    assert (found["closed"], found["output"]) == (True, "y")
    assert (found["phases"], found["verdict"]) == (["plan", "work"], "done")


def test_a_snapshot_of_one_run_leaves_the_others_out() -> None:
    events = events_from(
        ("run_1", QUEUED), ("run_2", QUEUED), ("run_1", _invoked("c1")), ("run_2", _invoked("c2")), ("run_2", RAISED),
        ("run_1", request.RequestCompleted(output="one")),
    )  # fmt: skip
    found = snapshot(THREAD, events, "run_1")
    assert [run["id"] for run in found["runs"]] == ["run_1"]
    assert [call["callId"] for call in found["toolsInvoked"]] == ["c1"]
    assert found["openInterrupts"] == []


def test_usage_is_summed_in_total_and_by_model() -> None:
    events = events_from(
        _completed("a", "m", 1, 0.5), _completed("b", "m", 2), _completed("c", "n", 4, 0.25), _invoked("c1"), DELTA
    )
    assert usage(events) == {
        "total": {"calls": 3, "inputTokens": 7, "outputTokens": 14, "costUsd": 0.75, "toolCalls": 1},
        "byModel": {
            "m": {"calls": 2, "inputTokens": 3, "outputTokens": 6, "costUsd": 0.5},
            "n": {"calls": 1, "inputTokens": 4, "outputTokens": 8, "costUsd": 0.25},
        },
    }


def test_usage_of_nothing_is_zero() -> None:
    assert usage([]) == {
        "total": {"calls": 0, "inputTokens": 0, "outputTokens": 0, "costUsd": 0, "toolCalls": 0},
        "byModel": {},
    }
