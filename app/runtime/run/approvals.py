"""Approvals of one run's tool calls: asked for, found again, and used once.

An approval holds for one run, one call of it (by our id), one tool as it was described when the question was asked, and
one set of arguments. An answer with `scope: session`, yes or no, holds for later calls in the thread of the same tool,
described the same, with the same arguments; a no prevails. Leaves to others: who may answer (`interrupts`), whether a
call needs an approval at all (the gateway).
"""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any, Final

from app.core.decisions import Approval, Approved, NotApproved
from app.core.ids import new_id
from app.core.suspend import Suspended
from app.core.value import value
from app.events.catalog.interrupt import InterruptRaised
from app.runtime.run.run_log import RunLog
from app.tools.contract import (
    CallScope,
    SessionLimits,
    ToolDefinition,
    ToolRequest,
    definition_hash,
    named_by,
    writes_named_files,
)
from app.tools.registry import Registry
from app.views.interrupt import Interrupt
from app.views.ports import Reader

SESSION: Final = "session"
OTHER: Final = "other"

_PAGE: Final = 1000
_MAX_PAGES: Final = 10
"""Of a thread's answered questions that are looked through for one that holds for the session; beyond that a person is
asked again."""

CHANGED: Final = "TOOL_SCHEMA_CHANGED"


@value(frozen=True, slots=True)
class Question:
    """What an approval is about."""

    tool: str
    argument_hash: str
    schema_hash: str
    approver: str


Granted = Callable[[Question, str | None], Awaitable[Interrupt | None]]
"""An answer that holds for the session, if there is one; asked with who submitted the run."""


class Approvals:
    def __init__(self, log: RunLog, granted: Granted, *, who: str, submitted_by: str | None) -> None:
        self._log, self._granted = log, granted
        self._who, self._submitted_by = who, submitted_by

    async def approve(self, call: ToolRequest, definition: ToolDefinition, digest: str) -> Approval:
        question = Question(definition.name, digest, definition_hash(definition), definition.approver)
        asked = self._log.memo.of_call("approval", call.id)
        if asked is None:
            held = await self._granted(question, self._submitted_by)
            if held is not None:
                return _held(held)
            raise await self._log.raise_interrupt(self._raised(call, question, writes_named_files(definition)))
        if asked.get("expired"):
            return NotApproved("the question was not answered in time")
        answer = asked.get("answer")
        if answer is None:
            raise Suspended(asked["interruptId"])
        by = asked.get("answeredBy")
        if answer["decision"] != "approve":
            return NotApproved(answer.get("reason"), by)
        return _mismatch(asked, question) or Approved(by, asked["interruptId"])

    def _raised(self, call: ToolRequest, question: Question, changes_files: bool) -> InterruptRaised:
        return InterruptRaised(
            interrupt_id=new_id("interrupt"),
            kind="approval",
            expires_at=self._log.expiry(),
            tool=question.tool,
            title=f"May {self._who} use {question.tool}?",
            call_id=call.id,
            arguments=call.arguments,
            argument_hash=question.argument_hash,
            schema_hash=question.schema_hash,
            approver=question.approver,
            submitted_by=self._submitted_by,
            changes_files=changes_files or None,
        )


def with_session_controls(scope: CallScope, asked: Mapping[str, Any], registry: Registry) -> CallScope:
    """What the conversation asks for makes the workspace's rules stricter, or leaves them as they are. Concerns the
    tools of `registry`."""
    if (wanted := asked.get("sessionLimits")) is not None:
        watched = wanted.get("approvalTools") or ()
        ask = frozenset(name for name in scope.allowed if named_by(name, watched))
        scope = replace(scope, limits=limits_of(wanted), always_ask=scope.always_ask | ask)
    match asked.get("approvalPolicy"):
        case "never":
            return replace(scope, ask_nobody=True)
        case "untrusted":
            known = ((name, registry.find(name)) for name in scope.allowed)
            acting = {name for name, found in known if found is not None and found.definition.effect != "readonly"}
            return replace(scope, always_ask=scope.always_ask | acting)
    return scope


def limits_of(wanted: Mapping[str, Any]) -> SessionLimits:
    """A `cwd` is a folder of the tenant's files, whether or not it begins with a slash. One that leaves them has no
    files beneath it."""
    steps = [step for step in wanted.get("cwd", "").replace("\\", "/").split("/") if step not in ("", ".")]
    return SessionLimits(
        network=wanted.get("networkAccess") != "restricted",
        writes=wanted.get("filesystemSandbox") != "read-only",
        folder="/".join("-" if step == ".." else step for step in steps) or None,
        tools=tuple(wanted["allowedTools"]) if "allowedTools" in wanted else None,
        denied=tuple(wanted.get("deniedTools") or ()),
    )


def _held(one: Interrupt) -> Approval:
    answer = one.answer or {}
    if answer["decision"] == "approve":
        return Approved(one.answered_by, one.id)
    return NotApproved(answer.get("reason") or "such calls were declined for the session", one.answered_by)


def _mismatch(asked: Mapping[str, Any], question: Question) -> NotApproved | None:
    if asked.get("tool") != question.tool:
        return NotApproved("the approval was for another tool")
    if asked.get("argumentHash") != question.argument_hash:
        return NotApproved("the approval was for other arguments")
    if asked.get("schemaHash") not in (None, question.schema_hash):  # none: asked by an earlier version
        message = f"{question.tool} was changed after its approval was asked for; call it again to ask anew"
        return NotApproved(message, code=CHANGED)
    return None


def session_grants(reader: Reader, tenant: str, thread_id: str) -> Granted:
    """The answers of a thread that hold for its later calls."""
    return partial(_granted, reader, tenant, thread_id)


async def _granted(
    reader: Reader, tenant: str, thread_id: str, question: Question, submitted_by: str | None
) -> Interrupt | None:
    after, granted = "", None
    for _ in range(_MAX_PAGES):
        page = await reader.interrupts(tenant, thread_id=thread_id, status="resolved", after=after, limit=_PAGE)
        for one in page:
            if _holds(one, question, submitted_by):
                if (one.answer or {})["decision"] != "approve":
                    return one  # of two answers to two questions that were open at once
                granted = granted or one
        if len(page) < _PAGE:
            break
        after = page[-1].id
    return granted


def _holds(one: Interrupt, question: Question, submitted_by: str | None) -> bool:
    answer = one.answer or {}
    if one.kind != "approval" or answer.get("scope") != SESSION:
        return False
    same = (one.tool, one.argument_hash, one.schema_hash) == (
        question.tool,
        question.argument_hash,
        question.schema_hash,
    )
    if answer.get("decision") != "approve":
        return same
    # Whoever answers must be somebody else than who asks now; and a rule that was made stricter asks again.
    by_other = question.approver != OTHER or one.answered_by != submitted_by
    return same and one.approver == question.approver and by_other
