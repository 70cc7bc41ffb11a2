"""What a run has already done, folded from its events: the results that re-entry gets back without acting.

A tool call is known by its id, a subagent by the call that asked for it, everything else by its content (`unused`).
Leaves to the context: what to do about an intent that has no result.
"""

from collections.abc import Iterable, Sequence
from dataclasses import field
from typing import Any, Final

from app.core.value import mutable
from app.events.catalog import (
    adapter,
    artifact,
    execution,
    interrupt,
    job,
    log,
    memory,
    model,
    policy,
    request,
    skill,
    tool,
    workflow,
)
from app.events.envelope import Event
from app.views.run import Run

StoredPayload = dict[str, Any]

MALFORMED: Final = "MALFORMED_AGENT_MESSAGE"
_COUNTED: Final = frozenset(
    {
        skill.RoleTransitioned.type,
        skill.RoleReported.type,
        execution.CheckpointCreated.type,
        execution.ContextCompacted.type,
        memory.MemoryLifecycle.type,
        memory.MemoryRecallCompleted.type,
        workflow.WorkflowStarted.type,
        workflow.WorkflowPhaseAdvanced.type,
        workflow.WorkflowPolicyGated.type,
        workflow.WorkflowCompleted.type,
        workflow.WorkflowAborted.type,
        workflow.SpecPhaseStarted.type,
        workflow.SpecPhaseBlocked.type,
        workflow.SpecPhaseCompleted.type,
        workflow.SpecPhaseVerified.type,
    }
)
"""Facts that a backend or a step reports and that are recorded once."""


