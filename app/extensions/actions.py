"""What an extension may do: four actions, each through the gate that everybody passes, within the event's own scope.

A transcript row, a decision about an approval, a word to a running turn, a job. An agent that works for an extension
does the same by its `intents`. Leaves to `dispatch`: which action of a pass is carried out. Leaves to the intake:
whether it is allowed.
"""

from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping
from hashlib import sha256
from typing import Any, Final

from pydantic import ValidationError

from app.core import json
from app.core.clock import Clock
from app.core.principal import Principal
from app.core.value import value
from app.events.catalog.thread import TranscriptUpserted
from app.events.envelope import Event
from app.events.ports import KeyUnused
from app.extensions.loader import Extension
from app.runtime.automation.instruction import INTENTS, Instruction
from app.runtime.automation.session_jobs import SessionJobs, owner_of, payload_of
from app.runtime.intake.commands import Commands
from app.runtime.intake.interrupts import InterruptAnswers, NotAnswered
from app.runtime.intake.rejection import Rejected
from app.runtime.intake.threads import Threads
from app.views.ports import Reader
from app.views.thread import Thread

MAX_KEYS: Final = 5000
"""Idempotency keys that are remembered."""
ROUTE: Final = "extensions"
KEPT_MS: Final = 7 * 24 * 3600 * 1000
"""How long it is remembered that an action was performed: longer than a server is down between two tries."""
_LATE: Final = frozenset({"RUN_TERMINAL", "THREAD_DELETED", "THREAD_CLOSED"})


class ExtensionPrincipal(Principal):
    """An extension as who acts."""

    @property
    def actor(self) -> str:
        return f"extension:{self.id}"


@value(frozen=True, slots=True)
class ActionResult:
    status: str
    """performed; already_resolved, not_eligible, conflict; failed, forbidden, invalid."""
    details: dict[str, Any] | None = None
    job: dict[str, Any] | None = None


@value(frozen=True, slots=True)
class ActionScope:
    """Who acts, where, and what is open to it."""

    who: Principal
    thread_id: str
    run_id: str | None
    """The only turn it may name, if there is one."""
    may: frozenset[str]
    """Names of actions."""
    of_intent: bool = False
    """Whether an agent's answer asked for it, and not a handler."""


@value(frozen=True, slots=True)
class ActionRequest:
    """What was asked for, and for whom."""

    scope: ActionScope
    payload: Mapping[str, Any]
    once: KeyUnused
    """Of the event, the handler and the place of its answer: a pass that is made again repeats nothing."""


Act = Callable[[ActionRequest], Awaitable[ActionResult]]


def _coded(status: str, code: str) -> ActionResult:
    return ActionResult(status, {"code": code})


