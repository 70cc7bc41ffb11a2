"""The audit names what a run's log leaves out: every event in turn is taken out of runs of each kind."""

from typing import Any

import pytest

from app.events.catalog import EventModel, Payload, adapter, execution, interrupt, model, policy, request, skill, tool
from app.events.envelope import Event
from app.views.audit import audit
from app.views.audit_hooks import ExpectedHook
from tests.views.story import events_from

NUMBERED_ONLY = {adapter.AdapterEvent.type}
"""Bound to nothing else: only the run's numbering shows that one was there."""
UNBOUND = {"roles": 3, "cancelled": 4}
"""Likewise, by number: a decision of a hook that changed nothing; what a cancel left without an answer."""


def made(cls: type[EventModel], **fields: Any) -> Payload:
    return cls.model_validate(fields)


def asked(message: str, attempt: int = 1, of: str = "m") -> Payload:
    return made(
        model.ModelRequested, messageId=message, model=of, provider="p", providerModel="x", attempt=attempt,
        requestHash="0", parameters={},
    )  # fmt: skip


def answered(message: str, *calls: str, text: str = "") -> Payload:
    made_calls = [{"id": call, "name": "echo", "args": {"text": "a"}} for call in calls]
    return made(
        model.ModelCompleted, messageId=message, model="m", provider="p", text=text, toolCalls=made_calls,
        finishReason="tool_use" if calls else "stop", usage={},
    )  # fmt: skip


def failed(message: str) -> Payload:
    return made(
        model.ModelFailed, messageId=message, model="m", provider="p", error={"code": "PROVIDER_FAILED", "message": "f"}
    )


def retry(**fields: Any) -> Payload:
    return made(model.ModelRetryScheduled, messageId="m1", model="m", provider="p", delayMs=1, reason="r", **fields)


def invoked(call: str, text: str = "a", attempt: int = 1) -> Payload:
    return made(
        tool.ToolInvoked, callId=call, tool="echo", arguments={"text": text}, argumentHash="0", effect="readonly",
        attempt=attempt,
    )  # fmt: skip


def resulted(call: str, code: str | None = None) -> Payload:
    if code is None:
        return made(tool.ToolResulted, callId=call, tool="echo", ok=True, output={"text": "a"}, durationMs=1)
    return made(tool.ToolResulted, callId=call, tool="echo", ok=False, error={"code": code, "message": "m"})


def moved(came_from: str, to: str, reason: str | None = None) -> Payload:
    return made(skill.RoleTransitioned, to=to, reason=reason, **{"from": came_from})


def reported(role: str) -> Payload:
    return made(skill.RoleReported, role=role, schemaName="s", report={"output": "o"})


QUEUED = request.RequestQueued(agent="a", input="x")
STARTED = request.RequestStarted(executor="e", epoch=1)
RESUMED = request.RequestResumed(executor="e", epoch=2, reason="answer")
NEGOTIATED = made(model.ModelNegotiated, required=[], candidates=[], model="m")
DONE = request.RequestCompleted(output="y")
DELTA = made(adapter.AdapterEvent, event={"adapter": "n", "phase": "agent.output.delta", "messageId": "m2", "part": 0})
RAISED = made(interrupt.InterruptRaised, interruptId="i", kind="approval", title="t", expiresAt="z", callId="c")
RESOLVED = interrupt.InterruptResolved(interrupt_id="i", answer={"decision": "approve"}, answered_by="user:a")

TOOL_RUN = [QUEUED, STARTED, NEGOTIATED, asked("m1"), answered("m1", "c"), invoked("c"), resulted("c"),
            asked("m2"), DELTA, answered("m2"), DONE]  # fmt: skip
APPROVED = [QUEUED, STARTED, NEGOTIATED, asked("m1"), answered("m1", "c"), RAISED, RESOLVED, RESUMED, invoked("c"),
            resulted("c"), asked("m2"), answered("m2"), DONE]  # fmt: skip
REPAIRED = [
    QUEUED, STARTED, NEGOTIATED, asked("m1"), answered("m1", "c"),
    made(tool.ToolGuarded, callId="c", tool="echo", outcome="repaired", findings=[]), invoked("c", "b"), resulted("c"),
    asked("m2"), answered("m2"), DONE,
]  # fmt: skip
REFUSED = [
    QUEUED, STARTED, NEGOTIATED, asked("m1"), answered("m1", "c", "d"),
    made(tool.ToolGuarded, callId="c", tool="echo", outcome="refused", findings=[], code="TOOL_NOT_ALLOWED"),
    resulted("c", "TOOL_NOT_ALLOWED"),
    made(policy.HookFired, hook="PreToolUse", handler="h", decision="deny", callId="d"),
    resulted("d", "GATE_DENIED"), asked("m2"), answered("m2"), DONE,
]  # fmt: skip
RETRIED = [
    QUEUED, STARTED, NEGOTIATED, asked("m1"), failed("m1"),
    retry(attempt=2),
    asked("m1", 2), failed("m1"), retry(attempt=1, nextModel="n"), asked("m1", 1, of="n"), answered("m1"), DONE,
]  # fmt: skip
CANCELLED = [QUEUED, STARTED, NEGOTIATED, asked("m1"), execution.CommandInjected(command="cancel", command_id="s"),
             request.RequestCancelled()]  # fmt: skip