@mutable(slots=True)
class Memo:
    answers: list[StoredPayload] = field(default_factory=list)
    """Completed model calls of the conversation, in order."""
    repairs: dict[str, StoredPayload] = field(default_factory=dict)
    """Completed model calls that mended a tool call, by call id."""
    judgements: dict[str, StoredPayload] = field(default_factory=dict)
    """Completed model calls that judged a content for a rule, by the hash of the request."""
    asides: dict[str, StoredPayload] = field(default_factory=dict)
    """Completed model calls that judged the run, by the evaluator's question."""
    intents: dict[str, StoredPayload] = field(default_factory=dict)
    """Tool calls that were begun, by call id; the newest attempt."""
    results: dict[str, StoredPayload] = field(default_factory=dict)
    starts: dict[str, StoredPayload] = field(default_factory=dict)
    """Steps of the upstream that were begun, by call id; the newest attempt. Their results are among `steps`."""
    asked_since_intent: dict[str, str] = field(default_factory=dict)
    """By call id: the recovery that was raised after the newest attempt. An answer to an older one is used up."""
    interrupts: list[StoredPayload] = field(default_factory=list)
    """Raised, in order, each with `answer` or `expired` once it has one."""
    commands: list[StoredPayload] = field(default_factory=list)
    """Injected, in order; the cancel is the executor's."""
    steps: dict[str, StoredPayload] = field(default_factory=dict)
    """Steps that are neither a model nor a tool call, by key."""
    facts: dict[str, list[StoredPayload]] = field(default_factory=dict)
    """Facts and signals that are recorded once each, by type, in order."""
    handed_over: bool = False
    """Whether the run's handoff to its backend is recorded."""
    altered: set[str] = field(default_factory=set)
    """Tool calls whose recorded arguments are not what was asked for: the guard or a hook changed them."""
    artifacts: list[StoredPayload] = field(default_factory=list)
    children: dict[str, Run] = field(default_factory=dict)
    """Runs of subagents, by the call that asked for them."""
    verdicts: list[StoredPayload] = field(default_factory=list)
    """Of evaluators about the artifacts of phases."""
    skill: StoredPayload | None = None
    worked_ms: int = 0
    """How long executors have worked on the run; waiting for a person does not count."""

    @classmethod
    def of(cls, run_id: str, family: Sequence[Event]) -> "Memo":
        """`family` is the events of the root run, its subagents' runs and nothing else, in order."""
        memo = cls(children=_children(run_id, family))
        claimed_at = 0
        for event in family:
            mine = event.run_id == run_id or event.payload.get("forRunId") == run_id
            if not mine and event.type not in _ANSWERS:
                continue
            if event.type in (request.RequestStarted.type, request.RequestResumed.type):
                claimed_at = event.at
            elif event.type not in _BY_PEOPLE:
                memo.worked_ms += max(0, event.at - claimed_at) if claimed_at else 0
                claimed_at = event.at if claimed_at else 0
            memo._apply(event, of_child=event.run_id != run_id)
        return memo

    def _apply(self, event: Event, of_child: bool) -> None:
        payload = event.payload
        match event.type:
            case model.ModelCompleted.type if payload.get("role") == "repair":
                self.repairs[payload["repairs"]] = payload
            case model.ModelCompleted.type if payload.get("role") == model.GUARDRAIL:
                self.judgements[payload["requestHash"]] = payload
            case model.ModelCompleted.type if payload.get("role") == model.JUDGE:
                self.asides[payload["aside"]] = payload
            case model.ModelCompleted.type:
                self.answers.append(payload)
            case tool.ToolInvoked.type:
                self.intents[payload["callId"]] = payload
                self.asked_since_intent.pop(payload["callId"], None)
            case tool.ToolResulted.type:
                self.results[payload["callId"]] = payload
            case interrupt.InterruptRaised.type if of_child or not payload.get("forRunId"):
                self.interrupts.append(dict(payload))
                if payload["kind"] == "recovery":
                    self.asked_since_intent[payload["callId"]] = payload["interruptId"]
            case interrupt.InterruptResolved.type:
                self._settle(payload["interruptId"], {"answer": payload["answer"], "answeredBy": payload["answeredBy"]})
            case interrupt.InterruptExpired.type:
                self._settle(payload["interruptId"], {"expired": True})
            case execution.CommandInjected.type if payload["command"] != "cancel":
                self.commands.append(payload)
            case execution.StepCompleted.type:
                self.steps[payload["key"]] = payload
            case policy.SchemaViolated.type if payload["code"] == MALFORMED:
                self.facts.setdefault(event.type, []).append(payload)
            case policy.GateEvaluated.type if payload.get("node"):
                self.verdicts.append(payload)
            case skill.SkillInvoked.type:
                self.skill = payload
            case adapter.AdapterEvent.type:
                self._apply_signal(payload)
            case job.JobRetryScheduled.type:
                self._forget_failures(event)
            case artifact.ArtifactCreated.type:
                self.artifacts.append(payload["artifact"])
            case tool.ToolGuarded.type if payload["outcome"] == "repaired":
                self.altered.add(payload["callId"])
            case policy.HookFired.type if payload["decision"] == "transform" and payload.get("callId"):
                self.altered.add(payload["callId"])
            case _ if event.type in _COUNTED:
                self.facts.setdefault(event.type, []).append(payload)

    def _apply_signal(self, payload: StoredPayload) -> None:
        signal = payload["event"]
        phase = signal["phase"]
        if phase in adapter.DELTAS or phase == adapter.TOOL_RESULT:
            return
        if phase == adapter.HANDOFF:
            self.handed_over = True
        elif phase == adapter.TOOL_START:
            self.starts[signal["callId"]] = signal
            self.asked_since_intent.pop(signal["callId"], None)
        else:
            self.facts.setdefault(adapter.AdapterEvent.type, []).append(payload)

    def _settle(self, interrupt_id: str, ending: StoredPayload) -> None:
        for asked in self.interrupts:
            if asked["interruptId"] == interrupt_id:
                asked |= ending

    def _forget_failures(self, event: Event) -> None:
        """A new attempt tries again what made the last one fail. What was completed stays, also what failed and was
        given to a model as an answer: the model has gone on from there."""
        direct = f"call_{event.run_id}"  # the call of a direct request, which has no model
        if self.results.get(direct, {}).get("error") is not None:
            del self.results[direct]
            self.intents.pop(direct, None)
        failed = [key for key, run in self.children.items() if run.error is not None and run.last_seq <= event.seq]
        for key in failed:
            if (self.children[key].error or {}).get("retryable"):
                del self.children[key]

    def of_call(self, kind: str, call_id: str) -> StoredPayload | None:
        """The newest interrupt of that kind for a tool call."""
        found = (it for it in reversed(self.interrupts) if it["kind"] == kind and it.get("callId") == call_id)
        return next(found, None)

    def recovery(self, call_id: str) -> StoredPayload | None:
        """The question whether a call that was cut off may be repeated, if it was raised after the newest attempt."""
        asked = self.of_call("recovery", call_id)
        return asked if asked is not None and self.asked_since_intent.get(call_id) == asked["interruptId"] else None


_ANSWERS: Final = frozenset({interrupt.InterruptResolved.type, interrupt.InterruptExpired.type})
_BY_PEOPLE: Final = _ANSWERS | {execution.CommandInjected.type, log.ProgressNarration.type}
"""What is recorded while no executor works on the run: answers, commands, and narration of them."""


def _children(run_id: str, family: Iterable[Event]) -> dict[str, Run]:
    runs: dict[str, Run] = {}
    asked: dict[str, str] = {}
    for event in family:
        if event.run_id is None:
            continue
        if event.type == request.RequestQueued.type and event.payload.get("parentRunId") == run_id:
            runs[event.run_id] = Run(event.run_id, event.thread_id, first_seq=event.seq)
            asked[event.run_id] = event.payload["callId"]
        if event.run_id in runs:
            runs[event.run_id].apply(event)
            runs[event.run_id].last_seq = event.seq
    return {asked[child]: run for child, run in runs.items()}
