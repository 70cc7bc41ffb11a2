"""Answers to interrupts: checked against their kind, decided once, then the run goes on."""

from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final

from app.core.errors import Failure
from app.core.principal import Principal
from app.core.schemas import Issue, Validator
from app.events import ports
from app.events.catalog import Payload
from app.events.catalog.interrupt import InterruptResolved
from app.events.ports import Refused
from app.events.recorder import PayloadEntry, Recorder, Scope
from app.runtime.scheduler import Scheduler
from app.views.interrupt import Interrupt
from app.views.ports import Reader


def _decision(*words: str, **more: Any) -> Validator:
    properties = {"decision": {"enum": list(words)}, **more}
    return Validator(
        {"type": "object", "required": ["decision"], "properties": properties, "additionalProperties": False}
    )


_SHAPES: Final = {
    "approval": Validator(
        {
            "type": "object",
            "additionalProperties": False,
            "required": ["decision"],
            "properties": {
                "decision": {"enum": ["approve", "deny"]},
                "reason": {"type": "string"},
                "scope": {"enum": ["session"]},
            },
        }
    ),
    "question": Validator(
        {
            "type": "object",
            "required": ["answers"],
            "properties": {"answers": {"type": "object"}, "decision": {"enum": ["decline", "cancel"]}},
            "additionalProperties": False,
        }
    ),
    "external": Validator(
        {
            "type": "object",
            "oneOf": [{"required": ["output"]}, {"required": ["error"]}],
            "properties": {"output": {}, "error": {"type": "string"}},
            "additionalProperties": False,
        }
    ),
    "recovery": _decision("retry", "use", "fail", output={}),
    "paused": _decision("resume"),
}


Follows = tuple[Sequence[Payload], Sequence[ports.Condition]]
FollowUp = Callable[[Principal, Interrupt, dict[str, Any]], Awaitable[Follows | Failure]]


async def _nothing_follows(_who: Principal, _asked: Interrupt, _answer: dict[str, Any]) -> Follows:
    return (), ()


class NotAnswered:
    """Why an answer was not taken."""

    def __init__(self, failure: Failure, issues: list[Issue] | None = None, winner: str | None = None) -> None:
        self.failure, self.issues, self.winner = failure, issues, winner


class InterruptAnswers:
    def __init__(self, recorder: Recorder, reader: Reader, scheduler: Scheduler) -> None:
        self._recorder, self._reader, self._scheduler = recorder, reader, scheduler
        self.follow_up: FollowUp = _nothing_follows
        """Asked what else is recorded, and under which conditions, with an answer to a question that no run asked."""
        self.denied: Callable[[str, str, str], None] = lambda _tenant, _principal, _reason: None
        """Called for each answer by somebody who may not give it, for the audit: tenant, principal, reason."""

    async def answer(
        self,
        who: Principal,
        interrupt_id: str,
        answer: dict[str, Any],
        with_events: Sequence[Payload | PayloadEntry] = (),
        *,
        first: Callable[[str], Awaitable[object]] | None = None,
    ) -> Interrupt | NotAnswered:
        """The first answer wins; a later one learns who gave it. `with_events` are recorded in the same commit.

        `first` is done with the run before it goes on.
        """
        asked = await self._reader.interrupt(who.tenant, interrupt_id)
        if asked is None:
            return NotAnswered(Failure("INTERRUPT_NOT_FOUND", "There is no such interrupt."))
        if asked.kind == "recovery" and not who.may("interrupts:recover"):
            return NotAnswered(Failure("FORBIDDEN", "Only an operator may answer an interrupt of kind recovery."))
        if (why := not_the_approver(who, asked)) is not None:
            self.denied(who.tenant, who.id, f"approver {asked.approver}")
            return NotAnswered(Failure("APPROVER_NOT_ALLOWED", why))
        if asked.kind == "timer":
            message = "A timer takes no answer: it fires by itself; cancel the run to end it."
            return NotAnswered(Failure("ANSWER_INVALID", message))
        if issues := _SHAPES[asked.kind].issues(answer):
            return NotAnswered(
                Failure("ANSWER_INVALID", f"This is not a valid answer to an interrupt of kind {asked.kind}."), issues
            )
        scope = Scope(who.tenant, asked.thread_id, asked.run_id, actor=who.actor)
        resolved = InterruptResolved(interrupt_id=interrupt_id, answer=answer, answered_by=who.actor)
        conditions: list[ports.Condition] = [ports.InterruptOpen(interrupt_id)]
        if asked.run_id is None and asked.status == "open":
            follows = await self.follow_up(who, asked, answer)
            if isinstance(follows, Failure):
                return NotAnswered(follows)
            with_events = [*with_events, *follows[0]]
            conditions += follows[1]
        given = await self._recorder.record(scope, *with_events, resolved, conditions=conditions)
        if isinstance(given, Refused):
            return NotAnswered(given.failure, None, given.winner)
        if asked.run_id is not None:
            if first is not None:
                await first(asked.run_id)
            self._scheduler.wake(who.tenant, asked.thread_id, asked.run_id)
        answered = await self._reader.interrupt(who.tenant, interrupt_id)
        assert answered is not None
        return answered


def not_the_approver(who: Principal, asked: Interrupt) -> str | None:
    """Why this principal may not answer an approval, by the rule that was stored with the question."""
    rule = asked.approver or "anyone"
    if rule == "anyone":
        return None
    if rule == "other":
        # Whose submission is not known could be anybody's: then nobody is surely another.
        if asked.submitted_by is not None and asked.submitted_by != who.actor:
            return None
        return "this call must be approved by somebody else than who submitted the run"
    role = rule.removeprefix("role:")
    return None if rule.startswith("role:") and role in who.roles else f"this call must be approved by the role {role}"
