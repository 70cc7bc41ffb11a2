"""The audit of a run: whether its log records everything that must have happened, and what is missing.

Most facts are bound to others: a request has its answer, an intent its result, a question its end, a denied call its
denial. Where a bond hangs loose, the missing end is named. The run's own numbering finds whatever is bound to nothing.
Leaves to others: whether the events are genuine (`events.chain`), the bonds of roles (`audit_roles`), of hooks
(`audit_hooks`) and of cycles (`audit_cycles`).
"""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import field
from typing import Any, Final

from app.core.value import mutable, value
from app.events.catalog import artifact, execution, interrupt, model, policy, request, skill, tool
from app.events.envelope import Event
from app.views.audit_cycles import CycleAudit
from app.views.audit_hooks import ExpectedHook, HookAudit
from app.views.audit_roles import RoleAudit

PayloadMap = Mapping[str, Any]

BACKEND: Final = "backend:plan_work_review"
"""The actor of the events of a run that plans, works and reviews."""

MINIMUM: Final = (
    request.RequestQueued.type,
    policy.HookFired.type,
    skill.SkillInvoked.type,
    skill.RoleTransitioned.type,
    model.ModelRequested.type,
    model.ModelCompleted.type,
    tool.ToolInvoked.type,
    tool.ToolResulted.type,
    skill.RoleReported.type,
    skill.SkillCompleted.type,
    request.RequestCompleted.type,
)
"""What the Agent OS Runtime expects at least once in a successful session."""

PAIRS: Final[Mapping[str, tuple[str, tuple[str, ...]]]] = {
    skill.SkillInvoked.type: ("skill", (skill.SkillCompleted.type,)),
    "runtime.workflow.started": ("workflowId", ("runtime.workflow.completed", "runtime.workflow.aborted")),
    "runtime.memory.plugin.started": (
        "memoryId",
        ("runtime.memory.plugin.completed", "runtime.memory.plugin.failed"),
    ),
    interrupt.InterruptRaised.type: (
        "interruptId",
        (interrupt.InterruptResolved.type, interrupt.InterruptExpired.type),
    ),
}
"""Beginnings with the field that binds them to their ends."""
_STARTS: Final = {end: start for start, (_, ends) in PAIRS.items() for end in ends}

_EXPLAINED: Final = {
    "PROMPT_DENIED": policy.HookFired.type,
    "MALFORMED_AGENT_MESSAGE": policy.SchemaViolated.type,
    "POLICY_DENIED": "runtime.workflow.policy_gated",
    "EVIDENCE_MISSING": execution.ExecutionContractFailed.type,
    "BUDGET_EXCEEDED": execution.BudgetExceeded.type,
}
"""Failures of a run, and the event that must record where they come from."""

_REFUSALS: Final = frozenset({"TOOL_NOT_FOUND", "TOOL_NOT_ALLOWED", "INVALID_ARGUMENTS"})
_BEFORE_A_CLAIM: Final = frozenset(
    {
        request.RequestQueued.type,
        artifact.UndoPlanned.type,
        execution.CommandInjected.type,
        interrupt.InterruptResolved.type,
        interrupt.InterruptExpired.type,
        request.RequestCancelled.type,
    }
)
"""What others than the run's executor record."""
_ONLY_AFTER_A_CLAIM: Final = frozenset(
    {model.ModelRequested.type, request.RequestCompleted.type, request.RequestFailed.type}
)
"""What nobody records between an answer and the next claim; results of calls that ran in parallel to the asking one
may be."""


@value(frozen=True, slots=True)
class Missing:
    """A fact that the log must hold and does not. Without a type, only its number shows that it was there."""

    type: str | None
    subject: str | None
    reason: str

    def to_json(self) -> dict[str, Any]:
        return {"type": self.type, "subject": self.subject, "reason": self.reason}


@value(frozen=True, slots=True)
class Audit:
    """`absent` names what the Agent OS Runtime expects of a successful session and this one never had, such as hooks
    that nobody configured: worth knowing, and no gap in the log."""

    complete: bool
    missing: tuple[Missing, ...]
    counts: Mapping[str, int]
    absent: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        return {
            "complete": self.complete,
            "missing": [missing.to_json() for missing in self.missing],
            "counts": dict(self.counts),
            "absent": list(self.absent),
        }


