"""Approvals of one run's tool calls: asked for, found again, and used once.

An approval holds for one run, one call of it (by our id), one tool as it was described when the question was asked, and
one set of arguments. An answer with `scope: session` holds for later calls in the thread of the same tool, described
the same, with the same arguments. Leaves to others: who may answer (`interrupts`), whether a call needs an approval at
all (the gateway).
"""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from app.core.decisions import Approval, Approved, NotApproved
from app.core.ids import new_id
from app.core.suspend import Suspended
from app.events.catalog.interrupt import InterruptRaised
from app.runtime.run.run_log import RunLog
from app.tools.contract import ToolDefinition, ToolRequest, definition_hash
from app.views.interrupt import Interrupt
from app.views.ports import Reader

SESSION: Final = "session"
OTHER: Final = "other"

_PAGE: Final = 1000
_MAX_PAGES: Final = 10
"""Of a thread's answered questions that are looked through for one that holds for the session; beyond that a person is
asked again."""

CHANGED: Final = "TOOL_SCHEMA_CHANGED"


@dataclass(frozen=True, slots=True)
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
                return Approved(held.answered_by, held.id)
            raise await self._log.raise_interrupt(self._raised(call, question))
        if asked.get("expired"):
            return NotApproved("the question was not answered in time")
        answer = asked.get("answer")
        if answer is None:
            raise Suspended(asked["interruptId"])
        by = asked.get("answeredBy")
        if answer["decision"] != "approve":
            return NotApproved(answer.get("reason"), by)
        return _mismatch(asked, question) or Approved(by, asked["interruptId"])

    def _raised(self, call: ToolRequest, question: Question) -> InterruptRaised:
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
        )


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
    after = ""
    for _ in range(_MAX_PAGES):
        page = await reader.interrupts(tenant, thread_id=thread_id, status="resolved", after=after, limit=_PAGE)
        for one in page:
            if _holds(one, question, submitted_by):
                return one
        if len(page) < _PAGE:
            return None
        after = page[-1].id
    return None


def _holds(one: Interrupt, question: Question, submitted_by: str | None) -> bool:
    answer = one.answer or {}
    if one.kind != "approval" or answer.get("decision") != "approve" or answer.get("scope") != SESSION:
        return False
    same = (one.tool, one.argument_hash, one.schema_hash) == (
        question.tool,
        question.argument_hash,
        question.schema_hash,
    )
    # Whoever answers must be somebody else than who asks now; and a rule that was made stricter asks again.
    by_other = question.approver != OTHER or one.answered_by != submitted_by
    return same and one.approver == question.approver and by_other