DIRECT = [made(request.RequestQueued, tool="echo"), STARTED, made(tool.ToolDirectStarted, toolId="echo", callId="c"),
          invoked("c"), resulted("c"), made(tool.ToolDirectCompleted, toolId="echo", callId="c", output={}),
          DONE]  # fmt: skip
DENIED_PROMPT = [
    QUEUED, STARTED, made(policy.HookFired, hook="UserPromptSubmit", handler="h", decision="deny"),
    made(request.RequestFailed, error={"code": "PROMPT_DENIED", "message": "no"}),
]  # fmt: skip
VIOLATED = made(policy.SchemaViolated, schemaName="lead_directive_v1", boundary="role.lead", issues=[],
                code="MALFORMED_AGENT_MESSAGE")  # fmt: skip
ROLES = [
    QUEUED, STARTED, made(policy.HookFired, hook="UserPromptSubmit", handler="h", decision="allow"),
    skill.SkillInvoked(skill="greet"), moved("INTAKE", "LEAD"), NEGOTIATED, asked("m1"), answered("m1"),
    VIOLATED, asked("m2"), answered("m2"), reported("lead"), moved("LEAD", "PLAN"), asked("m3"), answered("m3"),
    reported("planner"), moved("PLAN", "WORK"), asked("m4"), answered("m4", "c"), invoked("c"), resulted("c"),
    asked("m5"), answered("m5"), reported("worker"), moved("WORK", "REVIEW"), asked("m6"), answered("m6"),
    reported("reviewer"), moved("REVIEW", "FAIL", skill.VERDICT_FAIL), moved("FAIL", "REWORK"),
    moved("REWORK", "WORK"), asked("m7"), answered("m7"), reported("worker"), moved("WORK", "REVIEW"),
    asked("m8"), answered("m8"), reported("reviewer"), moved("REVIEW", "DONE"),
    skill.SkillCompleted(skill="greet", ok=True), DONE,
]  # fmt: skip
MALFORMED_ROLE = [
    QUEUED, STARTED, moved("INTAKE", "LEAD"), NEGOTIATED, asked("m1"), answered("m1"), VIOLATED, asked("m2"),
    answered("m2"), VIOLATED, moved("LEAD", "FAIL", "MALFORMED_AGENT_MESSAGE"),
    made(request.RequestFailed, error={"code": "MALFORMED_AGENT_MESSAGE", "message": "m"}),
]  # fmt: skip
RUNS = {
    "tool": TOOL_RUN, "approved": APPROVED, "repaired": REPAIRED, "refused": REFUSED, "retried": RETRIED,
    "cancelled": CANCELLED, "direct": DIRECT, "denied prompt": DENIED_PROMPT, "roles": ROLES,
    "malformed": MALFORMED_ROLE,
}  # fmt: skip


def without(events: list[Event], number: int) -> list[Event]:
    return [event for event in events if event is not events[number]]


def names(events: list[Event], gone: Event) -> bool:
    """By its type, one of several that may stand there, or else by its number."""
    found = audit(events)
    assert not found.complete
    if gone.type in NUMBERED_ONLY:
        return any(missing.subject == str(gone.run_seq) for missing in found.missing)
    return any(gone.type in (missing.type or "").split(" | ") for missing in found.missing)


@pytest.mark.requirement("OS-A")
@pytest.mark.parametrize("kind", RUNS)
def test_a_run_that_records_everything_is_complete(kind: str) -> None:
    found = audit(events_from(*RUNS[kind]))
    assert (found.complete, found.missing) == (True, ())
    assert sum(found.counts.values()) == len(RUNS[kind])


@pytest.mark.requirement("OS-A")
@pytest.mark.parametrize("kind", RUNS)
def test_whichever_event_is_taken_out_is_named(kind: str) -> None:
    events = events_from(*RUNS[kind])
    for number, gone in enumerate(events):
        if gone.run_seq == UNBOUND.get(kind):
            assert any(missing.subject == str(gone.run_seq) for missing in audit(without(events, number)).missing)
        else:
            assert names(without(events, number), gone), (gone, audit(without(events, number)).missing)


@pytest.mark.requirement("OS-A")
def test_what_is_missing_is_reported_with_its_subject_and_a_reason() -> None:
    events = events_from(*TOOL_RUN)
    found = audit(without(events, 6))
    assert found.to_json()["missing"] == [
        {"type": None, "subject": "7", "reason": "event 7 of the run is not there"},
        {"type": "runtime.tool.resulted", "subject": "c", "reason": "a tool was called and has no result"},
    ]


@pytest.mark.requirement("OS-A")
def test_a_run_that_has_not_ended_is_not_complete() -> None:
    found = audit(events_from(*TOOL_RUN[:4]))
    assert [missing.type for missing in found.missing] == [
        "runtime.request.completed | runtime.request.failed | runtime.request.cancelled"
    ]


