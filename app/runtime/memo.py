"""What a run has already done, folded from its events: the results that re-entry gets back without acting.

A tool call is known by its id, a model call and a question by their order. Leaves to the context: what to do about
an intent that has no result.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from app.events.catalog import interrupt, model, tool
from app.events.envelope import Event

Told = dict[str, Any]


@dataclass(slots=True)
class Memo:
    answers: list[Told] = field(default_factory=list)
    """Completed model calls, in order."""
    intents: dict[str, Told] = field(default_factory=dict)
    """Tool calls that were begun, by call id; the newest attempt."""
    results: dict[str, Told] = field(default_factory=dict)
    interrupts: list[Told] = field(default_factory=list)
    """Raised, in order, each with `answer` or `expired` once it has one."""

    @classmethod
    def of(cls, events: Iterable[Event]) -> "Memo":
        memo = cls()
        by_id: dict[str, Told] = {}
        for event in events:
            told = event.payload
            match event.type:
                case model.ModelCompleted.type:
                    memo.answers.append(told)
                case tool.ToolInvoked.type:
                    memo.intents[told["callId"]] = told
                case tool.ToolResulted.type:
                    memo.results[told["callId"]] = told
                case interrupt.InterruptRaised.type:
                    by_id[told["interruptId"]] = raised = dict(told)
                    memo.interrupts.append(raised)
                case interrupt.InterruptResolved.type:
                    by_id[told["interruptId"]] |= {"answer": told["answer"], "answeredBy": told["answeredBy"]}
                case interrupt.InterruptExpired.type:
                    by_id[told["interruptId"]]["expired"] = True
        return memo

    def of_call(self, kind: str, call_id: str) -> Told | None:
        """The newest interrupt of that kind for a tool call."""
        found = (it for it in reversed(self.interrupts) if it["kind"] == kind and it.get("callId") == call_id)
        return next(found, None)

    def question(self, number: int) -> Told | None:
        asked = [it for it in self.interrupts if it["kind"] == "question"]
        return asked[number] if number < len(asked) else None