class ExtensionActions:
    def __init__(
        self,
        reader: Reader,
        threads: Threads,
        interrupts: InterruptAnswers,
        commands: Commands,
        jobs: SessionJobs,
        clock: Clock,
    ) -> None:
        self._clock = clock
        self._reader, self._threads, self._interrupts = reader, threads, interrupts
        self._commands, self._jobs = commands, jobs
        self._done: OrderedDict[tuple[str, str, str], tuple[str, ActionResult]] = OrderedDict()
        self._acts: dict[str, Act] = {
            "transcript.upsert": self._upsert,
            "approval.decide": self._decide,
            "turn.steer.create": self._steer,
            "queue.enqueue": self._enqueue,
        }

    async def perform(
        self, extension: Extension, event: Event, request: Mapping[str, Any], handler: int = 0, place: int = 0
    ) -> ActionResult:
        """`handler` and `place` say which answer of which handler it is."""
        may = frozenset(name for name in self._acts if extension.may_act(name))
        scope = ActionScope(_principal(extension.id, event.tenant), event.thread_id, event.run_id, may)
        if (refused := await self._refusal(scope, request)) is not None:
            return refused
        key, digest = request.get("idempotencyKey"), action_digest(request)
        known = (event.tenant, extension.id, key) if isinstance(key, str) else None
        if known is not None and (done := self._done.get(known)) is not None:
            return done[1] if done[0] == digest else _coded("conflict", "idempotency_conflict")
        result = await self._carry_out(scope, request, f"{event.id}:{extension.id}:{handler}:{place}")
        if known is not None:
            self._done[known] = (digest, result)
            while len(self._done) > MAX_KEYS:
                self._done.popitem(last=False)
        return result

    async def intend(self, scope: ActionScope, request: Mapping[str, Any], once: str) -> ActionResult:
        """Of an agent's answer; what was done under the key `once` is not done again."""
        refused = await self._refusal(scope, request)
        return await self._carry_out(scope, request, once) if refused is None else refused

    async def _refusal(self, scope: ActionScope, request: Mapping[str, Any]) -> ActionResult | None:
        name, payload = request.get("actionType"), request.get("payload")
        if not isinstance(name, str) or name not in self._acts or not isinstance(payload, Mapping):
            return _coded("invalid", "unknown_action")
        if name not in scope.may:
            return _coded("forbidden", "undeclared_capability")
        return await self._outside(scope, payload)

    async def _carry_out(self, scope: ActionScope, request: Mapping[str, Any], once: str) -> ActionResult:
        expires_at = self._clock.now_ms() + KEPT_MS
        asked = ActionRequest(scope, request["payload"], KeyUnused(ROUTE, once, "", "", expires_at))
        try:
            return await self._acts[request["actionType"]](asked)
        except (ValidationError, KeyError, TypeError, ValueError):
            return _coded("invalid", "invalid_payload")

    async def _outside(self, scope: ActionScope, payload: Mapping[str, Any]) -> ActionResult | None:
        """An extension acts where the event happened, and nowhere else."""
        for name in ("sessionId", "threadId", "sourceSessionId"):
            if payload.get(name) not in (None, scope.thread_id):
                return _coded("forbidden", "scope_session_mismatch")
        if scope.run_id is not None and payload.get("turnId") not in (None, scope.run_id):
            return _coded("forbidden", "scope_turn_mismatch")
        if payload.get("projectId") is not None:
            thread = await self._reader.thread(scope.who.tenant, scope.thread_id)
            if not isinstance(thread, Thread) or owner_of(thread) != payload["projectId"]:
                return _coded("forbidden", "scope_project_mismatch")
        return None

    async def _upsert(self, asked: ActionRequest) -> ActionResult:
        scope, payload = asked.scope, asked.payload
        given = {name: value for name, value in payload.items() if name not in ("sessionId", "threadId", "projectId")}
        row = TranscriptUpserted.model_validate({"turnId": scope.run_id or "", **given})
        entry = await self._threads.upsert(scope.who, scope.thread_id, row, [asked.once])
        return _refused(entry) if isinstance(entry, Rejected) else ActionResult("performed")

    async def _decide(self, request: ActionRequest) -> ActionResult:
        scope, payload, who = request.scope, request.payload, request.scope.who
        decision = {"accept": "approve", "decline": "deny"}.get(str(payload.get("decision")))
        if decision is None:
            return _coded("invalid", "invalid_payload")
        asked = await self._reader.interrupt(who.tenant, str(payload.get("approvalId")))
        if asked is None or asked.kind != "approval":
            return _coded("already_resolved", "unknown_approval")
        if asked.thread_id != scope.thread_id:
            return _coded("forbidden", "scope_session_mismatch")
        answer: dict[str, Any] = {"decision": decision}
        if decision == "deny" and payload.get("reason"):
            answer["reason"] = str(payload["reason"])[:1000]
        given = await self._interrupts.answer(who, asked.id, answer)
        if not isinstance(given, NotAnswered):
            return ActionResult("performed")
        code = given.failure.code
        if code == "INTERRUPT_NOT_OPEN":
            if asked.answered_by == who.actor and (asked.answer or {}).get("decision") == decision:
                return ActionResult("performed")  # by this pass, before the server died
            return _coded("already_resolved", "already_resolved")
        return _coded("forbidden" if code in ("APPROVER_NOT_ALLOWED", "FORBIDDEN") else "failed", code.lower())

    async def _steer(self, asked: ActionRequest) -> ActionResult:
        scope, payload = asked.scope, asked.payload
        turn, text = payload.get("turnId") or scope.run_id, payload.get("input")
        if not isinstance(turn, str) or not isinstance(text, str) or not 0 < len(text) <= 100_000:
            return _coded("invalid", "invalid_payload")
        run = await self._reader.run(scope.who.tenant, turn)
        if run is None or run.thread_id != scope.thread_id:
            return _coded("not_eligible", "unknown_turn")
        steered = await self._commands.inject(scope.who, turn, "steer", {"message": text}, also=[asked.once])
        return _refused(steered) if isinstance(steered, Rejected) else ActionResult("performed")

    async def _enqueue(self, asked: ActionRequest) -> ActionResult:
        """An instruction to an agent about the session in which the event happened."""
        scope, payload, key = asked.scope, asked.payload, f"{ROUTE}:{asked.once.key}"
        if payload.get("type", "agent_instruction") != "agent_instruction":
            return _coded("invalid", "unknown_job_type")
        job = payload.get("payload") or payload
        if (outside := await self._outside(scope, job)) is not None:
            return outside
        wanted = Instruction.model_validate({"turnId": scope.run_id or "", **job})
        acts: frozenset[str] | None = None
        if wanted.expect_response == INTENTS:
            if scope.of_intent:
                # Two agents could ask each other forever.
                return _coded("forbidden", "nested_action_intents")
            acts = scope.may
        taken = await self._jobs.instruct(scope.who, scope.thread_id, wanted, key, acts)
        if isinstance(taken, Rejected):
            return _refused(taken)
        run = taken.run
        shown = {
            "id": run.id,
            "type": "agent_instruction",
            "projectId": (run.job or {}).get("projectId"),
            "state": run.status,
        }
        # Its own job again: this pass was made before the server died.
        other = taken.replayed and payload_of(run).get("actionKey") != key
        return ActionResult("already_resolved" if other else "performed", None, shown)


def action_digest(request: Mapping[str, Any]) -> str:
    """The same for two requests that want the same."""
    return sha256(json.canonical([request.get("actionType"), request.get("payload")])).hexdigest()


def intent_scope(by: str, tenant: str, thread_id: str, run_id: str | None, may: frozenset[str]) -> ActionScope:
    """Of an agent that works for an extension: its deeds are the extension's, also to those who follow the log."""
    return ActionScope(_principal(by, tenant), thread_id, run_id, may, of_intent=True)


def _principal(name: str, tenant: str) -> ExtensionPrincipal:
    return ExtensionPrincipal(name, tenant, scopes=frozenset({"interrupts:answer", "runs:write"}))


def _refused(answer: Rejected) -> ActionResult:
    code = answer.failure.code
    if code == "IDEMPOTENCY_KEY_SEEN":
        return ActionResult("performed")  # by this pass, before the server died
    return _coded("already_resolved" if code in _LATE else "failed", code.lower())
