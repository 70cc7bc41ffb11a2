"""A stored event with the line its run comes from, and the words that all spellings of it use.

Leaves to others: what each type of event becomes (`lime_turns`, `lime_calls`, `lime_decisions`, `lime_work`).
"""

from collections.abc import Callable, Mapping
from typing import Any

from app.core.value import value
from app.events.envelope import Event

Said = dict[str, Any]


@value(frozen=True, slots=True)
class Lineage:
    """Where a run comes from."""

    turn_id: str
    """The root run."""
    parent_run_id: str | None = None
    name: str | None = None
    """The agent, tool or workflow that it runs."""
    parent_task_id: str | None = None
    """The task that the parent works on, if the parent is itself a subagent."""


@value(frozen=True, slots=True)
class SpelledEvent:
    event: Event
    lineage: Lineage | None

    @property
    def payload(self) -> Mapping[str, Any]:
        return self.event.payload

    @property
    def is_child(self) -> bool:
        return self.lineage is not None and self.lineage.parent_run_id is not None

    @property
    def name(self) -> str:
        return (self.lineage.name if self.lineage is not None else None) or "agent"


def task_id(run_id: str) -> str:
    return f"task:{run_id}"


def say(name: str, kind: str, status: str, title: str, **more: Any) -> Said:
    return {"eventClass": name, "kind": kind, "status": status, "title": title, **more}


def review(source: SpelledEvent, name: str, status: str, title: str, shown: Said) -> Said:
    evidence = source.event.id
    return say(
        name,
        "evidence",
        status,
        title,
        owner="evidence",
        reviewId=evidence,
        evidenceId=evidence,
        evidenceRefs=[evidence],
        payload=shown | {"reviewId": evidence},
    )


def status(title: str, *names: str, status: str = "running", **more: Any) -> Callable[[SpelledEvent], Said]:
    """A note on the run's progress with some fields of the payload."""

    def spell(source: SpelledEvent) -> Said:
        picked = {name: source.payload.get(name) for name in names}
        return say("run.status", "state", status, title, payload=picked, **more)

    return spell
