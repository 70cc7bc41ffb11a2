"""Asks the hooks of a point, one after the other: the higher priority first, then by name.

A transform is what the next one sees; the first denial ends it. A handler that throws, is late, answers something
else than a decision, or transforms into what the point's schema refuses, denies. Every decision comes back as
an event to be recorded by whoever asked, all of one firing together, so that a resumed run can take them from there
(`recall`) and asks nobody twice. Leaves to others: what a decision does to the run.
"""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from hashlib import sha256
from typing import Any, Final, Literal

from app.core import json
from app.core.clock import Clock, SystemClock
from app.core.decisions import Allow, Decision, Deny, Transform
from app.core.json import JsonError, JsonObject
from app.core.schemas import Issue, SchemaRegistry
from app.core.value import value
from app.events.catalog.policy import HookFired, SchemaViolated
from app.events.catalog.values import IssueValue
from app.events.recorder import PayloadEntry
from app.policy.contract import About, Hook, HookContext, Point
from app.policy.points import RULES

_REASON_LENGTH: Final = 2000  # characters; a reason is for people
_DECISION_SCHEMA: Final = "hook_decision_v1"


@value(frozen=True, slots=True)
class Fired:
    """What was decided, the subject after all changes, and the events that say so, in order."""

    decision: Decision
    subject: JsonObject
    entries: tuple[PayloadEntry, ...] = ()


@value(frozen=True, slots=True)
class _HookAnswer:
    """One handler's decision, with the violation that made it one if it is a denial for nonsense."""

    decision: Decision
    violation: SchemaViolated | None = None


class HookRunner:
    def __init__(self, hooks: Iterable[Hook] = (), *, schemas: SchemaRegistry, clock: Clock | None = None) -> None:
        self._schemas, self._clock = schemas, clock or SystemClock()
        ordered = sorted(hooks, key=lambda hook: (-hook.priority, hook.name))
        self._at = {point: tuple(hook for hook in ordered if point in hook.points) for point in Point}

    def asks(self, point: Point, subject: Mapping[str, Any], about: About) -> bool:
        """Whether anybody would be asked; if not, the default holds and nothing is recorded."""
        hooks = self._at[point]
        return bool(hooks) and any(hook.applies(subject, about) for hook in hooks)

    def any_at(self, *points: Point) -> bool:
        return any(map(self._at.__getitem__, points))

    def patience(self, *points: Point) -> float:
        """Seconds that asking at one of these points may take in all."""
        return max((sum(hook.timeout_seconds for hook in self._at[point]) for point in points), default=0.0)

    def unasked(self, point: Point, subject: JsonObject) -> Fired:
        """What holds when nobody is asked."""
        return Fired(RULES[point].default, subject)

    async def fire(
        self, point: Point, subject: JsonObject, about: About, *, key: str | None = None, call_id: str | None = None
    ) -> Fired:
        asked = [hook for hook in self._at[point] if hook.applies(subject, about)]
        if not asked:
            return self.unasked(point, subject)
        digest = subject_hash(subject) if key is not None else None
        decision: Decision = Allow()
        entries: list[PayloadEntry] = []
        for hook in asked:
            started = self._clock.monotonic()
            answer = await self._ask(hook, point, subject, about, call_id)
            took = round((self._clock.monotonic() - started) * 1000)
            actor = f"hook:{hook.name}"
            if answer.violation is not None:
                entries.append(PayloadEntry(answer.violation, actor=actor))
            fired = _fired_event(point, hook, answer.decision, key, digest, call_id, took)
            entries.append(PayloadEntry(fired, actor=actor))
            decision, subject = _go_on(point, decision, subject, answer.decision)
            if isinstance(decision, Deny):
                break
        return Fired(decision, subject, tuple(entries))

    async def _ask(
        self, hook: Hook, point: Point, subject: JsonObject, about: About, call_id: str | None
    ) -> _HookAnswer:
        ctx = HookContext(hook.name, point, about, hook.timeout_seconds)
        try:
            async with asyncio.timeout(hook.timeout_seconds):
                # A copy: what a handler does to its input must change nothing.
                answer = await hook.handler.decide(json.loads(json.dumps(subject)), ctx)
        except TimeoutError:
            return _HookAnswer(Deny("the hook did not answer in time", hook.name))
        except Exception as error:
            # Its message may hold anything, a secret too; the type is enough to find the place.
            return _HookAnswer(Deny(f"the hook failed with {type(error).__name__}", hook.name))
        decision = self._parse(hook, answer)
        if not isinstance(decision, Transform):
            return decision if isinstance(decision, _HookAnswer) else _HookAnswer(decision)
        return self._checked(hook, point, subject, decision, call_id)

    def _parse(self, hook: Hook, answer: object) -> Decision | _HookAnswer:
        match answer:
            case Allow(reason):
                return Allow(_short(reason))
            case Deny(reason):
                return Deny(_short(reason) or "denied", hook.name)
            case Transform(changes, _, reason):
                return Transform(changes, hook.name, _short(reason))
            case Mapping():
                return self._parse_document(hook, dict(answer))
        return _HookAnswer(Deny("the hook gave no decision", hook.name))

    def _parse_document(self, hook: Hook, document: JsonObject) -> Decision | _HookAnswer:
        try:
            document = _copy(document)
        except JsonError:
            return _HookAnswer(Deny("the hook gave no decision", hook.name))
        issues = self._schemas.validate(_DECISION_SCHEMA, document)
        if issues:
            return _HookAnswer(Deny("the hook gave no decision", hook.name), _violated(_DECISION_SCHEMA, issues, hook))
        reason = document.get("reason")
        match document["decision"]:
            case "allow":
                return Allow(reason)
            case "deny":
                return Deny(reason or "denied", hook.name)
        return Transform(document["output"], hook.name, reason)

    def _checked(
        self, hook: Hook, point: Point, subject: JsonObject, wanted: Transform, call_id: str | None
    ) -> _HookAnswer:
        rules = RULES[point]
        denied = Deny("the hook changed the subject to something invalid", hook.name)
        if rules.schema is None:
            return _HookAnswer(Deny(f"nothing can be changed at {point}", hook.name))
        try:
            changes = _copy(wanted.changes)
        except JsonError as error:
            issues = [Issue("", error.failure.message)]
        else:
            issues = self._schemas.validate(rules.schema, changes)
            objection = None if issues else rules.objection(subject, changes)
            if objection is not None:
                issues = [Issue("", objection)]
        if issues:
            return _HookAnswer(denied, _violated(rules.schema, issues, hook, point, call_id))
        return _HookAnswer(Transform(rules.normal(subject, changes), hook.name, wanted.reason))