def audit(
    events: Iterable[Event], hooks: Sequence[ExpectedHook] = (), dropped: Mapping[int, int] | None = None
) -> Audit:
    """Of one run's events, in their order, from the first one on; `hooks` are those that its agent had, `dropped` the
    stretches of numbers that retention dropped, each by its first."""
    fold = _Fold(expected=hooks, dropped=dropped or {})
    for event in events:
        fold.apply(event)
    fold.close()
    roles = BACKEND in fold.actors
    successful = fold.ended is not None and fold.ended.type == request.RequestCompleted.type
    absent = tuple(name for name in MINIMUM if not fold.counts[name]) if roles and successful else ()
    counts = dict(sorted(fold.counts.items()))
    return Audit(complete=not fold.missing, missing=tuple(fold.missing), counts=counts, absent=absent)


@mutable(slots=True)
class _Call:
    """A tool call: asked for by a model or a client, perhaps refused, begun, ended."""

    begun: bool = False
    ended: bool = False
    ok: bool = False
    direct: bool = False
    reported: bool = False
    """A direct call's result was reported to the caller."""
    denied: bool = False
    changed: bool = False
    refused: bool = False
    violated: bool = False


@mutable(slots=True)
class _Fold:
    missing: list[Missing] = field(default_factory=list)
    counts: Counter[str] = field(default_factory=Counter)
    actors: set[str] = field(default_factory=set)
    ended: Event | None = None
    number: int = 0
    epoch: int = 0
    owned: bool = False
    """Whether an executor holds the run, as far as the log shows."""
    negotiated: bool = False
    direct: str | None = None
    """The tool of a direct request."""
    child: bool = False
    """It works in its parent's lease, whose claims are its parent's to number."""
    open: dict[tuple[str, str], None] = field(default_factory=dict)
    """Beginnings without an end, by type and subject."""
    models: dict[str, bool] = field(default_factory=dict)
    """By message: whether its request is open."""
    retries: set[tuple[str, Any]] = field(default_factory=set)
    calls: dict[str, _Call] = field(default_factory=dict)
    asked: dict[str, PayloadMap] = field(default_factory=dict)
    cancelled: bool = False
    roles: RoleAudit = field(default_factory=RoleAudit)
    hooks: HookAudit = field(default_factory=HookAudit)
    cycles: CycleAudit = field(default_factory=CycleAudit)
    expected: Sequence[ExpectedHook] = ()
    dropped: Mapping[int, int] = field(default_factory=dict)

    def apply(self, event: Event) -> None:
        self._count(event)
        payload = event.payload
        if event.type in PAIRS:
            self.open[event.type, str(payload[PAIRS[event.type][0]])] = None
        elif event.type in _STARTS:
            self._end(event.type, payload)
        step = _STEPS.get(event.type)
        if step is not None:
            step(self, event, payload)
        self.roles.apply(event)
        self.hooks.apply(event)
        self.cycles.apply(event)

    def lacks(self, type: str | None, subject: str | None, reason: str) -> None:
        self.missing.append(Missing(type, subject, reason))

    def call(self, payload: PayloadMap) -> _Call:
        return self.calls.setdefault(str(payload.get("callId")), _Call())

    def _count(self, event: Event) -> None:
        self.counts[event.type] += 1
        self.actors.add(event.actor)
        while event.run_seq is not None and self.number < event.run_seq - 1:
            if (count := self.dropped.get(self.number + 1, 0)) > 0:
                self.number = min(self.number + count, event.run_seq - 1)
                continue
            self.number += 1
            self.lacks(None, str(self.number), f"event {self.number} of the run is not there")
        self.number = event.run_seq or self.number
        if self.ended is not None:
            self.lacks(None, None, f"{event.type} comes after the run's end")
        if not self.owned and event.type not in _CLAIMS:
            works = event.type not in _BEFORE_A_CLAIM if self.epoch == 0 else event.type in _ONLY_AFTER_A_CLAIM
            if works:
                self.lacks_claim(self.epoch + 1)

    def lacks_claim(self, epoch: int) -> None:
        kind = request.RequestStarted if epoch == 1 else request.RequestResumed
        self.lacks(kind.type, str(epoch), f"no event says who worked on the run at its claim number {epoch}")
        self.owned, self.epoch = True, epoch

    def _end(self, type: str, payload: PayloadMap) -> None:
        start = _STARTS[type]
        subject = str(payload[PAIRS[start][0]])
        if (start, subject) in self.open:
            del self.open[start, subject]
        else:
            self.lacks(start, subject, f"{type} ends what was never begun")
        if start == interrupt.InterruptRaised.type and not any(begun == start for begun, _ in self.open):
            self.owned = False  # the run is queued again; the next claim records who goes on

    # -- the end ---------------------------------------------------------------------------------------

    def close(self) -> None:
        if not self.counts[request.RequestQueued.type]:
            self.lacks(request.RequestQueued.type, None, "no event says what was asked for")
        if self.ended is None:
            wanted = f"{request.RequestCompleted.type} | {request.RequestFailed.type} | {request.RequestCancelled.type}"
            self.lacks(wanted, None, "the run has no end")
            return
        if self.ended.type == request.RequestCancelled.type and not self.cancelled:
            self.lacks(execution.CommandInjected.type, "cancel", "the run was cancelled by nobody")
        for start, subject in self.open:
            self.lacks(" | ".join(PAIRS[start][1]), subject, f"{start} has no end")
        if self.ended.type != request.RequestCancelled.type:
            self._close_calls()
        error = self.ended.payload.get("error") or {}
        cause = _EXPLAINED.get(error.get("code", ""))
        if cause is not None and not self.counts[cause]:
            self.lacks(cause, None, f"the run failed with {error['code']}, and no event says why")
        self.missing += [Missing(*found) for found in self.roles.close(self.ended)]
        self.missing += [Missing(*found) for found in self.cycles.close(self.ended)]
        self.missing += [Missing(*found) for found in self.hooks.close(self.ended, self.expected)]

    def _close_calls(self) -> None:
        """A cancelled run may leave calls behind; any other one has brought them to an end."""
        assert self.ended is not None
        for message, is_open in self.models.items():
            if is_open:
                wanted = f"{model.ModelCompleted.type} | {model.ModelFailed.type}"
                self.lacks(wanted, message, "a model was asked and neither answered nor failed")
        unknown = (self.ended.payload.get("error") or {}).get("code") == "TOOL_OUTCOME_UNKNOWN"
        answered = self.ended.type == request.RequestCompleted.type
        for call_id in self.asked if answered else ():
            if call_id not in self.roles.unheard:
                self.calls.setdefault(call_id, _Call())
        for call_id, call in self.calls.items():
            if not call.ended and not unknown and (call.begun or answered):
                self.lacks(tool.ToolResulted.type, call_id, "a tool was called and has no result")
            if call.direct and call.ok and not call.reported:
                self.lacks(
                    tool.ToolDirectCompleted.type, call_id, "a direct call succeeded and its end is not recorded"
                )
        if self.direct is not None and not self.counts[tool.ToolDirectStarted.type]:
            self.lacks(tool.ToolDirectStarted.type, self.direct, "a tool was asked for directly and never begun")