@pytest.mark.requirement("OS-A", "G5")
def test_what_a_dead_executor_left_open_and_the_next_one_did_again_is_complete() -> None:
    recovered = request.RequestResumed(executor="f", epoch=2, reason="recovery")
    found = audit(
        events_from(QUEUED, STARTED, NEGOTIATED, asked("m1"), recovered, NEGOTIATED, asked("m2"), answered("m2", "c"),
                    invoked("c"), request.RequestResumed(executor="g", epoch=3, reason="recovery"),
                    invoked("c", attempt=2), resulted("c"), asked("m3"), answered("m3"), DONE)
    )  # fmt: skip
    assert found.missing == ()


@pytest.mark.requirement("OS-A")
def test_calls_that_ran_while_one_waited_need_no_claim_of_their_own() -> None:
    found = audit(
        events_from(QUEUED, STARTED, NEGOTIATED, asked("m1"), answered("m1", "c", "d"), RAISED, invoked("d"), RESOLVED,
                    resulted("d"), RESUMED, invoked("c"), resulted("c"), asked("m2"), answered("m2"), DONE)
    )  # fmt: skip
    assert found.missing == ()


@pytest.mark.requirement("OS-A")
@pytest.mark.timeout(60)
def test_dropped_numbers_are_not_missing_however_many_there_are() -> None:
    events = events_from(*RUNS["tool"])
    many = 10**12
    for event in events[3:]:
        assert event.run_seq is not None
        event.run_seq += many
    assert audit(events, dropped={4: many}).complete
    assert [missing.subject for missing in audit(events, dropped={5: many}).missing] == ["4"]


def test_events_after_the_end_are_reported() -> None:
    found = audit(events_from(QUEUED, STARTED, DONE, DONE))
    assert [missing.reason for missing in found.missing] == ["runtime.request.completed comes after the run's end"]


@pytest.mark.requirement("OS-A")
def test_of_nothing_everything_is_missing() -> None:
    assert {missing.type for missing in audit([]).missing} == {
        "runtime.request.queued", "runtime.request.completed | runtime.request.failed | runtime.request.cancelled",
    }  # fmt: skip


def fired(point: str, handler: str, decision: str = "allow", call: str | None = None) -> Payload:
    return made(policy.HookFired, hook=point, handler=handler, decision=decision, callId=call)


HOOKS = [
    ExpectedHook("first", frozenset({"UserPromptSubmit", "PreToolUse", "Stop"})),
    ExpectedHook("second", frozenset({"PreToolUse", "PostToolUse", "SkillStart"}), frozenset({"echo"})),
    ExpectedHook("elsewhere", frozenset({"PreToolUse", "PostToolUse"}), frozenset({"clock"})),
]
HOOKED = [
    QUEUED, STARTED, fired("UserPromptSubmit", "first"), fired("SkillStart", "second"),
    skill.SkillInvoked(skill="greet"), NEGOTIATED, asked("m1"), answered("m1", "c"),
    fired("PreToolUse", "first", call="c"), fired("PreToolUse", "second", call="c"), invoked("c"), resulted("c"),
    fired("PostToolUse", "second", call="c"), asked("m2"), answered("m2"), fired("Stop", "first", "deny"),
    skill.SkillCompleted(skill="greet", ok=True), DONE,
]  # fmt: skip


@pytest.mark.requirement("OS-A", "OS-L6")
def test_every_decision_of_a_hook_that_the_workspace_has_is_named_when_it_is_missing() -> None:
    events = events_from(*HOOKED)
    assert audit(events, HOOKS).missing == ()
    for number, gone in enumerate(events):
        if gone.type == policy.HookFired.type:
            found = audit(without(events, number), HOOKS)
            assert [missing.type for missing in found.missing] == [None, policy.HookFired.type]
            assert (
                gone.payload["handler"] in found.missing[1].reason and gone.payload["hook"] in found.missing[1].reason
            )


@pytest.mark.requirement("OS-A", "OS-L6")
def test_who_stands_behind_a_denial_was_not_asked() -> None:
    first = ExpectedHook("first", frozenset({"PreToolUse", "UserPromptSubmit"}))
    second = ExpectedHook("second", frozenset({"PreToolUse", "UserPromptSubmit"}))
    found = audit(
        events_from(QUEUED, STARTED, fired("UserPromptSubmit", "first", "deny"),
                    made(request.RequestFailed, error={"code": "PROMPT_DENIED", "message": "no"})),
        [first, second],
    )  # fmt: skip
    assert found.missing == ()


@pytest.mark.requirement("OS-A")
def test_a_direct_call_passes_only_the_hooks_of_tools() -> None:
    events = events_from(*DIRECT)
    assert [missing.reason for missing in audit(events, HOOKS).missing] == [
        "first had to be asked at PreToolUse about c, and no decision is recorded",
        "second had to be asked at PostToolUse about c, and no decision is recorded",
        "second had to be asked at PreToolUse about c, and no decision is recorded",
    ]
