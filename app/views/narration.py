"""Narration: what a run does, in sentences for people, derived from one event at a time.

Templates only, no model: the same event always gives the same words, and nothing that runs ever reads them. Leaves to
the recorder: recording a sentence next to the event it describes; to the workspace: whether anybody wants it.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final

from app.core.value import value
from app.events.catalog import execution, interrupt, model, policy, request, skill, tool, workflow

PayloadMap = Mapping[str, Any]
Sentence = Callable[[PayloadMap], str | None]

PROVIDER: Final = "template"
_MAX_QUOTE: Final = 200  # characters of somebody else's text

_STATES: Final = {
    "LEAD": "Reading the request.",
    "PLAN": "Making a plan.",
    "WORK": "Working on it.",
    "REVIEW": "Reviewing the work.",
    "REWORK": "Doing it over, by the reviewer's feedback.",
    "FAIL": None,
    "DONE": "The work has passed its review.",
}
_PAUSES: Final = {
    "approval": "Waiting for approval",
    "question": "Waiting for an answer",
    "external": "Waiting for a tool of the client's",
    "recovery": "Waiting for an operator",
    "paused": "Paused",
    "timer": "Waiting for a timer",
}
_COMMANDS: Final = {
    "steer": "A person gave directions.",
    "pause": "A person asked for a pause.",
    "switch_model_plan": "A person chose another model.",
    "set_limits": "A person changed the limits.",
}


def _quoted(text: Any) -> str:
    words = " ".join(str(text).split())
    return words if len(words) <= _MAX_QUOTE else words[: _MAX_QUOTE - 1] + "…"


def _moved(payload: PayloadMap) -> str | None:
    if payload["to"] == "FAIL" and payload.get("reason") == skill.VERDICT_FAIL:
        return "The work did not pass its review."
    return _STATES.get(payload["to"])


def _reported(payload: PayloadMap) -> str | None:
    report = payload["report"]
    if payload["role"] == "lead" and "intent" in report:
        return f"The goal: {_quoted(report['intent'])}"
    if payload["role"] == "planner" and isinstance(report.get("steps"), list):
        count = len(report["steps"])
        return f"The plan has {count} step{'' if count == 1 else 's'}."
    return None


def _resulted(payload: PayloadMap) -> str | None:
    if payload["ok"]:
        return None
    return f"{payload['tool']} did not work: {_quoted(payload['error']['code'])}."


def _raised(payload: PayloadMap) -> str:
    return f"{_PAUSES[payload['kind']]}: {_quoted(payload['title'])}"


def _expired(payload: PayloadMap) -> str | None:
    """A timer fired, and nobody was asked."""
    return None if payload["interruptId"].startswith("tmr_") else "Nobody answered in time."


def _retried(payload: PayloadMap) -> str:
    if payload.get("nextModel"):
        return f"{payload['model']} did not answer; trying {payload['nextModel']}."
    if payload.get("waitsFor") == "breaker":
        return f"{payload['model']} is down; waiting for it."
    return f"{payload['model']} did not answer; trying again."


def _hooked(payload: PayloadMap) -> str | None:
    if payload["decision"] == "allow":
        return None
    done = "denied" if payload["decision"] == "deny" else "changed"
    return f"{payload['handler']} {done} it at {payload['hook']}."


_BRIEF: Final[Mapping[str, Sentence]] = {
    request.RequestResumed.type: lambda payload: "Going on.",
    skill.SkillInvoked.type: lambda payload: f"Using the skill {payload['skill']}.",
    skill.RoleTransitioned.type: _moved,
    skill.RoleReported.type: _reported,
    tool.ToolInvoked.type: lambda payload: f"Using {payload['tool']}.",
    tool.ToolResulted.type: _resulted,
    interrupt.InterruptRaised.type: _raised,
    interrupt.InterruptExpired.type: _expired,
    execution.CommandInjected.type: lambda payload: _COMMANDS.get(payload["command"]),
    execution.ContextCompacted.type: lambda payload: "Summing up the conversation so far.",
    execution.BudgetExceeded.type: lambda payload: f"The limit of {payload['budget'].replace('_', ' ')} is reached.",
    model.ModelRetryScheduled.type: _retried,
    workflow.WorkflowPhaseAdvanced.type: lambda payload: f"Now: {_quoted(payload['toPhase'])}.",
}
_DETAILED: Final[Mapping[str, Sentence]] = {
    **_BRIEF,
    request.RequestStarted.type: lambda payload: "Starting.",
    model.ModelRequested.type: lambda payload: f"Asking {payload['model']}.",
    tool.ToolResulted.type: lambda payload: _resulted(payload) or f"{payload['tool']} has answered.",
    tool.ToolGuarded.type: lambda payload: f"The call of {payload['tool']} was {payload['outcome']}.",
    policy.HookFired.type: _hooked,
    policy.SchemaViolated.type: lambda payload: f"Something broke the schema {payload['schemaName']}.",
}
_BY_STYLE: Final = {"brief": _BRIEF, "concise": _BRIEF, "detailed": _DETAILED}


def narrate(event_type: str, payload: PayloadMap, style: str = "brief") -> str | None:
    """One sentence about the event, or None for what needs no words."""
    sentence = _BY_STYLE[style].get(event_type)
    return None if sentence is None else sentence(payload)


@value(frozen=True, slots=True)
class TemplateNarrator:
    """The narrator that ships, as the recorder asks for one."""

    style: str = "brief"
    provider: str = PROVIDER

    def narrate(self, event_type: str, payload: PayloadMap) -> str | None:
        return narrate(event_type, payload, self.style)
