"""A run of ours as the runs that LangGraph's clients see: one up to each pause, and one from each resumption on.

There a question ends a run with `success`, and the answer begins another; here it is one run that waits. The first
segment of a run has the run's id, those that follow are `<run>.<n>`. A pure fold of the thread's events from the run's
first one on. Leaves to others: what is said meanwhile, and the wire.
"""

from dataclasses import field
from typing import Any, Final

from app.core.value import mutable
from app.events.catalog import execution, interrupt, model, request, tool
from app.events.envelope import Event
from app.views.run import Run

_NATIVE: Final = frozenset({"backend:native", "backend:plan_work_review", "system"})
"""Who calls all tools of a message at once: only of these is it known when every one has come to its question."""
_AT_ONCE: Final = frozenset({"paused", "recovery"})
"""Pauses that come before anything else of a step."""
TYPES: Final = (
    request.RequestQueued.type,
    request.RequestStarted.type,
    request.RequestResumed.type,
    request.RequestSuspended.type,
    *sorted(request.TERMINAL),
    execution.CommandInjected.type,
    interrupt.InterruptRaised.type,
    interrupt.InterruptResolved.type,
    interrupt.InterruptExpired.type,
    model.ModelRequested.type,
    model.ModelCompleted.type,
    model.ModelFailed.type,
    tool.ToolResulted.type,
)
"""All that segments are made of."""


@mutable(slots=True)
class RunSegment:
    """One run, as it is seen there."""

    number: int
    first_seq: int
    last_seq: int
    created_at: int
    updated_at: int
    status: str = "pending"


@mutable(slots=True)
class _SegmentMember:
    """The run itself or one of its subagents."""

    parent: str | None
    foreign: bool = False
    thinking: bool = False
    one_by_one: bool = False
    unsettled: set[str] = field(default_factory=set)
    ended: bool = False


def segment_id(run_id: str, number: int) -> str:
    return run_id if number == 0 else f"{run_id}.{number}"


def parse_segment_id(text: str) -> tuple[str, int] | None:
    """None for what cannot be an id of ours."""
    run_id, dot, number = text.partition(".")
    if not dot:
        return (text, 0) if text else None
    if not run_id or not number.isascii() or not number.isdigit() or len(number) > 6 or number[0] == "0":
        return None
    return run_id, int(number)


class RunSegments:
    """Feed it the thread's events in order, from the run's first on."""

    def __init__(self, run_id: str) -> None:
        self._run_id = run_id
        self._run = Run(run_id, "")
        self._members: dict[str, _SegmentMember] = {}
        self.open: dict[str, dict[str, Any]] = {}
        """The questions that await an answer, by id; timers are none."""
        self.paused = False
        self.ended = False
        self.segments: list[RunSegment] = []

    @property
    def current(self) -> RunSegment:
        return self.segments[-1]

    def is_family(self, run_id: str | None) -> bool:
        return run_id in self._members

    def parent_of(self, run_id: str) -> str | None:
        return self._members[run_id].parent

    def apply(self, event: Event) -> None:
        if self.ended:
            return
        own = event.run_id == self._run_id
        if event.type == request.RequestQueued.type:
            self._queued(event, own=own)
        member = self._members.get(event.run_id or "")
        if member is None:
            return
        self._note(event, member)
        if own:
            self._run.apply(event)
        self._move(event)

    def _queued(self, event: Event, *, own: bool) -> None:
        parent = event.payload.get("parentRunId")
        if own:
            self._members[self._run_id] = _SegmentMember(None)
            self.segments.append(RunSegment(0, event.seq, event.seq, event.at, event.at))
        elif parent in self._members and event.run_id is not None:
            self._members[event.run_id] = _SegmentMember(parent)
            self._members[parent].unsettled.discard(event.payload.get("callId") or "")

    def _note(self, event: Event, member: _SegmentMember) -> None:
        payload = event.payload
        match event.type:
            case model.ModelRequested.type:
                member.thinking, member.foreign = True, event.actor not in _NATIVE
                member.one_by_one = payload["parameters"].get("parallelToolCalls") is False
            case model.ModelCompleted.type:
                member.thinking = False
                member.unsettled = {call["id"] for call in payload["toolCalls"]}
            case model.ModelFailed.type:
                member.thinking = False
            case tool.ToolResulted.type:
                member.unsettled.discard(payload["callId"])
            case interrupt.InterruptRaised.type if payload["kind"] != "timer":
                self.open[payload["interruptId"]] = payload
                asking = self._members.get(payload.get("forRunId") or "", member)
                asking.unsettled.discard(payload.get("callId") or "")
            case interrupt.InterruptResolved.type | interrupt.InterruptExpired.type:
                self.open.pop(payload["interruptId"], None)
            case _ if event.type in request.TERMINAL:
                member.ended = True

    def _move(self, event: Event) -> None:
        status = self._run.status
        if self._run.terminal:
            self.ended = True
            self.open.clear()
            if not self.paused:  # a run that ends while it waits had its last word before
                self._stand(event, {"completed": "success", "failed": "error", "cancelled": "interrupted"}[status])
            return
        if self.paused:
            if status == "waiting" or self._run.cancel_requested_at is not None:
                return  # a question that a cancel closes is no answer
            self.paused = False
            number = len(self.segments)
            self.segments.append(RunSegment(number, event.seq, event.seq, event.at, event.at))
        if status == "waiting" and self.open and self._is_quiet():
            self.paused = True
            self._stand(event, "success")
        else:
            self._stand(event, "pending" if status == "queued" else "running")

    def _stand(self, event: Event, status: str) -> None:
        current = self.segments[-1]
        current.last_seq, current.updated_at, current.status = event.seq, event.at, status

    def _is_quiet(self) -> bool:
        """Whether nothing goes on any more but what was asked: calls of the same message may still be at work."""
        if self._run.workflow is not None:
            return True
        if any(asked["kind"] in _AT_ONCE or not asked.get("callId") for asked in self.open.values()):
            return True
        return self._quiet(self._run_id)

    def _quiet(self, run_id: str) -> bool:
        member = self._members[run_id]
        if member.ended or member.foreign:
            return True
        if member.thinking or (member.unsettled and not member.one_by_one):
            return False
        children = [child for child, its in self._members.items() if its.parent == run_id and not its.ended]
        asks = any((asked.get("forRunId") or self._run_id) == run_id for asked in self.open.values())
        return (asks or bool(children)) and all(self._quiet(child) for child in children)