# -- one event each ------------------------------------------------------------------------------------


def _queued(fold: _Fold, event: Event, payload: PayloadMap) -> None:
    if fold.counts[event.type] > 1:
        fold.lacks(None, None, "the run begins twice")
    fold.direct, fold.child = payload.get("tool"), payload.get("parentRunId") is not None


def _claimed(fold: _Fold, event: Event, payload: PayloadMap) -> None:
    if event.type == request.RequestResumed.type and not fold.counts[request.RequestStarted.type]:
        fold.lacks_claim(1)
    for epoch in () if fold.child else range(fold.epoch + 1, payload["epoch"]):
        fold.lacks_claim(epoch)
    fold.owned, fold.epoch = True, payload["epoch"]
    if payload.get("reason") == "recovery":
        # Whoever held the run before is gone; what it had asked a model is asked again under another id.
        fold.models = dict.fromkeys(fold.models, False)


def _terminal(fold: _Fold, event: Event, payload: PayloadMap) -> None:
    fold.ended = event


def _commanded(fold: _Fold, event: Event, payload: PayloadMap) -> None:
    fold.cancelled = fold.cancelled or payload["command"] == "cancel"


def _negotiated(fold: _Fold, event: Event, payload: PayloadMap) -> None:
    fold.negotiated = True


def _retried(fold: _Fold, event: Event, payload: PayloadMap) -> None:
    fold.retries.add((payload["messageId"], payload.get("nextModel") or payload["attempt"]))


