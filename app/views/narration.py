"""Narration: what a run does, in sentences for people, derived from one event at a time.

Templates only, no model: the same event always gives the same words, and nothing that runs ever reads them. Leaves to
the recorder: writing a sentence beside the event it tells of; to the workspace: whether anybody wants it.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from app.events.catalog import execution, interrupt, model, policy, request, skill, tool, workflow

Told = Mapping[str, Any]
Sentence = Callable[[Told], str | None]

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


def _moved(told: Told) -> str | None:
    if told["to"] == "FAIL" and told.get("reason") == skill.VERDICT_FAIL:
        return "The work did not pass its review."
    return _STATES.get(told["to"])


def _reported(told: Told) -> str | None:
    report = told["report"]
    if told["role"] == "lead" and "intent" in report:
        return f"The goal: {_quoted(report['intent'])}"
    if told["role"] == "planner" and isinstance(report.get("steps"), list):
        count = len(report["steps"])
        return f"The plan has {count} step{'' if count == 1 else 's'}."
    return None


def _resulted(told: Told) -> str | None:
    if told["ok"]:
        return None
    return f"{told['tool']} did not work: {_quoted(told['error']['code'])}."


def _raised(told: Told) -> str:
    return f"{_PAUSES[told['kind']]}: {_quoted(told['title'])}"


def _retried(told: Told) -> str:
    if told.get("nextModel"):
        return f"{told['model']} did not answer; trying {told['nextModel']}."
    if told.get("waitsFor") == "breaker":
        return f"{told['model']} is down; waiting for it."
    return f"{told['model']} did not answer; trying again."


def _hooked(told: Told) -> str | None:
    if told["decision"] == "allow":
        return None
    done = "denied" if told["decision"] == "deny" else "changed"
    return f"{told['handler']} {done} it at {told['hook']}."


_BRIEF: Final[Mapping[str, Sentence]] = {
    request.RequestResumed.type: lambda told: "Going on.",
    skill.SkillInvoked.type: lambda told: f"Using the skill {told['skill']}.",
    skill.RoleTransitioned.type: _moved,
    skill.RoleReported.type: _reported,
    tool.ToolInvoked.type: lambda told: f"Using {told['tool']}.",
    tool.ToolResulted.type: _resulted,
    interrupt.InterruptRaised.type: _raised,
    interrupt.InterruptExpired.type: lambda told: "Nobody answered in time.",
    execution.CommandInjected.type: lambda told: _COMMANDS.get(told["command"]),
    execution.ContextCompacted.type: lambda told: "Summing up the conversation so far.",
    execution.BudgetExceeded.type: lambda told: f"The limit of {told['budget'].replace('_', ' ')} is reached.",
    model.ModelRetryScheduled.type: _retried,
    workflow.WorkflowPhaseAdvanced.type: lambda told: f"Now: {_quoted(told['toPhase'])}.",
}
_DETAILED: Final[Mapping[str, Sentence]] = {
    **_BRIEF,
    request.RequestStarted.type: lambda told: "Starting.",
    model.ModelRequested.type: lambda told: f"Asking {told['model']}.",
    tool.ToolResulted.type: lambda told: _resulted(told) or f"{told['tool']} has answered.",
    tool.ToolGuarded.type: lambda told: f"The call of {told['tool']} was {told['outcome']}.",
    policy.HookFired.type: _hooked,
    policy.SchemaViolated.type: lambda told: f"Something broke the schema {told['schemaName']}.",
}
_BY_STYLE: Final = {"brief": _BRIEF, "detailed": _DETAILED}


def narrate(event_type: str, payload: Told, style: str = "brief") -> str | None:
    """One sentence about the event, or None for what needs no words."""
    sentence = _BY_STYLE[style].get(event_type)
    return None if sentence is None else sentence(payload)


@dataclass(frozen=True, slots=True)
class TemplateNarrator:
    """The narrator that ships, as the recorder asks for one."""

    style: str = "brief"
    provider: str = PROVIDER

    def narrate(self, event_type: str, payload: Told) -> str | None:
        return narrate(event_type, payload, self.style)