def recall(point: Point, subject: JsonObject, recorded: Sequence[Mapping[str, Any]]) -> Fired:
    """What the recorded decisions of one firing came to, given the payloads of its events in order."""
    if not recorded:
        return Fired(RULES[point].default, subject)
    decision: Decision = Allow()
    for one in recorded:
        again: Decision
        match one["decision"]:
            case "deny":
                again = Deny(one.get("reason") or "denied", one["handler"])
            case "transform":
                again = Transform(dict(one["output"]), one["handler"], one.get("reason"))
            case _:
                again = Allow(one.get("reason"))
        decision, subject = _go_on(point, decision, subject, again)
    return Fired(decision, subject)


def subject_hash(subject: Mapping[str, Any]) -> str:
    return sha256(json.canonical(subject)).hexdigest()


def _go_on(point: Point, before: Decision, subject: JsonObject, decision: Decision) -> tuple[Decision, JsonObject]:
    """The chain after one more decision: changes add up, a denial stands, an approval changes nothing."""
    match decision:
        case Deny():
            return decision, subject
        case Transform():
            earlier = before.changes if isinstance(before, Transform) else {}
            return (
                Transform(earlier | decision.changes, decision.by, decision.reason),
                RULES[point].advance(subject, decision.changes),
            )
    return (before if isinstance(before, Transform) else decision), subject


def _fired_event(
    point: Point, hook: Hook, decision: Decision, key: str | None, digest: str | None, call_id: str | None, took: int
) -> HookFired:
    names: dict[type, Literal["allow", "deny", "transform"]] = {
        Allow: "allow",
        Deny: "deny",
        Transform: "transform",
    }
    output = decision.changes if isinstance(decision, Transform) else None
    return HookFired(
        hook=point,
        handler=hook.name,
        decision=names[type(decision)],
        reason=decision.reason,
        output=output,
        key=key,
        subject_hash=digest,
        call_id=call_id,
        duration_ms=took,
    )


def _violated(
    schema: str, issues: Sequence[Issue], hook: Hook, point: Point | None = None, call_id: str | None = None
) -> SchemaViolated:
    return SchemaViolated(
        schema_name=schema,
        boundary=f"hook.{point or hook.name}",
        code="GATE_DENIED",
        call_id=call_id,
        issues=[IssueValue(path=issue.path, message=issue.message) for issue in issues],
    )


def _short(reason: object) -> str | None:
    return None if reason is None else str(reason)[:_REASON_LENGTH]


def _copy(value: Mapping[str, Any]) -> JsonObject:
    """As JSON that can be stored, and out of reach of whoever made it."""
    copied: JsonObject = json.loads_strict(json.canonical(value))
    return copied