def _requested(fold: _Fold, event: Event, payload: PayloadMap) -> None:
    message, attempt = payload["messageId"], payload["attempt"]
    if not fold.negotiated:
        fold.lacks(model.ModelNegotiated.type, message, "a model was asked before one was chosen")
        fold.negotiated = True
    if fold.models.get(message):
        fold.lacks(model.ModelFailed.type, message, "a request was repeated, and no event says that it failed")
    again = attempt > 1 or message in fold.models
    if again and not {(message, attempt), (message, payload["model"])} & fold.retries:
        fold.lacks(model.ModelRetryScheduled.type, message, "a request was repeated, and no event says why")
    fold.models[message] = True


def _answered(fold: _Fold, event: Event, payload: PayloadMap) -> None:
    message = payload["messageId"]
    if not fold.models.get(message):
        fold.lacks(model.ModelRequested.type, message, f"{event.type} answers what was never asked")
    fold.models[message] = False
    # A repair belongs to the call that it repairs.
    calls = () if payload.get("repairs") else payload.get("toolCalls", ())
    # Large ones are kept outside of the event, and their results speak for themselves.
    for call in calls if isinstance(calls, list | tuple) else ():
        if "$blob" not in call:
            fold.asked[call["id"]] = call


def _guarded(fold: _Fold, event: Event, payload: PayloadMap) -> None:
    call = fold.call(payload)
    call.changed, call.refused = payload["outcome"] == "repaired", payload["outcome"] == "refused"


def _hooked(fold: _Fold, event: Event, payload: PayloadMap) -> None:
    if payload.get("callId") is not None:
        call = fold.call(payload)
        call.denied = call.denied or payload["decision"] == "deny"
        call.changed = call.changed or payload["decision"] == "transform"


def _violated(fold: _Fold, event: Event, payload: PayloadMap) -> None:
    if payload.get("callId") is not None:
        fold.call(payload).violated = True


def _invoked(fold: _Fold, event: Event, payload: PayloadMap) -> None:
    call, asked = fold.call(payload), fold.asked.get(payload["callId"])
    call.begun, call.ended = True, False
    same = asked is None or (asked["name"] == payload["tool"] and asked["args"] == payload["arguments"])
    if not same and not call.changed and b'"$blob"' not in event.payload_bytes:
        reason = "the tool was called otherwise than the model asked, and no event says who changed it"
        fold.lacks(f"{tool.ToolGuarded.type} | {policy.HookFired.type}", payload["callId"], reason)


def _resulted(fold: _Fold, event: Event, payload: PayloadMap) -> None:
    call, code = fold.call(payload), (payload.get("error") or {}).get("code")
    call.ended, call.ok = True, payload["ok"]
    subject = payload["callId"]
    # What was refused at the gate never began; a result that took time, or is good, did.
    if not call.begun and (payload["ok"] or "durationMs" in payload):
        fold.lacks(tool.ToolInvoked.type, subject, "a tool gave a result and was never begun")
    if code in _REFUSALS and not call.refused and not call.begun:
        fold.lacks(
            tool.ToolGuarded.type, subject, f"the call was refused with {code}, and no event says what was found"
        )
    if code == "GATE_DENIED" and not call.denied and not call.violated:
        fold.lacks(policy.HookFired.type, subject, "the call was denied, and no hook says so")


def _begun_directly(fold: _Fold, event: Event, payload: PayloadMap) -> None:
    fold.call(payload).direct = True


def _reported_directly(fold: _Fold, event: Event, payload: PayloadMap) -> None:
    call = fold.call(payload)
    call.reported = True
    if not call.direct:
        fold.lacks(tool.ToolDirectStarted.type, payload.get("callId"), "a direct call ended and was never begun")


_CLAIMS: Final = frozenset({request.RequestStarted.type, request.RequestResumed.type})
_STEPS: Final[Mapping[str, Callable[[_Fold, Event, PayloadMap], None]]] = {
    request.RequestQueued.type: _queued,
    **dict.fromkeys(_CLAIMS, _claimed),
    **dict.fromkeys(request.TERMINAL, _terminal),
    execution.CommandInjected.type: _commanded,
    model.ModelNegotiated.type: _negotiated,
    model.ModelRetryScheduled.type: _retried,
    model.ModelRequested.type: _requested,
    model.ModelCompleted.type: _answered,
    model.ModelFailed.type: _answered,
    tool.ToolGuarded.type: _guarded,
    policy.HookFired.type: _hooked,
    policy.SchemaViolated.type: _violated,
    tool.ToolInvoked.type: _invoked,
    tool.ToolResulted.type: _resulted,
    tool.ToolDirectStarted.type: _begun_directly,
    tool.ToolDirectCompleted.type: _reported_directly,
}
