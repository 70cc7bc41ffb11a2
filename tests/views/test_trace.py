"""The trace: nine categories, starts paired with their ends, all derived from stored events."""

import pytest

from app.events.catalog import (
    EVENTS,
    adapter,
    artifact,
    execution,
    memory,
    model,
    request,
    skill,
    thread,
    tool,
    workflow,
)
from app.views.trace import CATEGORIES, category, trace
from tests.views.story import events_from

USAGE = {"inputTokens": 1, "outputTokens": 1}
MODEL = {"messageId": "msg_1", "model": "m", "provider": "p"}
QUEUED = request.RequestQueued(agent="echo", input="x")
DONE = request.RequestCompleted(output="y", message_id="msg_9")
INVOKED = tool.ToolInvoked.model_validate(
    {"callId": "c1", "tool": "add", "arguments": {}, "argumentHash": "0", "effect": "readonly"}
)


def _signal(phase: str, **fields: object) -> adapter.AdapterEvent:
    return adapter.AdapterEvent.model_validate({"event": {"adapter": "echo", "phase": phase, **fields}})


def _resulted(ok: bool) -> tool.ToolResulted:
    return tool.ToolResulted(call_id="c1", tool="add", ok=ok, output=1)


@pytest.mark.requirement("SH-14")
def test_every_category_is_derived_from_stored_events() -> None:
    events = events_from(
        QUEUED,
        tool.ToolDirectStarted(tool_id="add"),
        INVOKED,
        _signal("agent.handoff"),
        memory.MemoryLifecycle(hook="read-before-plan"),
        artifact.ArtifactCreated.model_validate({"artifact": {"id": "a", "name": "a"}}),
        workflow.SpecPhaseStarted(phase_id="p"),
        workflow.WorkflowStarted(workflow_id="w", adapter="native"),
        request.RequestQueued(agent="echo", parent_run_id="run_1"),
    )
    assert tuple(category(event) for event in events) == CATEGORIES


@pytest.mark.requirement("SH-14")
@pytest.mark.parametrize("name", sorted(EVENTS))
def test_every_type_of_the_catalog_has_one_of_the_nine_or_none(name: str) -> None:
    payload = {"event": {"adapter": "a", "phase": "agent.handoff"}} if name == adapter.AdapterEvent.type else {}
    (queued,) = events_from(QUEUED)
    event = queued.with_payload(payload)
    event.type = name
    assert category(event) in (*CATEGORIES, None)


@pytest.mark.requirement("SH-14")
@pytest.mark.parametrize(
    ("start", "end", "status"),
    [
        (QUEUED, DONE, "completed"),
        (QUEUED, request.RequestFailed.model_validate({"error": {"code": "X", "message": "x"}}), "failed"),
        (QUEUED, request.RequestCancelled(), "cancelled"),
        (request.RequestQueued(tool="add", call_id="c1"), DONE, "completed"),
        (INVOKED, _resulted(True), "completed"),
        (INVOKED, _resulted(False), "failed"),
        (tool.ToolDirectStarted(tool_id="add"), tool.ToolDirectCompleted(tool_id="add", output=1), "completed"),
        (_signal("agent.tool.start", callId="c"), _signal("agent.tool.result", callId="c"), "completed"),
        (skill.SkillInvoked(skill="greet"), skill.SkillCompleted(skill="greet", ok=True), "completed"),
        (skill.SkillInvoked(skill="greet"), skill.SkillCompleted(skill="greet", ok=False), "failed"),
        (
            workflow.WorkflowStarted(workflow_id="w", adapter="n"),
            workflow.WorkflowAborted(workflow_id="w", reason="r"),
            "failed",
        ),
        (workflow.SpecPhaseStarted(phase_id="p"), workflow.SpecPhaseBlocked(phase_id="p", reason="r"), "blocked"),
        (
            memory.MemoryMaintenanceStarted(target="t"),
            memory.MemoryMaintenanceCompleted(target="t", operation_count=2),
            "completed",
        ),
        (
            model.ModelRequested.model_validate(
                {**MODEL, "providerModel": "x", "attempt": 1, "requestHash": "0", "parameters": {}}
            ),
            model.ModelFailed.model_validate({**MODEL, "error": {"code": "X", "message": "x"}}),
            "failed",
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else value.type.removeprefix("runtime."),
)
def test_a_start_and_its_end_are_one_span(start: object, end: object, status: str) -> None:
    (span,) = trace(events_from(start, end))  # type: ignore[arg-type]  # parameters of one table
    assert (span["status"], span["seq"], span["endSeq"]) == (status, 1, 2)
    assert span["at"] < span["endAt"]


@pytest.mark.requirement("SH-14")
def test_a_start_without_an_end_is_running_and_a_point_is_an_event() -> None:
    items = trace(
        events_from(QUEUED, request.RequestStarted(executor="e", epoch=1), execution.CheckpointCreated(label="c"))
    )
    assert [(item["name"], item["status"]) for item in items] == [
        ("runtime.request.queued", "running"),
        ("runtime.request.started", "event"),
        ("runtime.checkpoint.created", "event"),
    ]


@pytest.mark.requirement("SH-14")
def test_spans_of_several_runs_and_calls_do_not_mix() -> None:
    other = tool.ToolInvoked.model_validate(
        {"callId": "c2", "tool": "add", "arguments": {}, "argumentHash": "0", "effect": "readonly"}
    )
    items = trace(events_from(("run_1", QUEUED), ("run_2", QUEUED), INVOKED, other, _resulted(True), ("run_2", DONE)))
    assert [(item["runId"], item["subject"], item["status"]) for item in items] == [
        ("run_1", "run_1", "running"),
        ("run_2", "run_2", "completed"),
        ("run_1", "c1", "completed"),
        ("run_1", "c2", "running"),
    ]


def test_the_same_skill_in_two_runs_is_two_spans() -> None:
    begun, done = skill.SkillInvoked(skill="greet"), skill.SkillCompleted(skill="greet", ok=True)
    items = trace(events_from(("run_1", begun), ("run_2", begun), ("run_1", done)))
    assert [(item["runId"], item["status"]) for item in items] == [("run_1", "completed"), ("run_2", "running")]


def test_deltas_and_the_thread_s_own_facts_are_no_items() -> None:
    events = events_from(thread.ThreadCreated(), _signal("agent.output.delta", messageId="m", part=0, text="x"))
    assert trace(events) == []


def test_a_signal_may_say_that_it_is_a_plan_or_a_delegation() -> None:
    items = trace(events_from(_signal("agent.note", traceType="plan"), _signal("agent.note", traceType="delegation")))
    assert [item["category"] for item in items] == ["plan", "delegation"]
